"""StreamingDataflowSnapshots in a simulated cluster: made once by the driver, through restarts and crashes, and never touched again."""

from __future__ import annotations

from typing import Any

import pytest
from sim_cluster import NAME, NS
from sim_copies import BYTES
from sim_snapshots import SnapshotCluster, started

from binshift_operator.model.names import SNAPSHOT_KIND

DEFAULT = f"/checkpoint/{NAME}-snapshots/first"


def condition(cluster: SnapshotCluster, name: str, kind: str) -> tuple[str, str]:
    """Status and reason of a condition."""
    (found,) = (each for each in cluster.snapshot(name)["conditions"] if each["type"] == kind)
    return found["status"], found["reason"]


def events(cluster: SnapshotCluster) -> list[tuple[str, str, str]]:
    """Reason, type and object of the events about snapshots."""
    found = [each for (kind, _, _), each in cluster.server.objects.items() if kind == "Event"]
    ours = [each for each in found if each["involvedObject"]["kind"] == SNAPSHOT_KIND]
    return [(each["reason"], each["type"], each["involvedObject"]["name"]) for each in ours]


def requests_while(cluster: SnapshotCluster, seconds: float) -> list[str]:
    """Requests of the controllers of snapshots in some time."""
    cluster.server.requests.clear()
    cluster.leap(seconds)
    return cluster.server.requests


def test_a_snapshot_is_made() -> None:
    """It is requested once, shows its progress, and is complete with its figures and an event; then nothing is requested."""
    cluster = started()
    cluster.request("first")
    cluster.until(lambda: cluster.phase("first") == "Copying")
    assert cluster.snapshot("first")["copiedBytes"] == 0
    cluster.until(lambda: cluster.phase("first") == "Complete")
    found = cluster.snapshot("first")
    assert (found["location"], found["claimName"]) == (DEFAULT, NAME)
    assert (found["bytes"], found["copiedBytes"], found["files"]) == (BYTES, BYTES, 7)
    assert found["epoch"] <= cluster.log.epoch
    assert found["startTime"] < found["completionTime"]
    assert condition(cluster, "first", "Complete") == ("True", "Complete")
    assert condition(cluster, "first", "Failed") == ("False", "Complete")
    assert events(cluster) == [("SnapshotCompleted", "Normal", "first")]
    assert cluster.copies.puts == ["first"]
    assert requests_while(cluster, 3600) == []


@pytest.mark.parametrize(
    ("dataflow", "given", "location", "claim"),
    [
        ({}, None, DEFAULT, NAME),
        ({}, "s3://backups/first", "s3a://backups/first", None),
        ({}, "/backups/first", "/backups/first", None),
        ({"snapshots": {"every": "720h", "keep": 1, "location": "s3://b/x/"}}, None, "s3a://b/x/{place}/first", None),
    ],
    ids=["default", "given", "another volume", "the dataflow's"],
)
def test_location(dataflow: dict[str, Any], given: str | None, location: str, claim: str | None) -> None:
    """It is what the snapshot names, or below what the dataflow names, or next to the checkpoint."""
    cluster = started(**dataflow)
    location = location.format(place=f"{NS}/{cluster.dataflow['metadata']['uid'][:8]}")
    cluster.request("first", **({} if given is None else {"location": given}))
    cluster.until(lambda: cluster.phase("first") == "Complete")
    assert cluster.snapshot("first")["location"] == location
    assert cluster.snapshot("first").get("claimName") == claim
    assert location in cluster.copies.stored


def test_the_location_is_fixed_by_the_first_request() -> None:
    """An edit of the place for snapshots moves none that was requested."""
    cluster = started()
    cluster.copies.seconds = 20
    cluster.request("first")
    cluster.until(lambda: cluster.phase("first") == "Copying")
    cluster.edit(snapshots={"every": "720h", "keep": 1, "location": "/elsewhere"})
    cluster.until(lambda: cluster.phase("first") == "Complete")
    assert cluster.snapshot("first")["location"] == DEFAULT


