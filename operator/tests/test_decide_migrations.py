"""Migrations that end early: conditions agree with each other, one warning has the reason, and each event is of one migration."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from sim_cluster import NS, SimCluster
from sim_runtime import Query
from test_decide import FLOW, LIMITS, NOW, SETTLED, SLOTS, condition, observed

from binshift_operator.decide import decide
from binshift_operator.model.actions import CancelMigration
from binshift_operator.model.observed import REVISIONS
from binshift_operator.model.observed_runtime import ObservedTarget
from binshift_operator.model.status import ConditionType, MigrationStatus, Moving
from binshift_operator.status import transitions


def moving(policy: dict[str, Any]) -> tuple[SimCluster, Query]:
    """A dataflow whose bins begin to move."""
    cluster = SimCluster().start(2)
    cluster.converge()
    cluster.edit(replicas=4, migration=policy)
    while cluster.log.newest_target["workers"] != [0, 1, 2, 3]:
        cluster.run(1)
    (query,) = cluster.queries.values()
    return cluster, query


def conditions(cluster: SimCluster) -> dict[str, tuple[str, str]]:
    """Status and reason of each."""
    return {each["type"]: (each["status"], each["reason"]) for each in cluster.status["conditions"]}


def events(cluster: SimCluster, kind: str) -> list[str]:
    """The reasons of the operator's events of a type."""
    return [each["reason"] for each in cluster.server.listed("Event", NS) if each["type"] == kind and "source" in each]


def test_conditions_agree_after_a_timeout() -> None:
    """Once a migration was given up, nothing moves and nothing is awaited, and exactly one warning reports it."""
    cluster, query = moving({"timeout": "5s"})
    query.newest_migration["startedAt"] = "2023-11-14T22:00:00Z"
    warned = events(cluster, "Warning")
    cluster.run(5)
    found = conditions(cluster)
    assert found["Progressing"] == ("False", "MigrationTimedOut")
    assert found["Migrating"] == ("False", "Idle")
    assert found["Degraded"] == ("True", "MigrationTimedOut")
    assert found["Ready"][0] == "True"
    assert cluster.status["phase"] == "Running"
    assert not cluster.settled()
    assert set(events(cluster, "Warning")) - set(warned) == {"MigrationTimedOut"}
    assert "MigrationCancelled" in events(cluster, "Normal")
    cluster.edit(migration={"timeout": "30m"})
    cluster.converge()


def test_conditions_agree_after_a_cancellation() -> None:
    """The same holds for a migration that a user cancelled."""
    cluster, query = moving({})
    query.newest_migration.update(phase="cancelled", reason="cancelled on request")
    cluster.run(3)
    found = conditions(cluster)
    assert (found["Progressing"], found["Migrating"]) == (("False", "MigrationCancelled"), ("False", "Idle"))
    assert found["Degraded"] == ("True", "MigrationCancelled")
    cluster.edit(replicas=2)
    cluster.converge()


@pytest.mark.parametrize(
    ("migration", "registered", "reason", "message"),
    [
        (None, {0, 1}, "Migration", "bins are moving"),
        (MigrationStatus(1, "copying", REVISIONS), {0, 1}, "Migration", "bins are moving"),
        (
            MigrationStatus(1, "failed", REVISIONS, ended_at=NOW, reason="no room"),
            {0, 1},
            "Migration",
            "retried",
        ),
        (
            MigrationStatus(1, "failed", REVISIONS, ended_at=NOW, reason="the disk was taken away on request"),
            {0, 1},
            "Migration",
            "is retried",
        ),
        (
            MigrationStatus(1, "failed", REVISIONS, ended_at=NOW, reason="no room"),
            {0},
            "Migration",
            "is retried, once workers 1 are registered: no room",
        ),
        (
            MigrationStatus(1, "cancelled", REVISIONS, ended_at=NOW, reason="rolled back on request"),
            {0, 1},
            "MigrationCancelled",
            "rolled back on request",
        ),
        (MigrationStatus(1, "settled", REVISIONS), {0}, "Registration", "Executor 1 has not registered"),
        (MigrationStatus(1, "settled", REVISIONS), set(), "Registration", "Executors 0, 1 have not registered"),
    ],
)
def test_what_is_awaited_is_what_happens(
    migration: MigrationStatus | None, registered: set[int], reason: str, message: str
) -> None:
    """Progressing does not report moving bins while none move: it names the absent executors, or the next attempt."""
    target = ObservedTarget(FLOW.key.uid, REVISIONS, SLOTS, False)
    seen = observed(
        runtime={
            "migration": migration, "migration_workers": SLOTS, "target": target, "registered": frozenset(registered)
        }
    )  # fmt: skip
    found = condition(decide(FLOW, seen, SETTLED, LIMITS).status, ConditionType.PROGRESSING)
    assert (found.reason, message in found.message) == (reason, True), found


