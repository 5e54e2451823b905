"""`spec.autoscaling` in a simulated cluster: the number of executors follows the load, while the spec stays the user's."""

from __future__ import annotations

import pytest
from sim_cluster import NAME, NS
from sim_limits import LIMITS
from sim_load import QUICK, LoadedCluster, started

MINUTE = 60


def events(cluster: LoadedCluster, reason: str) -> list[str]:
    """The messages of events with that reason."""
    found = [each for (kind, _, _), each in cluster.server.objects.items() if kind == "Event"]
    return [each["message"] for each in found if each["reason"] == reason]


def pods(cluster: LoadedCluster) -> int:
    """Executors' pods."""
    return len(cluster.pods("executor"))


def grown() -> LoadedCluster:
    """A dataflow whose executors have become five or more, and that has worked off its backlog."""
    cluster = started()
    cluster.rate = 3_000.0
    cluster.until(lambda: cluster.holding >= 5)
    cluster.until(lambda: cluster.backlog == 0)
    return cluster


def test_grows_and_shrinks_with_the_load() -> None:
    """One decision for a step of the load, with its figures in an event; fewer executors after the stabilization time; the spec is untouched."""
    cluster = started()
    cluster.until(lambda: cluster.condition("ScalingActive") == ("True", "Steady"))
    cluster.rate = 3_000.0
    cluster.until(lambda: cluster.holding >= 5)
    assert cluster.dataflow["spec"]["replicas"] == 1
    assert cluster.scaling["desiredReplicas"] == cluster.holding == pods(cluster)
    cluster.until(lambda: cluster.backlog == 0)
    message = events(cluster, "Autoscaled")[0]
    assert message == cluster.scaling["lastScale"]["message"]
    assert message.startswith("1 to ")
    assert "3,000 rows/s keep 3.0 busy" in message
    growths = len(events(cluster, "Autoscaled"))
    assert growths <= 2
    cluster.rate = 500.0
    cluster.run(MINUTE - 10)
    assert len(events(cluster, "Autoscaled")) == growths
    cluster.until(lambda: cluster.holding == 1 and pods(cluster) == 1, 400)
    assert cluster.dataflow["spec"]["replicas"] == 1
    assert cluster.dataflow["metadata"]["generation"] == 2


def test_recommends() -> None:
    """Mode Recommend shows the number, and changes nothing."""
    cluster = started(2, mode="Recommend")
    cluster.rate = 3_000.0
    cluster.run(30)
    assert cluster.scaling["recommendedReplicas"] >= 5
    assert cluster.scaling["desiredReplicas"] == cluster.holding == pods(cluster) == 2
    assert cluster.condition("ScalingActive") == ("False", "Recommend")
    cluster.edit(autoscaling={"mode": "Auto", "maxReplicas": 8})
    cluster.until(lambda: cluster.holding >= 5)


def test_an_edit_sets_the_number_once() -> None:
    """The edited number is in force at once, within the range; from there, the load decides."""
    cluster = started(2, minReplicas=2)
    cluster.run(20)
    cluster.edit(replicas=6)
    cluster.until(lambda: cluster.holding == 6)
    assert cluster.scaling["specReplicas"] == cluster.scaling["desiredReplicas"] == 6
    cluster.until(lambda: cluster.holding == 2, 400)
    assert cluster.dataflow["spec"]["replicas"] == 6
    cluster.edit(replicas=16)
    cluster.until(lambda: cluster.holding == 8)


def test_off_means_the_number_of_the_spec() -> None:
    """Without autoscaling the status has nothing of it, and the spec's number is in force again."""
    cluster = started()
    cluster.rate = 3_000.0
    cluster.until(lambda: cluster.holding >= 5)
    cluster.edit(autoscaling={"mode": "Off"}, replicas=3)
    cluster.until(lambda: cluster.holding == 3 and pods(cluster) == 3)
    assert "autoscaling" not in cluster.status
    assert not {each["type"] for each in cluster.status["conditions"]} & {"ScalingActive", "ScalingLimited"}


def test_a_restarted_operator_keeps_the_number() -> None:
    """It is in the status."""
    cluster = grown()
    before = cluster.scaling["desiredReplicas"]
    cluster.restart_operator()
    cluster.rate = None
    cluster.run(30)
    assert cluster.scaling["desiredReplicas"] == cluster.holding == before
    assert cluster.condition("ScalingActive") == ("False", "NoLoad")


