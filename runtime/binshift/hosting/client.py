"""Asks the control API of a run. Answers are the API's own models; its errors are raised as the same errors here.

One request at a time, each with a time limit; there are no retries here, because callers retry anyway.
"""

from __future__ import annotations

import json
import ssl
from collections.abc import Iterator
from typing import Any, Final
from urllib.error import HTTPError
from urllib.parse import urlencode
from urllib.request import HTTPSHandler, ProxyHandler, Request, build_opener

from binshift import errors
from binshift.control import models
from binshift.control.requests import RebalanceRequest, TargetRequest
from binshift.control.savepoints import Snapshot, SnapshotRequest
from binshift.errors import BinshiftError, ControlUnreachable, GiveUp

TIMEOUT_SECONDS: Final = 30.0
ANSWER_BYTES_MAX: Final = 64_000_000

_PLAIN: Final = build_opener(ProxyHandler({}))
"""Made once: a supervisor makes a client several times a second, and an opener can have to load the authorities of the system."""


class ControlClient:
    """The control API at ``url``, opened by ``token``; ``tls``: by what its certificate is checked, if it has one.

    There are no proxies: the API is on this machine, or forwarded to it.
    """

    def __init__(self, url: str, token: str, tls: ssl.SSLContext | None = None) -> None:
        self._url = url
        self._token = token
        self._opener = _PLAIN if tls is None else build_opener(ProxyHandler({}), HTTPSHandler(context=tls))

    def dataflow(self) -> models.Dataflow:
        """The dataflow as a whole."""
        return models.Dataflow.model_validate_json(self._call("GET", "/v1/dataflow"))

    def workers(self) -> models.Workers:
        """Load by worker."""
        return models.Workers.model_validate_json(self._call("GET", "/v1/workers"))

    def bins(self, worker: int | None = None) -> Iterator[models.BinLoad]:
        """All bins, of ``worker`` only if one is named."""
        first: int | None = 0
        while first is not None:
            wanted = {"first": first} | ({} if worker is None else {"worker": worker})
            page = models.Bins.model_validate_json(self._call("GET", f"/v1/bins?{urlencode(wanted)}"))
            yield from page.bins
            first = page.next

    def migrations(self) -> models.Migrations:
        """The newest migrations."""
        return models.Migrations.model_validate_json(self._call("GET", "/v1/migrations"))

    def migration(self, number: int) -> models.Migration:
        """One migration."""
        return models.Migration.model_validate_json(self._call("GET", f"/v1/migrations/{number}"))

    def under_way(self) -> models.Migration | None:
        """The migration that is under way; None if nothing moves."""
        newest = self.dataflow().migration
        if newest is None or newest.ended_at is not None or newest.phase in ("settled", "cancelled", "failed"):
            return None
        return newest

    def put_target(self, wanted: TargetRequest) -> models.Migration | None:
        """Set the target."""
        body = wanted.model_dump_json(by_alias=True).encode()
        return models.Accepted.model_validate_json(self._call("PUT", "/v1/target", body)).migration

    def rebalance(self, wanted: RebalanceRequest) -> models.Migration | None:
        """Share the bins by their load as it is now."""
        body = wanted.model_dump_json(by_alias=True).encode()
        return models.Accepted.model_validate_json(self._call("POST", "/v1/rebalance", body)).migration

    def cancel(self, number: int, *, rollback: bool) -> models.Migration | None:
        """Cancel a migration."""
        query = urlencode({"rollback": str(rollback).lower()})
        return models.Accepted.model_validate_json(self._call("DELETE", f"/v1/migrations/{number}?{query}")).migration

    def drain(self, worker: int) -> models.Migration | None:
        """Move all bins of a worker to the others."""
        return models.Accepted.model_validate_json(self._call("POST", f"/v1/workers/{worker}/drain")).migration

    def put_snapshot(self, name: str, location: str) -> Snapshot:
        """Request a snapshot of the dataflow."""
        body = SnapshotRequest(location=location).model_dump_json(by_alias=True).encode()
        return Snapshot.model_validate_json(self._call("PUT", f"/v1/snapshots/{name}", body))

    def snapshot(self, name: str) -> Snapshot:
        """One that was requested."""
        return Snapshot.model_validate_json(self._call("GET", f"/v1/snapshots/{name}"))

    def remove_snapshot(self, name: str, location: str) -> None:
        """End its copy, and remove its files."""
        self._call("DELETE", f"/v1/snapshots/{name}?{urlencode({'location': location})}")

    def stop(self) -> None:
        """Stop the query after its running epoch; returns at once."""
        self._call("POST", "/v1/stop")

    def _call(self, method: str, path: str, body: bytes | None = None) -> bytes:
        headers = {"Authorization": f"Bearer {self._token}", "Content-Type": "application/json"}
        request = Request(self._url + path, data=body, headers=headers, method=method)
        try:
            with self._opener.open(request, timeout=TIMEOUT_SECONDS) as answer:
                return bytes(answer.read(ANSWER_BYTES_MAX))
        except HTTPError as refused:
            raise error_of(refused.code, refused.read(ANSWER_BYTES_MAX)) from None
        except OSError as gone:
            raise ControlUnreachable(f"the control API at {self._url} does not answer: {gone}") from gone


def error_of(status: int, body: bytes) -> BinshiftError:
    """The error in the API's answer, as an exception of the same name.

    >>> error_of(409, b'{"error": "TargetOutdated", "message": "there is a newer one"}')
    TargetOutdated('there is a newer one')
    >>> error_of(502, b"<html>")
    ControlUnreachable('the control API answered 502')
    """
    try:
        answer: dict[str, Any] = json.loads(body)
        name, message = str(answer["error"]), str(answer["message"])
    except (ValueError, TypeError, KeyError):
        return ControlUnreachable(f"the control API answered {status}")
    kind = getattr(errors, name, None)
    if isinstance(kind, type) and issubclass(kind, BinshiftError):
        return kind(message)
    return (ControlUnreachable if status >= 500 else GiveUp)(f"{name}: {message}")