@pytest.mark.parametrize("phase", ["settled", "failed"])
def test_an_executor_that_is_away_takes_no_time_of_its_migration(phase: str) -> None:
    """While an executor of the target is lost and nothing leads there, no time counts; the migration that begins when it is back has all of it."""
    target = ObservedTarget(FLOW.key.uid, REVISIONS, SLOTS, False)
    base: dict[str, Any] = {"migration_workers": SLOTS, "target": target}
    first = MigrationStatus(1, "copying", REVISIONS, "Optimized", 0, 341, started_at=NOW)
    off = replace(first, phase=phase, ended_at=NOW + 30, generation=REVISIONS)
    late = NOW + FLOW.migration.timeout_seconds + 60
    status, found = SETTLED, None
    for now, more in (
        (NOW, {"migration": first}),
        (NOW + 30, {"migration": off, "registered": frozenset({0})}),
        (late, {"migration": off, "registered": frozenset({0})}),
        (late + 1, {"migration": replace(first, id=2, started_at=late + 1)}),
    ):
        found = decide(FLOW, replace(observed(runtime={**base, **more}), now=now), status, LIMITS)
        status = found.status
    assert found is not None
    assert not [each for each in found.actions if isinstance(each, CancelMigration)]
    assert status.moving == Moving(REVISIONS, late + 1)
    assert status.timed_out_generation == 0


def test_an_event_is_of_one_migration() -> None:
    """Where a target takes two migrations, each event has the duration and the bins of its own, and the time-out counts from the first."""
    target = ObservedTarget(FLOW.key.uid, REVISIONS, SLOTS, False)
    first = MigrationStatus(1, "copying", REVISIONS, "Optimized", 0, 341, started_at=NOW)
    base: dict[str, Any] = {"migration_workers": SLOTS, "target": target}
    status, messages = SETTLED, []
    for now, migration in (
        (NOW, first),
        (NOW + 40, replace(first, phase="settled", bins_moved=341, ended_at=NOW + 40)),
        (NOW + 41, replace(first, id=2, bins_total=256, started_at=NOW + 41)),
        (NOW + 50, replace(first, id=2, phase="settled", bins_moved=256, bins_total=256, started_at=NOW + 41, ended_at=NOW + 50)),
    ):  # fmt: skip
        after = decide(
            FLOW, replace(observed(runtime={**base, "migration": migration}), now=now), status, LIMITS
        ).status
        messages += [each.message for each in transitions(status, after) if each.reason == "MigrationSettled"]
        assert after.moving == Moving(REVISIONS, NOW)
        status = after
    assert messages == [
        "migration 1 has ended in 40.0 s: 341 of 341 bins moved",
        "migration 2 has ended in 9.0 s: 256 of 256 bins moved",
    ]
    assert [each.id for each in status.history] == [2, 1]
    over = decide(FLOW, observed(runtime={**base, "target": replace(target, settled=True)}), status, LIMITS).status
    assert over.moving is None
