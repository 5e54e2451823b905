"""Autoscaling after a migration that timed out: another number is requested at once, and the same one after a while, without an edit."""

from __future__ import annotations

from typing import Any

from sim_load import LoadedCluster, started
from sim_runtime import Query
from test_autoscaling import events

from binshift_operator.decide.autoscaling import RETRY_SECONDS_MIN

LONG_AGO = "2023-11-14T22:00:00Z"


def query(cluster: LoadedCluster) -> Query:
    """The one that runs."""
    return next(iter(cluster.queries.values()))


def timed_out(**migration: Any) -> LoadedCluster:
    """A dataflow whose growth was given up in the middle; the stream has the executors it needs, though not all of them have bins."""
    cluster = started()
    cluster.edit(migration={"timeout": "5s", **migration})
    cluster.until(lambda: cluster.holding == 1)
    cluster.rate = 3_000.0
    cluster.until(lambda: len(cluster.log.newest_target["workers"]) > 1)
    query(cluster).newest_migration["startedAt"] = LONG_AGO
    cluster.until(lambda: cluster.condition("ScalingActive") == ("False", "MigrationTimedOut"))
    cluster.backlog = 0.0
    return cluster


def test_the_same_number_is_requested_again_after_a_while() -> None:
    """Not before; then the migration is complete, and nothing is degraded."""
    cluster = timed_out()
    target = dict(cluster.log.newest_target)
    assert cluster.condition("Degraded") == ("True", "MigrationTimedOut")
    cluster.run(int(RETRY_SECONDS_MIN) - 30)
    assert cluster.log.newest_target == target
    cluster.until(lambda: cluster.holding == len(target["workers"]))
    assert cluster.log.newest_target == {**target, "generation": target["generation"] + 1}
    cluster.until(lambda: cluster.condition("ScalingActive")[0] == "True")
    cluster.until(lambda: cluster.condition("Degraded")[0] == "False", 5)
    assert cluster.dataflow["spec"]["replicas"] == 1


def test_another_number_is_requested_at_once() -> None:
    """The load has grown meanwhile."""
    cluster = timed_out()
    before = len(cluster.log.newest_target["workers"])
    cluster.rate = 5_500.0
    cluster.until(lambda: cluster.holding > before, 60)
    cluster.until(lambda: cluster.condition("ScalingActive")[0] == "True")
    assert len(events(cluster, "Autoscaled")) == 2


def test_a_restarted_operator_waits_again() -> None:
    """It does not know for how long it has waited, and requests the same number in the end."""
    cluster = timed_out()
    cluster.run(int(RETRY_SECONDS_MIN) - 30)
    cluster.restart_operator()
    before = dict(cluster.log.newest_target)
    cluster.run(60)
    assert cluster.log.newest_target == before
    cluster.until(lambda: cluster.holding == len(before["workers"]), int(RETRY_SECONDS_MIN))


def test_mode_recommend_waits_for_an_edit() -> None:
    """The number is the user's, and so is the decision to try again."""
    cluster = timed_out()
    before = dict(cluster.log.newest_target)
    cluster.edit(autoscaling={"mode": "Recommend", "maxReplicas": 8}, replicas=len(before["workers"]))
    cluster.until(lambda: cluster.log.newest_target["generation"] > before["generation"])
    query(cluster).newest_migration.update(startedAt=LONG_AGO)
    cluster.run(5)
    generation = cluster.log.newest_target["generation"]
    cluster.run(2 * int(RETRY_SECONDS_MIN))
    assert cluster.log.newest_target["generation"] == generation
