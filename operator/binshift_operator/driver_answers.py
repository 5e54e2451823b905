"""Parses the responses of a driver's control API. A driver of another version may send more or less than this one. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from binshift.load import KEY_CHARACTERS_MAX, load_of_answer
from binshift_operator.model.driver_settings import DriverSettings
from binshift_operator.model.observed_runtime import ObservedRuntime, ObservedTarget, RunningEpoch, RunState
from binshift_operator.model.snapshots import ObservedSnapshot, SnapshotPhase
from binshift_operator.model.status import HOT_KEYS_MAX, HotKey, MigrationStatus
from binshift_operator.model.tracebacks import cause_first
from binshift_operator.status_codec import parse_time

REASON_CHARACTERS_MAX: Final = 2000
PART_CHARACTERS_MAX: Final = 32
VERSION_CHARACTERS_MAX: Final = 64


def parse_runtime(answer: Mapping[str, Any]) -> ObservedRuntime:
    """The response of `GET /v1/dataflow`.

    Raises:
        AttributeError, KeyError, TypeError, ValueError: it has another format.
    """
    target, latency, migration = answer.get("target"), answer.get("latency"), answer.get("migration")
    settings = answer.get("settings")
    shared, running = migration.get("workers") if migration else None, answer.get("underWay")
    return ObservedRuntime(
        state=RunState(answer["state"]),
        reason=cause_first(str(answer.get("reason") or ""))[:REASON_CHARACTERS_MAX],
        version=str(answer.get("version") or "")[:VERSION_CHARACTERS_MAX],
        stopping=answer.get("stopping") is True,
        failures=int(answer.get("failures") or 0),
        epoch=int(answer.get("epoch", -1)),
        committed_at=_seconds(answer.get("committedAt")),
        running_epoch=None if running is None else _running_epoch(running),
        route_version=_int(answer.get("routeVersion")),
        holding=_slots(answer.get("workers")),
        registered=_slots(answer.get("registered")),
        target=None if target is None else _target(target),
        settings=None if settings is None else DriverSettings(_float(settings["maxEpochSeconds"])),
        latency_p99=None if latency is None else float(latency["p99Seconds"]),
        migration=None if migration is None else _migration(migration),
        migration_workers=None if shared is None else _slots(shared),
        load=None if answer.get("load") is None else load_of_answer(answer["load"]),
        active=None if answer.get("active") is None else answer["active"] is True,
        hot_keys=tuple(_hot_key(e) for e in (answer.get("hotKeys") or ())[:HOT_KEYS_MAX] if 0 < float(e["share"]) <= 1),
    )


def parse_snapshot_report(answer: Mapping[str, Any]) -> ObservedSnapshot:
    """The response about a snapshot.

    Raises:
        AttributeError, KeyError, TypeError, ValueError: it has another format.
    """
    return ObservedSnapshot(
        location=str(answer["location"]),
        state=SnapshotPhase(answer["state"]),
        reason=cause_first(str(answer.get("reason") or ""))[:REASON_CHARACTERS_MAX],
        epoch=_int(answer.get("epoch")),
        files=_int(answer.get("files")),
        bytes=_int(answer.get("bytes")),
        copied_bytes=_int(answer.get("copiedBytes")),
        started_at=_seconds(answer.get("startedAt")),
        finished_at=_seconds(answer.get("finishedAt")),
    )


def _running_epoch(found: Mapping[str, Any]) -> RunningEpoch:
    part = str(found.get("part") or "")[:PART_CHARACTERS_MAX]
    error = cause_first(str(found.get("trouble") or ""))[:REASON_CHARACTERS_MAX]
    return RunningEpoch(int(found["epoch"]), float(found["seconds"]), int(found.get("runs") or 1), part, error)


def _target(found: Mapping[str, Any]) -> ObservedTarget:
    settled = found["settled"] is True
    return ObservedTarget(str(found["owner"]), int(found["generation"]), _slots(found["workers"]), settled)


def _migration(found: Mapping[str, Any]) -> MigrationStatus:
    before, during = found.get("latencyBefore"), found.get("latencyDuring")
    return MigrationStatus(
        id=int(found["id"]),
        phase=str(found["phase"]),
        generation=int(found.get("generation") or 0),
        strategy=str(found.get("strategy") or ""),
        bins_moved=_int(found.get("binsMoved")),
        bins_total=_int(found.get("binsTotal")),
        bytes_moved=_int(found.get("bytesMoved")),
        started_at=_seconds(found.get("startedAt")),
        ended_at=_seconds(found.get("endedAt")),
        latency_before=None if before is None else round(float(before["p99Seconds"]), 3),
        latency_during=None if during is None else round(float(during["p99Seconds"]), 3),
        reason=str(found.get("reason") or ""),
    )


def _hot_key(found: Mapping[str, Any]) -> HotKey:
    key, operator = str(found["key"])[:KEY_CHARACTERS_MAX], str(found["operator"])[:PART_CHARACTERS_MAX]
    percent = float(f"{100 * float(found['share']):.2g}")
    return HotKey(operator, key, percent, int(found["bin"]), int(found["worker"]))


def _slots(found: Any) -> frozenset[int]:
    return frozenset(map(int, found or ()))


def _int(value: Any) -> int | None:
    return None if value is None else int(value)


def _float(value: Any) -> float | None:
    return None if value is None else float(value)


def _seconds(text: str | None) -> float | None:
    """Whole seconds, as in the status: a time that is read back equals the one that was written."""
    return None if text is None else float(int(parse_time(text)))
