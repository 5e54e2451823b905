"""Executors are rolled in a simulated cluster: the query is never stopped, and an executor goes only once it holds nothing.

`sim_checks.assert_may_go` holds throughout: no executor is removed that holds bins, may get some, or lost its last one in this epoch.
"""

from __future__ import annotations

from typing import Any

import pytest
from sim_cluster import SimCluster
from sim_limits import LIMITS
from sim_rolling import (
    FAST,
    PLACES,
    SLOW,
    assert_never_stopped,
    condition,
    moved,
    query,
    run_until,
    start_cluster,
    uids,
)
from sim_runtime import BINS
from test_reconcile_faults import end


@pytest.mark.parametrize("replicas", [1, 2, 3, 5])
@pytest.mark.parametrize("edit", [FAST, {"restartNonce": 1}])
def test_rolls(replicas: int, edit: dict[str, Any]) -> None:
    """All executors are replaced while the query runs; each bin moves about once; one executor more than the spec's runs meanwhile."""
    cluster = start_cluster(replicas)
    before, driver, epoch, began = uids(cluster), uids(cluster, "driver"), cluster.log.epoch, cluster.now
    cluster.edit(executor=edit)
    seen = bins = 0
    while not cluster.settled():
        route = dict(cluster.log.route)
        cluster.run(1)
        bins += moved(route, cluster.log.route)
        seen = max(seen, len(cluster.pods("executor")))
    cluster.converge()
    assert not before & uids(cluster)
    assert seen == replicas + 1
    assert_never_stopped(cluster, driver, epoch, cluster.now - began)
    assert bins <= (replicas + 1) / replicas * BINS + PLACES * (replicas + 1)


def test_reports_progress() -> None:
    """Progressing has the reason RollingExecutors, the status has how many are updated, and events mark begin and end."""
    cluster = start_cluster()
    cluster.edit(executor=FAST)
    seen, reasons = [], set()
    while not cluster.settled():
        cluster.run(1)
        if cluster.status.get("rollout") and cluster.status["rollout"] not in seen:
            seen.append(cluster.status["rollout"])
        reasons.add(condition(cluster, "Progressing")["reason"])
    assert seen == [{"updated": updated, "total": 3} for updated in range(4)]
    assert reasons == {"RollingExecutors", "Settled"}
    assert "rollout" not in cluster.status
    events = [found["reason"] for (kind, _, _), found in cluster.server.objects.items() if kind == "Event"]
    assert events.count("RollingExecutors") == events.count("ExecutorsRolled") == 1


def test_crash_after_every_write() -> None:
    """An operator that ends right after any write of a roll is followed by one that continues, and comes to the same end."""
    before = start_cluster()
    cluster = before.fork()
    cluster.edit(executor=FAST)
    cluster.server.writes.clear()
    cluster.converge()
    wanted, writes = end(cluster), len(cluster.server.writes)
    assert writes >= 20
    for write in range(1, writes + 1):
        other = before.fork()
        driver = uids(other, "driver")
        other.server.writes.clear()
        other.edit(executor=FAST)
        other.server.crash_after = write
        other.converge()
        assert other.server.crash_after is None, f"there was no write {write}"
        assert (end(other), uids(other, "driver")) == (wanted, driver), f"after a crash at write {write}"
        assert query(other).stop_requests == 0


def test_a_pod_that_never_becomes_ready_holds_the_roll() -> None:
    """A template with which executors do not start costs no executor: the surge is awaited, and another edit rolls again."""
    cluster = start_cluster()
    before, epoch = uids(cluster), cluster.log.epoch
    cluster.stuck = {3}
    cluster.edit(executor=FAST)
    cluster.run(60)
    assert before <= uids(cluster)
    assert cluster.log.holding == {0, 1, 2}
    assert cluster.log.epoch >= epoch + 58
    assert condition(cluster, "Progressing")["reason"] == "RollingExecutors"
    assert "Executor 3 has not registered" in condition(cluster, "Progressing")["message"]
    cluster.stuck = set()
    cluster.edit(executor=SLOW)
    cluster.converge()
    assert not before & uids(cluster)
    assert query(cluster).stop_requests == 0


def test_a_replaced_executor_that_does_not_return_holds_the_roll() -> None:
    """The others hold all bins meanwhile, with the surge in its place; nothing else is replaced."""
    cluster = start_cluster()
    cluster.edit(executor=FAST)
    cluster.stuck = {0}
    cluster.run(60)
    assert cluster.log.holding == {1, 2, 3}
    assert cluster.status["rollout"] == {"updated": 0, "total": 3}
    cluster.stuck = set()
    cluster.converge()
    assert query(cluster).stop_requests == 0


@pytest.mark.parametrize("replicas", [2, 3, 4])
def test_without_room_for_a_surge(replicas: int) -> None:
    """A surge that cannot be scheduled is given up after a while: the others take the bins of each executor that is replaced."""
    cluster = start_cluster(replicas)
    driver, epoch, began, before = uids(cluster, "driver"), cluster.log.epoch, cluster.now, uids(cluster)
    cluster.no_room = {replicas}
    cluster.edit(executor=FAST)
    run_until(cluster, cluster.settled, 150)
    assert not before & uids(cluster)
    assert_never_stopped(cluster, driver, epoch, cluster.now - began)
    cluster.converge()


def test_without_a_surge() -> None:
    """With `maxSurge: 0` there is never an executor more than the spec's; the field itself replaces nothing."""
    cluster = start_cluster()
    before = uids(cluster)
    cluster.edit(executor={"maxSurge": 0})
    cluster.converge()
    assert uids(cluster) == before
    cluster.edit(executor={"maxSurge": 0, **FAST})
    while not cluster.settled():
        cluster.run(1)
        assert len(cluster.pods("executor")) <= 3
        assert len(cluster.log.holding) >= 2
    assert not before & uids(cluster)
    assert query(cluster).stop_requests == 0


def test_a_single_executor_waits_for_its_surge() -> None:
    """Without room for a second one the stream continues, and the scheduler's message is reported; `maxSurge: 0` restarts it instead."""
    cluster = start_cluster(1)
    before, driver = uids(cluster), uids(cluster, "driver")
    cluster.no_room = {1}
    cluster.edit(executor=FAST)
    cluster.run(int(LIMITS.unplaced_seconds) + 5)
    assert before <= uids(cluster)
    assert condition(cluster, "Degraded")["reason"] == "Unschedulable"
    assert "set executor.maxSurge: 0" in condition(cluster, "Degraded")["message"]
    cluster.edit(executor={"maxSurge": 0, **FAST})
    run_until(cluster, cluster.settled)
    assert not before & uids(cluster)
    assert not driver & uids(cluster, "driver")


def test_executors_that_cannot_run_are_replaced_at_once() -> None:
    """While no query runs for want of executors, an edit that repairs their template does not wait for it."""
    cluster = SimCluster(stuck={0, 1}).start(2)
    cluster.run(20)
    assert cluster.log.epoch == -1
    cluster.stuck = set()
    before = uids(cluster)
    cluster.edit(executor=FAST)
    cluster.converge()
    assert not before & uids(cluster)
