"""The status as JSON: written for people and for `kubectl wait`, read back by the next look.

What is read was written by the operator, or by somebody who wants to confuse it: what does not fit is not known.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from datetime import UTC, datetime
from typing import Any

from binshift_operator.children.metadata import selector_text
from binshift_operator.model.names import EXECUTOR, DataflowKey
from binshift_operator.model.observed import REVISIONS
from binshift_operator.model.status import (
    Awaiting,
    Condition,
    ConditionType,
    EpochStats,
    MigrationStatus,
    Moving,
    Phase,
    SettledTarget,
    Status,
)

SLOT_MAX = 999_999
_TRUTH = {True: "True", False: "False", None: "Unknown"}


def encode(status: Status, key: DataflowKey) -> dict[str, Any]:
    """The JSON of a status; what is not known is left out."""
    settling, awaiting, numbers = status.settled_target, status.awaiting, status.epoch_stats
    return _known(
        {
            "observedGeneration": status.observed_generation,
            "settledGeneration": status.settled_generation,
            "replicas": status.replicas,
            "readyReplicas": status.ready_replicas,
            "selector": selector_text(key, EXECUTOR),
            "phase": status.phase.value,
            "epoch": numbers.epoch,
            "epochCommittedAt": None if numbers.committed_at is None else format_time(numbers.committed_at),
            "routeVersion": status.route_version,
            "version": status.version or None,
            "latencyP99": None if numbers.latency_p99 is None else f"{numbers.latency_p99:.2f}s",
            "awaiting": None if awaiting is None else {"reason": awaiting.reason, "since": format_time(awaiting.since)},
            "target": None if settling is None else {"generation": settling.generation, "settledEpoch": settling.epoch},
            "holdingSlots": status.holding_slots,
            "timedOutGeneration": status.timed_out_generation or None,
            "finishedGeneration": status.finished_generation or None,
            "moving": None
            if status.moving is None
            else {"generation": status.moving.generation, "since": format_time(status.moving.since)},
            "finishedSpec": status.finished_spec or None,
            "waiting": _waiting(status.waiting) or None,
            "migration": None if status.migration is None else _migration(status.migration),
            "history": [_migration(each) for each in status.history] or None,
            "conditions": [_condition(each) for each in status.conditions],
        }
    )


def _waiting(waiting: Mapping[int, float]) -> list[dict[str, Any]]:
    """The slots by the time since when they wait, the first that waited first."""
    times = sorted(set(waiting.values()))
    return [
        {"slots": format_slots({s for s, at in waiting.items() if at == t}), "since": format_time(t)} for t in times
    ]


def _numbers_in(found: Mapping[str, Any]) -> EpochStats:
    return EpochStats(
        found.get("epoch"),
        _seconds(found["epochCommittedAt"]) if "epochCommittedAt" in found else None,
        float(found["latencyP99"].removesuffix("s")) if "latencyP99" in found else None,
    )


def _moving_in(found: Mapping[str, Any] | None) -> Moving | None:
    return None if found is None else Moving(int(found["generation"]), _seconds(found["since"]))


def _waiting_in(found: Iterable[Mapping[str, Any]]) -> dict[int, float]:
    return {slot: _seconds(each["since"]) for each in found for slot in parse_slots(each["slots"])}


def format_slots(slots: Set[int]) -> str:
    """Slots as a short text.

    >>> format_slots({0, 2, 3, 4, 7})
    '0,2-4,7'
    """
    firsts = sorted(slot for slot in slots if slot - 1 not in slots)
    lasts = sorted(slot for slot in slots if slot + 1 not in slots)
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in zip(firsts, lasts, strict=True))


def parse_slots(text: str) -> frozenset[int]:
    """The slots in such a text.

    >>> sorted(parse_slots("0,2-4,7"))
    [0, 2, 3, 4, 7]

    Raises:
        ValueError: it is no such text, or a slot is beyond the highest there can be.
    """
    found: set[int] = set()
    for part in text.split(","):
        first, _, last = part.partition("-")
        if int(last or first) > SLOT_MAX:
            raise ValueError(f"there is no slot {last or first}")
        found |= set(range(int(first), int(last or first) + 1))
    return frozenset(found)


def _migration(shown: MigrationStatus) -> dict[str, Any]:
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
            "startedAt": None if shown.started_at is None else format_time(shown.started_at),
            "endedAt": None if shown.ended_at is None else format_time(shown.ended_at),
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
        "lastTransitionTime": format_time(condition.since),
    }


def decode(found: Mapping[str, Any]) -> Status:
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
        epoch_stats=_numbers_in(found),
        route_version=found.get("routeVersion"),
        version=str(found.get("version", "")),
        awaiting=None if awaiting is None else Awaiting(awaiting["reason"], _seconds(awaiting["since"])),
        settled_target=None
        if target is None
        else SettledTarget(int(target["generation"]), int(target["settledEpoch"])),
        holding_slots=int(found.get("holdingSlots", 0)),
        timed_out_generation=int(found.get("timedOutGeneration", 0)),
        finished_generation=int(found.get("finishedGeneration", 0)),
        finished_spec=str(found.get("finishedSpec", "")),
        moving=_moving_in(found.get("moving")),
        waiting=_waiting_in(found.get("waiting", ())),
        migration=None if migration is None else _migration_in(migration),
        history=tuple(map(_migration_in, found.get("history", ()))),
        conditions=tuple(map(_condition_in, found.get("conditions", ()))),
    )


def _migration_in(found: Mapping[str, Any]) -> MigrationStatus:
    return MigrationStatus(
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


def format_time(seconds: float) -> str:
    """A point in time as Kubernetes writes it, in whole seconds.

    >>> format_time(0.9)
    '1970-01-01T00:00:00Z'
    """
    return datetime.fromtimestamp(int(seconds), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _seconds(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 3)


def _known(parts: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in parts.items() if value is not None}
