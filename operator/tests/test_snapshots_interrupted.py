"""Snapshots through restarts of the driver, crashes of the operator, and dataflows that are suspended, deleted and created again."""

from __future__ import annotations

import pytest
from sim_cluster import NAME, NS, SDF
from sim_snapshots import started
from test_snapshots import DEFAULT, condition, events, requests_while


def test_driver_restarts_in_the_middle() -> None:
    """The copy begins again at the same location, once there is a driver."""
    cluster = started()
    cluster.copies.seconds = 15
    cluster.request("first")
    cluster.until(lambda: cluster.phase("first") == "Copying")
    cluster.server.remove(("Pod", NS, f"{NAME}-driver-0"))
    cluster.until(lambda: cluster.phase("first") == "Pending")
    assert condition(cluster, "first", "Complete") == ("False", "DriverNotRunning")
    cluster.until(lambda: cluster.phase("first") == "Complete", 300)
    assert cluster.snapshot("first")["location"] == DEFAULT
    assert len(cluster.copies.known) == 2


def test_too_many_wait() -> None:
    """A snapshot for which the driver has no room yet stays pending with the reason, and is requested until it is complete."""
    cluster = started()
    cluster.copies.waiting_max, cluster.copies.seconds = 1, 30
    for name in ("first", "second"):
        cluster.request(name)
        cluster.until(lambda name=name: cluster.phase(name) != "")  # type: ignore[misc]
    cluster.until(lambda: cluster.phase("first") == "Copying")
    assert cluster.phase("second") == "Pending"
    assert condition(cluster, "second", "Complete") == ("False", "Queued")
    assert cluster.snapshot("second")["message"] == "1 other snapshots are waiting"
    cluster.until(lambda: cluster.phase("first") == "Complete")
    cluster.until(lambda: cluster.phase("second") == "Complete")
    assert cluster.names("Failed") == []


def test_driver_restarts_unseen() -> None:
    """A driver that was replaced between two checks does not know the copy, and is requested to make it."""
    cluster = started()
    cluster.copies.seconds = 30
    cluster.request("first")
    cluster.until(lambda: cluster.phase("first") == "Copying")
    cluster.copies.known.clear()
    cluster.until(lambda: cluster.phase("first") == "Complete")
    assert cluster.copies.puts == ["first", "first"]


def test_it_was_completed_by_another_run() -> None:
    """What the location holds already is complete at once."""
    cluster = started()
    cluster.copies.seconds = 15
    cluster.request("first")
    cluster.until(lambda: cluster.phase("first") == "Copying")
    epoch = cluster.snapshot("first")["epoch"]
    cluster.down = True
    cluster.run(20)
    (known,) = cluster.copies.known.values()
    cluster.copies._shown(known["first"])
    cluster.copies.known.clear()
    cluster.down = False
    cluster.restart_operator()
    cluster.until(lambda: cluster.phase("first") == "Complete")
    assert cluster.snapshot("first")["epoch"] == epoch


@pytest.mark.parametrize("writes", range(1, 8))
def test_operator_crashes_after_each_write(writes: int) -> None:
    """Whatever was written last, the next process completes the snapshot, with one event object and one copy."""
    cluster = started()
    cluster.request("first")
    cluster.server.crash_after = len(cluster.server.writes) + writes
    cluster.until(lambda: cluster.phase("first") == "Complete")
    assert events(cluster) == [("SnapshotCompleted", "Normal", "first")]
    assert [len(each) for each in cluster.copies.known.values()] == [1]
    assert cluster.snapshot("first")["location"] == DEFAULT


def test_suspended() -> None:
    """It waits, with the reason and few requests, and is made after the dataflow is resumed."""
    cluster = started(suspend=True)
    cluster.request("first")
    cluster.run(5)
    assert cluster.phase("first") == "Pending"
    assert condition(cluster, "first", "Complete") == ("False", "Suspended")
    cluster.leap(3600)
    assert len(requests_while(cluster, 3600)) <= 3 * 61
    cluster.edit(suspend=False)
    cluster.until(lambda: cluster.phase("first") == "Complete", 200)


@pytest.mark.parametrize("phase", ["Copying", "Complete"])
def test_dataflow_is_deleted_and_created_again(phase: str) -> None:
    """A copy that was interrupted is made of the next dataflow of the name; a complete one is not touched."""
    cluster = started()
    cluster.copies.seconds = 20
    cluster.request("first")
    cluster.until(lambda: cluster.phase("first") == phase)
    before = cluster.snapshot("first")
    cluster.server.remove(SDF)
    cluster.run(70)
    if phase == "Copying":
        assert condition(cluster, "first", "Complete") == ("False", "DataflowNotFound")
    else:
        assert cluster.snapshot("first") == before
        assert requests_while(cluster, 3600) == []
    cluster.start()
    cluster.until(lambda: cluster.phase("first") == "Complete", 300)
    assert (cluster.snapshot("first") == before) is (phase == "Complete")
    assert DEFAULT in cluster.copies.stored


def test_dataflow_is_created_again_with_another_claim() -> None:
    """The copy is made on the claim of the dataflow that makes it, and its status has that one."""
    cluster = started(suspend=True)
    cluster.request("first")
    cluster.until(lambda: cluster.snapshot("first").get("claimName") == NAME)
    cluster.dataflow["spec"]["checkpoint"] = {"claimName": "other"}
    cluster.until(lambda: cluster.snapshot("first").get("claimName") == "other")
    assert cluster.snapshot("first")["location"] == DEFAULT


def test_silent_driver_and_api_server() -> None:
    """Neither a control API nor an API server that does not answer ends a snapshot."""
    cluster = started()
    cluster.copies.seconds = 30
    cluster.request("first")
    cluster.until(lambda: cluster.phase("first") == "Copying")
    cluster.silent = True
    cluster.run(6)
    assert cluster.phase("first") == "Pending"
    cluster.server.down = True
    cluster.run(3)
    cluster.silent = cluster.server.down = False
    cluster.until(lambda: cluster.phase("first") == "Complete", 200)
