"""Which executors are used: any that have registered, each within its own time, whatever is edited meanwhile."""

from __future__ import annotations

import pytest
import sim_runtime
from sim_cluster import SimCluster
from sim_limits import LIMITS

from binshift_operator.model.observed import REVISIONS
from binshift_operator.status_codec import decode, format_slots, parse_slots

WAIT = int(LIMITS.registration_wait_seconds)


def test_the_factor_of_revisions_is_fixed() -> None:
    """Targets supersede those of another operator version, so dataflows are rescaled after an upgrade and a rollback."""
    assert REVISIONS == 1_000_000


def start_cluster(replicas: int = 2) -> SimCluster:
    """A dataflow that has come up."""
    cluster = SimCluster().start(replicas)
    cluster.converge()
    return cluster


def progressing(cluster: SimCluster) -> str:
    """The message of the condition."""
    return str(next(each for each in cluster.status["conditions"] if each["type"] == "Progressing")["message"])


def test_slots_above_a_gap_are_used() -> None:
    """One executor that cannot be scheduled keeps no other one from being used, and the message names it and its pod's reason."""
    cluster = start_cluster(2)
    cluster.no_room = {2}
    cluster.edit(replicas=5)
    cluster.run(3 * WAIT)
    assert cluster.log.holding == {0, 1, 3, 4}
    assert cluster.log.newest_target["workers"] == [0, 1, 3, 4]
    assert "4 of 5 executors share the state. Executor 2 has not registered" in progressing(cluster)
    assert "(pod clicks-executor-2: Unschedulable: 0/1 nodes)" in progressing(cluster)
    assert not cluster.settled()
    cluster.converge()


@pytest.mark.parametrize("replicas", [4, 3, 1])
def test_shrinks_with_a_gap(replicas: int) -> None:
    """A target with a gap shrinks from above: no pod is taken while it holds bins, and the gap stays one."""
    cluster = start_cluster(2)
    cluster.no_room = {2}
    cluster.edit(replicas=6)
    cluster.run(3 * WAIT)
    assert cluster.log.holding == {0, 1, 3, 4, 5}
    cluster.edit(replicas=replicas)
    cluster.run(5 * WAIT)
    assert cluster.log.holding == set(range(replicas)) - {2}
    assert len(cluster.pods("executor")) == replicas
    assert cluster.settled() == (replicas < 3)
    cluster.converge()


def test_what_holds_the_bins_stays_until_a_wanted_slot_is_there() -> None:
    """If none of the wanted executors can be scheduled, the ones above keep the bins, and the stream continues."""
    cluster = start_cluster(2)
    cluster.edit(replicas=3)
    cluster.converge()
    cluster.no_room = {0, 1}
    for name in ("clicks-executor-0", "clicks-executor-1"):
        cluster.server.remove(("Pod", "default", name), at_once=True)
    cluster.run(2 * WAIT)
    cluster.edit(replicas=2)
    epoch = cluster.log.epoch
    cluster.run(5 * WAIT)
    assert cluster.log.holding == {2}
    assert cluster.log.epoch > epoch + 3 * WAIT
    assert len(cluster.pods("executor")) == 3
    cluster.converge()


def without_its_last(replicas: int, monkeypatch: pytest.MonkeyPatch) -> SimCluster:
    """A dataflow whose last executor is gone for good after the target was put, and before a bin has come to any new one."""
    cluster = start_cluster(2)
    monkeypatch.setattr(sim_runtime, "STEP", 0)
    cluster.edit(replicas=replicas)
    while cluster.log.newest_target["workers"] != list(range(replicas)):
        cluster.run(1)
    cluster.no_room = {replicas - 1}
    cluster.server.remove(("Pod", "default", f"clicks-executor-{replicas - 1}"), at_once=True)
    cluster.tick()
    monkeypatch.undo()
    return cluster