def test_refused_location() -> None:
    """A location that the driver refuses ends the snapshot, with the driver's reason and a warning."""
    cluster = started()
    cluster.copies.refused["/etc"] = "/etc is not writable"
    cluster.request("first", location="/etc")
    cluster.until(lambda: cluster.phase("first") == "Failed")
    assert condition(cluster, "first", "Failed") == ("True", "Refused")
    assert "/etc is not writable" in cluster.snapshot("first")["message"]
    assert "location" not in cluster.snapshot("first")
    assert events(cluster) == [("SnapshotFailed", "Warning", "first")]
    assert requests_while(cluster, 3600) == []


def test_name_of_another_location() -> None:
    """A snapshot that is created again with another location is refused, and the message has the first one."""
    cluster = started()
    cluster.request("first")
    cluster.until(lambda: cluster.phase("first") == "Complete")
    cluster.server.remove((SNAPSHOT_KIND, NS, "first"))
    cluster.request("first", location="/checkpoint/other")
    cluster.until(lambda: cluster.phase("first") == "Failed")
    assert DEFAULT in cluster.snapshot("first")["message"]


def test_name_of_a_deleted_object() -> None:
    """The files of a deleted object are not its successor's, which fails with the reason, and without a location."""
    cluster = started()
    cluster.request("first")
    cluster.until(lambda: cluster.phase("first") == "Complete")
    epoch = cluster.snapshot("first")["epoch"]
    cluster.server.remove((SNAPSHOT_KIND, NS, "first"))
    cluster.leap(60)
    cluster.request("first")
    cluster.until(lambda: cluster.phase("first") == "Failed")
    assert (
        f"{DEFAULT} is refused: it already has the snapshot first of epoch {epoch}, finished "
        in cluster.snapshot("first")["message"]
    )
    assert "location" not in cluster.snapshot("first")
    assert DEFAULT in cluster.copies.stored


def test_copy_fails() -> None:
    """What the driver reports as failed has failed."""
    cluster = started()
    cluster.copies.failing = "No space left on device"
    cluster.request("first")
    cluster.until(lambda: cluster.phase("first") == "Failed")
    assert condition(cluster, "first", "Failed") == ("True", "CopyFailed")
    assert cluster.snapshot("first")["message"] == "No space left on device"


def test_old_driver() -> None:
    """A driver without snapshots is no failure: the snapshot waits for an image that has them."""
    cluster = started()
    cluster.copies.old = True
    cluster.request("first")
    cluster.run(10)
    assert condition(cluster, "first", "Complete") == ("False", "NotSupported")
    cluster.copies.old = False
    cluster.until(lambda: cluster.phase("first") == "Complete")


def test_whole_bucket_has_no_place_next_to_it() -> None:
    """The default location does not exist then; the snapshot waits until the dataflow names one."""
    cluster = started()
    cluster.dataflow["spec"]["checkpoint"] = {"location": "s3://bucket/"}
    cluster.request("first")
    cluster.run(2)
    assert condition(cluster, "first", "Complete") == ("False", "NoLocation")
    assert "spec.snapshots.location" in cluster.snapshot("first")["message"]


def test_deletion_is_not_delayed() -> None:
    """A snapshot that is deleted is gone at once, and its files stay."""
    cluster = started()
    cluster.request("first")
    cluster.until(lambda: cluster.phase("first") == "Complete")
    cluster.server.remove((SNAPSHOT_KIND, NS, "first"))
    cluster.run(5)
    assert cluster.names() == []
    assert cluster.copies.removed == []
    assert DEFAULT in cluster.copies.stored


def test_others_are_left_alone() -> None:
    """With a selector, snapshots of other dataflows get no status; once their dataflow is selected, they are made."""
    cluster = started()
    cluster.selector = "team=a"
    cluster.restart_operator()
    cluster.request("first")
    cluster.leap(300)
    assert cluster.snapshot("first") == {}
    cluster.dataflow["metadata"]["labels"] = {"team": "a"}
    cluster.leap(300)
    assert cluster.phase("first") == "Complete"
