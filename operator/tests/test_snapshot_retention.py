"""Removal of periodic snapshots that are no longer kept: files before objects, one that stays blocks no other, and nothing of others."""

from __future__ import annotations

from sim_cluster import NAME, NS
from sim_snapshots import SnapshotCluster
from test_snapshot_schedules import HOUR, HOURLY, locations, scheduled, slot, slots

from binshift_operator.errors import Invalid, Unreachable
from binshift_operator.model.names import LABEL_DATAFLOW, LABEL_PERIODIC, SNAPSHOT_KIND


def test_unreachable_driver_delays_removal() -> None:
    """What is no longer kept stays as long as the driver does not answer, and goes afterwards, files first."""
    cluster = scheduled()
    cluster.leap(3 * HOUR)
    oldest = cluster.names()[0]
    cluster.silent = True
    cluster.edit(snapshots={**HOURLY, "keep": 1})
    cluster.leap(600)
    assert oldest in cluster.names("Complete")
    assert oldest in locations(cluster)
    cluster.silent = False
    cluster.leap(120)
    assert cluster.names() == [slot(cluster)]
    assert locations(cluster) == {slot(cluster)}


def test_files_that_are_not_removed() -> None:
    """A complete snapshot whose files the driver does not remove stays, with an event; a failed one goes."""
    cluster = scheduled(keep=1)
    first = slot(cluster)
    cluster.copies.undeletable = "access denied"
    cluster.leap(HOUR)
    assert cluster.names("Complete") == [first, slot(cluster)]
    reasons = {each["reason"] for (kind, _, _), each in cluster.server.objects.items() if kind == "Event"}
    assert "SnapshotNotRemoved" in reasons
    cluster.copies.failing = "disk full"
    cluster.leap(5 * HOUR)
    assert cluster.names("Failed") == [slot(cluster)]
    cluster.copies.undeletable = cluster.copies.failing = ""
    cluster.leap(HOUR)
    assert cluster.names("Complete") == [slot(cluster)]


def not_removed(cluster: SnapshotCluster) -> dict[str, int]:
    """How often it was reported of which snapshot that its files are not removed."""
    found = (each for (kind, _, _), each in cluster.server.objects.items() if kind == "Event")
    ours = (each for each in found if each["reason"] == "SnapshotNotRemoved")
    return {each["involvedObject"]["name"]: each["count"] for each in ours}


def test_one_that_is_not_removed_blocks_no_other() -> None:
    """More than are removed at once stay at the head; all others go, and each is reported and requested once in a slot."""
    cluster = scheduled(keep=30)
    cluster.leap(24 * HOUR)
    head, others = cluster.names()[:12], cluster.names()[12:]
    assert len(others) > 12
    cluster.copies.locked = dict.fromkeys(head, Invalid("access denied"))
    cluster.edit(snapshots={**HOURLY, "keep": 1})
    cluster.leap(600)
    assert cluster.names() == [*head, others[-1]]
    assert not_removed(cluster) == dict.fromkeys(head, 1)
    cluster.server.requests.clear()
    cluster.leap(600)
    assert len(cluster.server.requests) < 50
    cluster.edit(snapshots={**HOURLY, "keep": 1})
    cluster.leap(60)
    assert not_removed(cluster) == dict.fromkeys(head, 1)
    cluster.leap(HOUR)
    assert not_removed(cluster) == dict.fromkeys(head, 2)


def test_one_location_that_does_not_answer() -> None:
    """It delays no other removal, and is requested again soon."""
    cluster = scheduled(keep=3)
    cluster.leap(2 * HOUR)
    first, second, newest = cluster.names()
    cluster.copies.locked[first] = Unreachable("the bucket does not answer")
    cluster.edit(snapshots={**HOURLY, "keep": 1})
    cluster.leap(30)
    assert cluster.names() == [first, newest]
    cluster.copies.locked.clear()
    cluster.leap(120)
    assert cluster.names() == [newest]
    assert locations(cluster) == {newest}
    assert not_removed(cluster) == {}
    assert second in cluster.copies.removed


def test_files_on_another_claim() -> None:
    """The driver of a dataflow that was created again with another claim finds no files there: the object stays, and is reported."""
    cluster = scheduled(keep=1)
    first = slot(cluster)
    cluster.server.objects[SNAPSHOT_KIND, NS, first]["status"]["claimName"] = "earlier"
    cluster.leap(HOUR)
    assert cluster.names("Complete") == [first, slot(cluster)]
    assert first in locations(cluster)
    assert cluster.copies.removed == []
    assert not_removed(cluster) == {first: 1}


def test_failed_ones_are_kept_in_the_same_number() -> None:
    """Failures remove no complete snapshot, and are themselves limited; the next slot is tried again."""
    cluster = scheduled()
    cluster.leap(4 * HOUR)
    complete = cluster.names("Complete")
    cluster.copies.failing = "disk full"
    cluster.leap(10 * HOUR)
    assert cluster.names("Complete") == complete
    assert cluster.names("Failed") == slots(cluster, 3)
    assert locations(cluster) == set(complete)


def test_files_of_others_are_never_removed() -> None:
    """A snapshot that was refused, or not begun as its location has something else, goes without a request to remove files."""
    cluster = scheduled(keep=1)
    cluster.copies.occupied = "it has the snapshot of another query"
    cluster.leap(3 * HOUR)
    assert cluster.names("Failed") == [slot(cluster)]
    assert "location" not in cluster.snapshot(slot(cluster))
    assert "of another query" in cluster.snapshot(slot(cluster))["message"]
    assert cluster.copies.removed == []


def test_others_are_never_removed() -> None:
    """A snapshot that a user made, a periodic one without its label, and one of another dataflow stay."""
    cluster = scheduled(keep=1)
    cluster.request("mine")
    pinned = slot(cluster)
    cluster.server.objects[SNAPSHOT_KIND, NS, pinned]["metadata"]["labels"] = {LABEL_DATAFLOW: NAME}
    labels = {LABEL_DATAFLOW: NAME, LABEL_PERIODIC: "true"}
    foreign = {"metadata": {"name": "foreign", "namespace": NS, "labels": labels}, "spec": {"dataflow": "views"}}
    cluster.server.put(SNAPSHOT_KIND, {"kind": SNAPSHOT_KIND, **foreign})
    cluster.leap(5 * HOUR)
    assert set(cluster.names()) == {"mine", pinned, "foreign", slot(cluster)}
    assert {"mine", pinned} <= locations(cluster)
