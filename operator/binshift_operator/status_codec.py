"""The status as JSON: written for users and for `kubectl wait`, and read back by the next reconciliation.

The status may have been edited by any client with the rights to do so: one that cannot be parsed counts as empty.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Set
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Final

from binshift_operator.children.metadata import selector_text
from binshift_operator.json_records import Field, Record
from binshift_operator.model.autoscaling import AutoscalingStatus, Scale
from binshift_operator.model.driver_status import DriverStatus
from binshift_operator.model.names import EXECUTOR, DataflowKey
from binshift_operator.model.observed import REVISIONS
from binshift_operator.model.reasons import ScalingReason
from binshift_operator.model.snapshot_spec import RestoreFrom
from binshift_operator.model.status import (
    Awaiting,
    Condition,
    ConditionType,
    EpochStats,
    HotKey,
    MigrationStatus,
    Moving,
    Phase,
    RolloutStatus,
    SettledTarget,
    Status,
)

SLOT_MAX: Final = 999_999
TRUTH: Final = {True: "True", False: "False", None: "Unknown"}


def format_time(seconds: float) -> str:
    """A time in the format of Kubernetes, in whole seconds.

    >>> format_time(0.9)
    '1970-01-01T00:00:00Z'
    """
    return datetime.fromtimestamp(int(seconds), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def parse_time(text: str) -> float:
    """A time of the API server, in seconds since 1970."""
    return datetime.fromisoformat(text).timestamp()


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
        ValueError: the text has another format, or a slot is above the maximum.
    """
    found: set[int] = set()
    for part in text.split(","):
        first, _, last = part.partition("-")
        if int(last or first) > SLOT_MAX:
            raise ValueError(f"there is no slot {last or first}")
        found |= set(range(int(first), int(last or first) + 1))
    return frozenset(found)


def _time(attribute: str, name: str) -> Field:
    return Field(attribute, name, parse_time, format_time)


def _seconds(attribute: str, name: str) -> Field:
    return Field(attribute, name, float, lambda seconds: round(seconds, 3))


def _list(name: str, read: Callable[[Any], Any], write: Callable[[Any], Any], *, omit_empty: bool = False) -> Field:
    return Field(name, name, lambda found: tuple(map(read, found)), lambda values: list(map(write, values)), omit_empty)


def _write_migration(migration: MigrationStatus) -> dict[str, Any]:
    generation, revision = divmod(migration.generation, REVISIONS)
    found = MIGRATION.write(migration) | {"generation": generation} | ({"revision": revision} if revision else {})
    total = migration.bins_total
    return found if total is None else found | {"progress": f"{migration.bins_moved or 0}/{total}"}


def _read_migration(found: Mapping[str, Any]) -> MigrationStatus:
    generation = int(found.get("generation", 0)) * REVISIONS + int(found.get("revision", 0))
    return replace(MIGRATION.read(found), generation=generation)


def _write_condition(condition: Condition) -> dict[str, Any]:
    return CONDITION.write(condition) | {"status": TRUTH[condition.status]}


def _write_waiting(waiting: Mapping[int, float]) -> list[dict[str, Any]]:
    """The slots by the time since when they have been waiting, in order of time."""
    times = sorted(set(waiting.values()))
    return [
        {"slots": format_slots({s for s, at in waiting.items() if at == t}), "since": format_time(t)} for t in times
    ]


def _read_waiting(found: Iterable[Mapping[str, Any]]) -> dict[int, float]:
    return {slot: parse_time(each["since"]) for each in found for slot in parse_slots(each["slots"])}