def test_lost_slot_of_the_target_does_not_starve_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """An executor that is lost before bins come to it keeps no other new one from being used, and is used itself once it is back."""
    cluster = without_its_last(4, monkeypatch)
    cluster.run(3 * WAIT)
    assert cluster.log.holding == {0, 1, 2}
    assert cluster.log.newest_target["workers"] == [0, 1, 2]
    assert "3 of 4 executors share the state. Executor 3 has not registered" in progressing(cluster)
    cluster.no_room = set()
    cluster.run(WAIT)
    assert cluster.log.holding == {0, 1, 2, 3}
    cluster.converge()


def test_nor_does_it_while_an_autoscaler_edits(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same under edits that come faster than an executor is waited for: the next target has the lost one no more."""
    cluster = without_its_last(4, monkeypatch)
    for edit in range(2 * WAIT):
        cluster.edit(replicas=5 + edit % 2)
        cluster.run(2)
    assert cluster.log.holding == {0, 1, 2, 4, 5} - ({5} if cluster.dataflow["spec"]["replicas"] == 5 else set())
    cluster.converge()


@pytest.mark.parametrize("period", [2, WAIT - 2, WAIT, 2 * WAIT])
def test_busy_autoscaler_does_not_starve_executors(period: int) -> None:
    """New executors are used within their own time although replicas changes repeatedly and two have no room."""
    cluster = start_cluster(2)
    cluster.no_room = {5, 6}
    for edit in range(8 * WAIT // period):
        cluster.edit(replicas=6 + edit % 2)
        cluster.run(period)
    assert cluster.log.holding == {0, 1, 2, 3, 4}
    cluster.edit(replicas=2)
    cluster.converge()


def test_more_and_more_executors_without_room_starve_no_other() -> None:
    """Each edit adds one more executor that cannot start: the registered ones are used anyway."""
    cluster = start_cluster(2)
    cluster.no_room = set(range(4, 40))
    for replicas in range(4, 4 + 2 * WAIT):
        cluster.edit(replicas=replicas)
        cluster.run(2)
    assert cluster.log.holding == {0, 1, 2, 3}


def test_a_silent_driver_does_not_start_the_clocks_again() -> None:
    """A control API that answers only now and then does not postpone the use of new executors indefinitely."""
    cluster = start_cluster(2)
    cluster.no_room = {3}
    cluster.edit(replicas=4)
    for _ in range(2 * WAIT):
        cluster.silent = not cluster.silent
        cluster.run(1)
    cluster.silent = False
    cluster.run(4)
    assert cluster.log.holding == {0, 1, 2}


def test_the_clock_outlives_the_operator() -> None:
    """An operator that ends after every few seconds eventually uses the available executors."""
    cluster = start_cluster(2)
    cluster.no_room = {2}
    cluster.edit(replicas=4)
    for _ in range(2 * WAIT):
        cluster.run(2)
        cluster.restart_operator()
    assert cluster.log.holding == {0, 1, 3}
    (waits,) = cluster.status["waiting"]
    assert waits["slots"] == "2"


def test_revisions_last() -> None:
    """A generation can be requested a million times, and then an error is reported."""
    cluster = start_cluster(2)
    number = cluster.dataflow["metadata"]["generation"] * REVISIONS
    assert REVISIONS >= 1_000_000
    assert 1_000_000 * REVISIONS < 2**53
    cluster.log.newest_target["generation"] = number + REVISIONS - 1
    cluster.log.newest_target["workers"] = [0]
    cluster.run(20)
    degraded = next(each for each in cluster.status["conditions"] if each["type"] == "Degraded")
    assert degraded["reason"] == "MigrationFailed"
    assert "Edit the spec" in degraded["message"]
    cluster.edit(migration={"batchSize": 8})
    cluster.converge()


def test_slots_as_text() -> None:
    """Slots are written in short, read back, and nothing absurd is read."""
    for slots in ({0}, {1, 2, 3}, {0, 2, 4, 5, 9}, set(range(1000))):
        assert parse_slots(format_slots(slots)) == slots
    with pytest.raises(ValueError, match="no slot"):
        parse_slots("0-99999999999")
    assert decode({"waiting": [{"slots": "0-99999999999", "since": "2023-11-14T22:00:00Z"}]}).waiting == {}