def test_stays_within_the_range() -> None:
    """A load that needs more is reported, once."""
    cluster = started(maxReplicas=3)
    cluster.rate = 5_000.0
    cluster.until(lambda: cluster.condition("ScalingLimited") == ("True", "MaxReplicas"))
    cluster.run(MINUTE)
    assert cluster.holding == pods(cluster) == 3
    assert cluster.scaling["limitedBy"] == "MaxReplicas"
    assert len(events(cluster, "ScalingMaxReplicas")) == 1
    cluster.rate = 500.0
    cluster.until(lambda: cluster.condition("ScalingLimited") == ("False", "WithinRange"), 400)


def test_executors_that_cannot_start_are_no_reason_for_more() -> None:
    """The number stays where it is while pods have no room, and falls with the load."""
    cluster = started(2)
    cluster.no_room = set(range(3, 16))
    cluster.rate = 3_000.0
    cluster.until(lambda: cluster.condition("ScalingLimited") == ("True", "Unschedulable"))
    desired = cluster.scaling["desiredReplicas"]
    cluster.rate = 6_000.0
    cluster.run(int(LIMITS.registration_wait_seconds) + MINUTE)
    assert (cluster.scaling["desiredReplicas"], len(cluster.log.holding)) == (desired, 3)
    cluster.rate, cluster.backlog = 500.0, 0.0
    cluster.until(lambda: cluster.holding == 1, 600)


def test_an_invalid_spec_keeps_the_number() -> None:
    """Executors stay until it is corrected, and afterwards."""
    cluster = grown()
    before, image = cluster.scaling["desiredReplicas"], cluster.dataflow["spec"]["image"]
    cluster.edit(image="")
    cluster.run(20)
    assert cluster.scaling["desiredReplicas"] == pods(cluster) == before
    cluster.edit(image=image)
    cluster.run(20)
    assert cluster.scaling["desiredReplicas"] == cluster.holding == before


def test_a_suspended_dataflow_keeps_the_number() -> None:
    """It resumes with as many executors as it had."""
    cluster = grown()
    before = cluster.scaling["desiredReplicas"]
    cluster.edit(suspend=True)
    cluster.until(lambda: pods(cluster) == 0)
    assert cluster.condition("ScalingActive") == ("False", "Suspended")
    cluster.edit(suspend=False)
    cluster.until(lambda: cluster.holding == before)


def test_a_new_driver_is_measured_first() -> None:
    """A driver that is killed reports nothing at first: the number stays."""
    cluster = grown()
    before, cluster.measured = cluster.scaling["desiredReplicas"], 0
    cluster.server.remove(("Pod", NS, f"{NAME}-driver-0"))
    cluster.until(lambda: cluster.scaling["reason"] == "Measuring")
    assert cluster.scaling["desiredReplicas"] == before
    cluster.rate = 6_000.0
    cluster.until(lambda: cluster.holding == 8)


def test_figures_are_written_once_a_minute() -> None:
    """While the number stays, a changing load is no reason to write the status every time."""
    cluster = started()
    cluster.run(30)
    cluster.server.writes.clear()
    for tick in range(3 * MINUTE):
        cluster.rate = 500.0 + tick
        cluster.run(1)
    assert len([write for write in cluster.server.writes if "/status" in write]) <= 4


def test_reads_little_of_the_api_server() -> None:
    """A settled dataflow that is scaled by itself costs no more requests than any other; a step of the load is acted upon at once."""
    cluster = started()
    cluster.reconciler.resync_seconds = MINUTE
    cluster.run(MINUTE)
    requests = 0
    for _ in range(MINUTE):
        cluster.run(1)
        requests += len(cluster.server.requests)
    assert requests <= 30
    cluster.rate = 3_000.0
    cluster.until(lambda: pods(cluster) > 1, 3)


@pytest.mark.parametrize("mode", ["Recommend", "Auto"])
def test_reads_the_load_often(mode: str) -> None:
    """A settled dataflow that is scaled by itself is read every two seconds; others are not."""
    cluster = started(mode=mode, scaleDown=QUICK)
    cluster.run(30)
    requeue = cluster.reconciler.reconcile(NS, NAME).requeue_after
    assert requeue == (LIMITS.load_seconds if mode == "Auto" else LIMITS.rest_seconds)


@pytest.mark.parametrize("write", range(1, 24))
def test_a_crash_after_a_write_changes_nothing(write: int) -> None:
    """The operator is killed at a moment of a growth, starts again, and the number of executors still follows the load."""
    cluster = started()
    cluster.run(20)
    cluster.server.crash_after = len(cluster.server.writes) + write
    cluster.rate = 3_000.0
    cluster.until(lambda: cluster.holding >= 5)
    cluster.until(lambda: cluster.backlog == 0)
    cluster.rate = 500.0
    cluster.until(lambda: cluster.holding == 1 and pods(cluster) == 1, 600)
    assert cluster.server.crash_after is None
