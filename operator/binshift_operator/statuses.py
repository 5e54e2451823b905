"""The status as JSON: written for people and for `kubectl wait`, read back by the next look.

What is read was written by the operator, or by somebody who wants to confuse it: what does not fit is not known.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from binshift_operator.children.metadata import selector_text
from binshift_operator.model.names import EXECUTOR, Key
from binshift_operator.model.status import (
    Awaiting,
    Condition,
    ConditionType,
    MigrationShown,
    Phase,
    Settling,
    Status,
)
from binshift_operator.model.world import REVISIONS

_TRUTH = {True: "True", False: "False", None: "Unknown"}


def written(status: Status, key: Key) -> dict[str, Any]:
    """The JSON of a status; what is not known is left out."""
    settling, awaiting = status.settling, status.awaiting
    return _known(
        {
            "observedGeneration": status.observed_generation,
            "settledGeneration": status.settled_generation,
            "replicas": status.replicas,
            "readyReplicas": status.ready_replicas,
            "selector": selector_text(key, EXECUTOR),
            "phase": status.phase.value,
            "epoch": status.epoch,
            "routeVersion": status.route_version,
            "latencyP99": None if status.latency_p99 is None else f"{status.latency_p99:.2f}s",
            "awaiting": None if awaiting is None else {"reason": awaiting.reason, "since": moment(awaiting.since)},
            "target": None if settling is None else {"generation": settling.generation, "settledEpoch": settling.epoch},
            "holdingSlots": status.holding_slots,
            "timedOutGeneration": status.timed_out_generation or None,
            "finishedGeneration": status.finished_generation or None,
            "migration": None if status.migration is None else _migration(status.migration),
            "history": [_migration(each) for each in status.history] or None,
            "conditions": [_condition(each) for each in status.conditions],
        }
    )


def _migration(shown: MigrationShown) -> dict[str, Any]:
    total = shown.bins_total
    return _known(
        {
            "id": shown.id,
            "generation": shown.generation // REVISIONS,
            "revision": shown.generation % REVISIONS or None,
            "strategy": shown.strategy,
            "phase": shown.phase,
            "progress": None if total is None else f"{shown.bins_moved or 0}/{total}",
            "binsMoved": shown.bins_moved,
            "binsTotal": total,
            "bytesMoved": shown.bytes_moved,
            "startedAt": None if shown.started_at is None else moment(shown.started_at),
            "endedAt": None if shown.ended_at is None else moment(shown.ended_at),
            "latencyBeforeSeconds": _rounded(shown.latency_before),
            "latencyDuringSeconds": _rounded(shown.latency_during),
            "reason": shown.reason or None,
        }
    )


def _condition(condition: Condition) -> dict[str, Any]:
    return {
        "type": condition.type.value,
        "status": _TRUTH[condition.status],
        "reason": condition.reason,
        "message": condition.message,
        "observedGeneration": condition.generation,
        "lastTransitionTime": moment(condition.since),
    }


def read(found: Mapping[str, Any]) -> Status:
    """The status in an object; an empty one if there is none, or none that can be read."""
    try:
        return _read(found)
    except (AttributeError, KeyError, TypeError, ValueError):
        return Status()


def _read(found: Mapping[str, Any]) -> Status:
    awaiting, target = found.get("awaiting"), found.get("target")
    migration = found.get("migration")
    return Status(
        observed_generation=int(found.get("observedGeneration", 0)),
        settled_generation=int(found.get("settledGeneration", 0)),
        replicas=int(found.get("replicas", 0)),
        ready_replicas=int(found.get("readyReplicas", 0)),
        phase=Phase(found.get("phase", Phase.PENDING)),
        epoch=found.get("epoch"),
        route_version=found.get("routeVersion"),
        latency_p99=float(found["latencyP99"].removesuffix("s")) if "latencyP99" in found else None,
        awaiting=None if awaiting is None else Awaiting(awaiting["reason"], _seconds(awaiting["since"])),
        settling=None if target is None else Settling(int(target["generation"]), int(target["settledEpoch"])),
        holding_slots=int(found.get("holdingSlots", 0)),
        timed_out_generation=int(found.get("timedOutGeneration", 0)),
        finished_generation=int(found.get("finishedGeneration", 0)),
        migration=None if migration is None else _migration_in(migration),
        history=tuple(map(_migration_in, found.get("history", ()))),
        conditions=tuple(map(_condition_in, found.get("conditions", ()))),
    )


def _migration_in(found: Mapping[str, Any]) -> MigrationShown:
    return MigrationShown(
        id=int(found["id"]),
        phase=str(found["phase"]),
        generation=int(found.get("generation", 0)) * REVISIONS + int(found.get("revision", 0)),
        strategy=str(found.get("strategy", "")),
        bins_moved=found.get("binsMoved"),
        bins_total=found.get("binsTotal"),
        bytes_moved=found.get("bytesMoved"),
        started_at=_seconds(found["startedAt"]) if "startedAt" in found else None,
        ended_at=_seconds(found["endedAt"]) if "endedAt" in found else None,
        latency_before=found.get("latencyBeforeSeconds"),
        latency_during=found.get("latencyDuringSeconds"),
        reason=str(found.get("reason", "")),
    )


def _condition_in(found: Mapping[str, Any]) -> Condition:
    return Condition(
        ConditionType(found["type"]),
        {"True": True, "False": False}.get(found["status"]),
        str(found["reason"]),
        str(found["message"]),
        int(found.get("observedGeneration", 0)),
        _seconds(found["lastTransitionTime"]),
    )


def moment(seconds: float) -> str:
    """A point in time as Kubernetes writes it, in whole seconds.

    >>> moment(0.9)
    '1970-01-01T00:00:00Z'
    """
    return datetime.fromtimestamp(int(seconds), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _seconds(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 3)


def _known(parts: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in parts.items() if value is not None}
