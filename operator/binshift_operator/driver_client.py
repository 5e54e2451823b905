"""Speaks to the control API of a dataflow's driver, with the token of its Secret: the one place that knows its answers.

Reads and writes are bounded in time and size, and not tried again. Answers are read defensively: a driver of another version
may say more, or less; what is not understood is not known.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from http.client import HTTPConnection, HTTPException, HTTPResponse
from typing import Any, Final
from urllib.error import HTTPError
from urllib.request import HTTPHandler, ProxyHandler, Request, build_opener

from binshift_operator.errors import OperatorError, TimedOut, Unreachable, refused
from binshift_operator.model.observed import ObservedRuntime, ObservedTarget, RunningEpoch, RunState
from binshift_operator.model.specification import Dataflow
from binshift_operator.model.status import MigrationStatus

SECONDS_MAX: Final = 5.0
"""For an answer."""
CONNECT_SECONDS_MAX: Final = 2.0
"""For a connection: however busy a driver is, its kernel takes one at once; the address of a pod that is gone says nothing at all."""
ANSWER_BYTES_MAX: Final = 4_000_000
REASON_CHARACTERS_MAX: Final = 2000
PART_CHARACTERS_MAX: Final = 32
VERSION_CHARACTERS_MAX: Final = 64


class _Connection(HTTPConnection):
    """One whose time limit is shorter until it is made."""

    def connect(self) -> None:
        """Connect."""
        self.timeout = CONNECT_SECONDS_MAX
        super().connect()
        self.sock.settimeout(SECONDS_MAX)


class _Handler(HTTPHandler):
    def http_open(self, req: Request) -> HTTPResponse:
        return self.do_open(_Connection, req)


_OPENER: Final = build_opener(ProxyHandler({}), _Handler())
"""Without proxies: the driver is in the same cluster."""


@dataclass(frozen=True, slots=True)
class DriverClient:
    """The control API at ``url``; ``token`` opens it, and never shows. Each call raises `OperatorError`."""

    url: str
    token: str

    def __repr__(self) -> str:
        return f"Control({self.url!r})"

    def dataflow(self) -> ObservedRuntime:
        """The dataflow as a whole."""
        answer = self._ask("GET", "/v1/dataflow")
        try:
            return parse_runtime(answer)
        except (AttributeError, KeyError, TypeError, ValueError) as wrong:
            raise Unreachable(f"the driver's answer is not understood: {wrong}") from wrong

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
        self._ask("PUT", "/v1/target", body)

    def cancel(self, migration: int, *, rollback: bool) -> None:
        """Cancel a migration."""
        self._ask("DELETE", f"/v1/migrations/{migration}?rollback={str(rollback).lower()}")

    def stop(self) -> None:
        """Stop the query after its running epoch; returns at once."""
        self._ask("POST", "/v1/stop")

    def _ask(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Any:
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"}
        data = None if body is None else json.dumps(body).encode()
        request = Request(self.url + path, data=data, headers=headers, method=method)
        try:
            with _OPENER.open(request, timeout=SECONDS_MAX) as answer:
                return json.loads(answer.read(ANSWER_BYTES_MAX))
        except HTTPError as no:
            raise _refused(no) from None
        except (OSError, HTTPException, ValueError) as gone:
            reason = getattr(gone, "reason", gone)
            kind = TimedOut if isinstance(reason, TimeoutError) else Unreachable
            raise kind(str(reason) or type(gone).__name__) from gone


def _refused(no: HTTPError) -> OperatorError:
    try:
        said = json.loads(no.read(ANSWER_BYTES_MAX))
        message = str(said["message"])
    except (OSError, HTTPException, ValueError, TypeError, KeyError):
        message = f"the driver answered {no.code}"
    return refused(no.code, message[:REASON_CHARACTERS_MAX])


def parse_runtime(answer: Mapping[str, Any]) -> ObservedRuntime:
    """What `GET /v1/dataflow` says.

    Raises:
        AttributeError, KeyError, TypeError, ValueError: it says something else.
    """
    target, latency, migration = answer.get("target"), answer.get("latency"), answer.get("migration")
    shared, running = migration.get("workers") if migration else None, answer.get("underWay")
    return ObservedRuntime(
        state=RunState(answer["state"]),
        reason=str(answer.get("reason") or "")[:REASON_CHARACTERS_MAX],
        version=str(answer.get("version") or "")[:VERSION_CHARACTERS_MAX],
        stopping=answer.get("stopping") is True,
        failures=int(answer.get("failures") or 0),
        epoch=int(answer.get("epoch", -1)),
        committed_at=_seconds(answer.get("committedAt")),
        running_epoch=None if running is None else _under_way(running),
        route_version=_whole(answer.get("routeVersion")),
        holding=frozenset(map(int, answer.get("workers") or ())),
        registered=frozenset(map(int, answer.get("registered") or ())),
        target=None if target is None else _target(target),
        latency_p99=None if latency is None else float(latency["p99Seconds"]),
        migration=None if migration is None else _migration(migration),
        migration_workers=None if shared is None else frozenset(map(int, shared)),
    )


def _under_way(said: Mapping[str, Any]) -> RunningEpoch:
    part = str(said.get("part") or "")[:PART_CHARACTERS_MAX]
    trouble = str(said.get("trouble") or "")[:REASON_CHARACTERS_MAX]
    return RunningEpoch(int(said["epoch"]), float(said["seconds"]), int(said.get("runs") or 1), part, trouble)


def _target(said: Mapping[str, Any]) -> ObservedTarget:
    return ObservedTarget(
        str(said["owner"]), int(said["generation"]), frozenset(map(int, said["workers"])), said["settled"] is True
    )


def _migration(said: Mapping[str, Any]) -> MigrationStatus:
    before, during = said.get("latencyBefore"), said.get("latencyDuring")
    return MigrationStatus(
        id=int(said["id"]),
        phase=str(said["phase"]),
        generation=int(said.get("generation") or 0),
        strategy=str(said.get("strategy") or ""),
        bins_moved=_whole(said.get("binsMoved")),
        bins_total=_whole(said.get("binsTotal")),
        bytes_moved=_whole(said.get("bytesMoved")),
        started_at=_seconds(said.get("startedAt")),
        ended_at=_seconds(said.get("endedAt")),
        latency_before=None if before is None else round(float(before["p99Seconds"]), 3),
        latency_during=None if during is None else round(float(during["p99Seconds"]), 3),
        reason=str(said.get("reason") or ""),
    )


def _whole(value: Any) -> int | None:
    return None if value is None else int(value)


def _seconds(text: str | None) -> float | None:
    """Whole seconds, as the status has them: one that is read back equals the one that was written."""
    return None if text is None else float(int(datetime.fromisoformat(text).timestamp()))
