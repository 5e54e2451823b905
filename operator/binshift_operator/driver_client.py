"""The client of the control API of a dataflow's driver, with the token of its Secret: the one place that knows the responses.

Requests are bounded in time and size, and never retried. Responses are parsed defensively: a driver of another version may send more
or less, and what cannot be parsed counts as unknown.
"""

from __future__ import annotations

import json
import ssl
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar
from urllib.parse import quote, urlencode

import httpx2

from binshift_operator.driver_answers import REASON_CHARACTERS_MAX, parse_runtime, parse_snapshot_report
from binshift_operator.driver_tls import Trust
from binshift_operator.errors import TimedOut, Unreachable, error_of
from binshift_operator.model.driver_settings import DriverSettings
from binshift_operator.model.observed_runtime import ObservedRuntime
from binshift_operator.model.snapshots import ObservedSnapshot
from binshift_operator.model.specification import Dataflow

SECONDS_MAX: Final = 5.0  # for a response
CONNECT_SECONDS_MAX: Final = 2.0
"""For a connection: the kernel of even a busy driver accepts one at once; the address of a deleted pod never responds."""
TLS: Final = ssl.create_default_context()  # made once: that takes longer than a request
ANSWER_BYTES_MAX: Final = 4_000_000
Parsed = TypeVar("Parsed")


def make_client(trust: Trust | None = None) -> httpx2.Client:
    """A client for one request; it uses no proxy, as the driver is in the same cluster."""
    timeout = httpx2.Timeout(SECONDS_MAX, connect=CONNECT_SECONDS_MAX)
    return httpx2.Client(timeout=timeout, trust_env=False, verify=TLS if trust is None else trust.context())


@dataclass(frozen=True, slots=True)
class DriverClient:
    """The control API at ``url``; ``token`` authorises, and is never shown; ``trust``: by what its certificate is accepted, if it has one.

    Each call raises `OperatorError`.
    """

    url: str
    token: str = field(repr=False)
    trust: Trust | None = None

    def dataflow(self) -> ObservedRuntime:
        """The state of the whole dataflow."""
        return _parsed(parse_runtime, self._request("GET", "/v1/dataflow"))

    def put_target(self, dataflow: Dataflow, generation: int, workers: tuple[int, ...]) -> None:
        """Set the target."""
        policy = dataflow.migration
        body = {
            "owner": dataflow.key.uid,
            "generation": generation,
            "workers": list(workers),
            "strategy": policy.strategy,
            "batchSize": policy.batch_size,
            "preCopy": policy.pre_copy,
            "latencyTargetSeconds": policy.latency_target_seconds,
        }
        self._request("PUT", "/v1/target", body)

    def put_settings(self, settings: DriverSettings) -> None:
        """Change settings while the query runs."""
        self._request("PUT", "/v1/settings", {"maxEpochSeconds": settings.max_epoch_seconds})

    def rebalance(self) -> None:
        """Have the workers of the target share the bins by their present load."""
        self._request("POST", "/v1/rebalance", {})

    def cancel(self, migration: int, *, rollback: bool) -> None:
        """Cancel a migration."""
        self._request("DELETE", f"/v1/migrations/{migration}?rollback={str(rollback).lower()}")

    def activate(self) -> None:
        """Make a standby the active driver: its program starts its queries; no effect on the active one."""
        self._request("POST", "/v1/activate")

    def stop(self) -> None:
        """Stop the query after its running epoch; returns at once."""
        self._request("POST", "/v1/stop")

    def put_snapshot(self, name: str, location: str) -> ObservedSnapshot:
        """Request a snapshot; one that was requested before, or is complete at the location, is reported."""
        answer = self._request("PUT", f"/v1/snapshots/{quote(name)}", {"location": location})
        return _parsed(parse_snapshot_report, answer)

    def snapshot(self, name: str) -> ObservedSnapshot:
        """A snapshot that was requested; `NotThere` if the driver does not know it, as after its restart."""
        return _parsed(parse_snapshot_report, self._request("GET", f"/v1/snapshots/{quote(name)}"))

    def delete_snapshot(self, name: str, location: str) -> None:
        """Cancel the copy of a snapshot, and remove its files; no error if there are none."""
        self._request("DELETE", f"/v1/snapshots/{quote(name)}?{urlencode({'location': location})}")

    def _request(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Any:
        headers = {"Authorization": f"Bearer {self.token}", "Accept-Encoding": "identity"}
        named = {} if self.trust is None else {"sni_hostname": self.trust.server_name}
        try:
            with (
                make_client(self.trust) as client,
                client.stream(method, self.url + path, json=body, headers=headers, extensions=named) as answer,
            ):
                content = _read(answer)
            if answer.is_success:
                return json.loads(content) if content else None
        except httpx2.TimeoutException as error:
            raise TimedOut(str(error) or type(error).__name__) from error
        except (httpx2.HTTPError, httpx2.InvalidURL, ValueError) as error:
            refused = "" if self.trust is None else self.trust.refusal(error)
            raise Unreachable(refused or str(error) or type(error).__name__) from error
        raise error_of(answer.status_code, _message(content) or f"the driver answered {answer.status_code}")


def _read(answer: httpx2.Response, clock: Callable[[], float] = time.monotonic) -> bytes:
    """The content. The client's time limit is for each part of it; here it is for all of it."""
    content, deadline = bytearray(), clock() + SECONDS_MAX
    for chunk in answer.iter_raw():
        content += chunk
        if clock() > deadline:
            raise TimedOut(f"the driver's response was not complete after {SECONDS_MAX:g} s")
        if len(content) > ANSWER_BYTES_MAX:
            raise ValueError(f"the driver's response is longer than {ANSWER_BYTES_MAX} bytes")
    return bytes(content)


def _message(content: bytes) -> str:
    try:
        return str(json.loads(content)["message"])[:REASON_CHARACTERS_MAX]
    except (ValueError, TypeError, KeyError):
        return ""


def _parsed(parse: Callable[[Any], Parsed], answer: Any) -> Parsed:
    """A response; `Unreachable` if it has another format."""
    try:
        return parse(answer)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise Unreachable(f"the driver's response cannot be parsed: {error}") from error
