"""Autoscaling of executors of which one is much busier than the others: they share the bins by load before others are added."""

from __future__ import annotations

import pytest
from sim_load import LoadedCluster, started
from sim_runtime import Query
from test_autoscaling import events, pods

EXECUTORS = 4
LATE = 2_300.0
"""Rows per second for which four executors are too few while one is 1.6 times as busy as the mean, and enough once all share the rows."""


def query(cluster: LoadedCluster) -> Query:
    """The one that runs."""
    return next(iter(cluster.queries.values()))


def uneven(mode: str = "Auto") -> LoadedCluster:
    """Four executors that hold the bins and of which one is too busy, a moment before that shows."""
    cluster = started(EXECUTORS, mode=mode, minReplicas=EXECUTORS)
    cluster.until(lambda: cluster.holding == EXECUTORS)
    cluster.run(20)
    cluster.skew, cluster.rate = (1.6, 1.05), LATE
    return cluster


def test_rebalances_before_growing() -> None:
    """One rebalance, with its figures in an event and in ScalingActive; no executor is added, and no target is set."""
    cluster = uneven()
    generation = cluster.log.newest_target["generation"]
    cluster.until(lambda: query(cluster).rebalances == 1)
    assert cluster.condition("ScalingActive") == ("True", "Rebalance")
    (message,) = events(cluster, "Rebalanced")
    assert message.startswith("4 workers share the bins by load: 2,300 rows/s keep 3.7 busy, at 70% each; ")
    assert (
        "the busiest has 1.6 times its share of the rows, 1.1 times after a rebalance, and then 2.4 are busy" in message
    )
    assert message == cluster.scaling["message"]
    cluster.run(120)
    assert query(cluster).rebalances == 1
    assert cluster.condition("ScalingActive") == ("True", "Steady")
    assert (cluster.holding, pods(cluster), events(cluster, "Autoscaled")) == (EXECUTORS, EXECUTORS, [])
    assert cluster.log.newest_target["generation"] == generation


def test_grows_if_a_rebalance_does_not_help() -> None:
    """A refused one included: as soon as enough epochs have shown that the load needs more executors nevertheless."""
    cluster = uneven()
    query(cluster).unmeasured = True
    cluster.until(lambda: query(cluster).rebalances == 1)
    cluster.until(lambda: cluster.holding > EXECUTORS, 60)
    assert query(cluster).rebalances == 1


def test_recommends_a_rebalance() -> None:
    """In mode Recommend the message names it, with its command; nothing is requested of the driver."""
    cluster = uneven("Recommend")
    named = "1.6 times its share of the rows, 1.1 times after a rebalance: kubectl binshift rebalance"
    cluster.until(lambda: named in cluster.scaling["message"])
    assert query(cluster).rebalances == 0
    assert cluster.condition("ScalingActive") == ("False", "Recommend")


@pytest.mark.parametrize("write", range(1, 6))
def test_a_crash_after_a_write_changes_nothing(write: int) -> None:
    """The operator is killed after a write, starts again, and the executors share the bins; none is added."""
    cluster = uneven()
    cluster.server.crash_after = len(cluster.server.writes) + write
    cluster.until(lambda: query(cluster).rebalances >= 1)
    cluster.run(120)
    assert cluster.skew == (1.05, 1.05)
    assert cluster.holding == pods(cluster) == EXECUTORS