AWAITING: Final = Record(Awaiting, (Field("reason", "reason", str), _time("since", "since")))
MOVING: Final = Record(Moving, (Field("generation", "generation", int), _time("since", "since")))
TARGET: Final = Record(SettledTarget, (Field("generation", "generation", int), Field("epoch", "settledEpoch", int)))
HOT_KEY_FIELDS: Final = (("operator", str), ("key", str), ("percent", float), ("bin", int), ("worker", int))
HOT_KEY: Final = Record(HotKey, tuple(Field(name, name, read) for name, read in HOT_KEY_FIELDS))
ROLLOUT: Final = Record(
    RolloutStatus,
    (
        Field("updated", "updated", int),
        Field("total", "total", int),
        Field("leaving_nodes", "leavingNodes", lambda names: tuple(map(str, names)), list, omit_empty=True),
    ),
)
DRIVER: Final = Record(
    DriverStatus,
    (
        Field("active", "active", str, omit_empty=True),
        Field("active_uid", "activeUID", str, omit_empty=True),
        Field("standby", "standby", str, omit_empty=True),
        Field("warm_executors", "warmExecutors", int, omit_empty=True),
    ),
)
RESTORED: Final = Record(RestoreFrom, (Field("location", "location", str), Field("snapshot", "snapshot", str)))
SCALE: Final = Record(
    Scale,
    (Field("before", "from", int), Field("after", "to", int), _time("at", "at"), Field("message", "message", str)),
)
AUTOSCALING: Final = Record(
    AutoscalingStatus,
    (
        Field("replicas", "specReplicas", int),
        Field("desired", "desiredReplicas", int),
        Field("recommended", "recommendedReplicas", int),
        Field("reason", "reason", ScalingReason, str),
        Field("message", "message", str),
        Field("limited", "limitedBy", ScalingReason, str),
        Field("last_scale", "lastScale", SCALE.read, SCALE.write),
    ),
)
CONDITION: Final = Record(
    Condition,
    (
        Field("type", "type", ConditionType, str),
        Field("status", "status", {"True": True, "False": False}.get),
        Field("reason", "reason", str),
        Field("message", "message", str),
        Field("generation", "observedGeneration", int),
        _time("since", "lastTransitionTime"),
    ),
)
MIGRATION: Final = Record(
    MigrationStatus,
    (
        Field("id", "id", int),
        Field("strategy", "strategy", str),
        Field("phase", "phase", str),
        Field("bins_moved", "binsMoved", int),
        Field("bins_total", "binsTotal", int),
        Field("bytes_moved", "bytesMoved", int),
        _time("started_at", "startedAt"),
        _time("ended_at", "endedAt"),
        _seconds("latency_before", "latencyBeforeSeconds"),
        _seconds("latency_during", "latencyDuringSeconds"),
        Field("reason", "reason", str, omit_empty=True),
    ),
)
EPOCH: Final = Record(
    EpochStats,
    (
        Field("epoch", "epoch", int),
        _time("committed_at", "epochCommittedAt"),
        Field("latency_p99", "latencyP99", lambda text: float(text.removesuffix("s")), lambda value: f"{value:.2f}s"),
    ),
)
STATUS: Final = Record(
    Status,
    (
        Field("observed_generation", "observedGeneration", int),
        Field("settled_generation", "settledGeneration", int),
        Field("replicas", "replicas", int),
        Field("ready_replicas", "readyReplicas", int),
        Field("phase", "phase", Phase, str),
        Field("route_version", "routeVersion", int),
        Field("version", "version", str, omit_empty=True),
        Field("awaiting", "awaiting", AWAITING.read, AWAITING.write),
        Field("settled_target", "target", TARGET.read, TARGET.write),
        Field("holding_slots", "holdingSlots", int),
        Field("timed_out_generation", "timedOutGeneration", int, omit_empty=True),
        Field("finished_generation", "finishedGeneration", int, omit_empty=True),
        Field("finished_spec", "finishedSpec", str, omit_empty=True),
        Field("moving", "moving", MOVING.read, MOVING.write),
        Field("rollout", "rollout", ROLLOUT.read, ROLLOUT.write),
        Field("autoscaling", "autoscaling", AUTOSCALING.read, AUTOSCALING.write),
        _list("hotKeys", HOT_KEY.read, HOT_KEY.write, omit_empty=True)._replace(attribute="hot_keys"),
        Field("restored", "restoreFrom", RESTORED.read, RESTORED.write),
        Field("driver", "driver", DRIVER.read, DRIVER.write),
        Field("waiting", "waiting", _read_waiting, _write_waiting, omit_empty=True),
        Field("migration", "migration", _read_migration, _write_migration),
        _list("history", _read_migration, _write_migration, omit_empty=True),
        _list("conditions", CONDITION.read, _write_condition),
    ),
)


def encode(status: Status, key: DataflowKey) -> dict[str, Any]:
    """The JSON of a status."""
    return {**STATUS.write(status), **EPOCH.write(status.epoch_stats), "selector": selector_text(key, EXECUTOR)}


def decode(found: Mapping[str, Any]) -> Status:
    """The status in an object; an empty one if there is none, or none that can be parsed."""
    try:
        return replace(STATUS.read(found), epoch_stats=EPOCH.read(found))
    except (AttributeError, KeyError, TypeError, ValueError):
        return Status()
