"""Periodic snapshots over days of simulated time: one for each slot, none twice, and only the newest are kept, with their files."""

from __future__ import annotations

from typing import Any

import pytest
from sim_cluster import NAME, NS
from sim_snapshots import SnapshotCluster, started
from test_paused import pause

from binshift_operator.errors import Invalid, Unreachable
from binshift_operator.model.names import LABEL_DATAFLOW, LABEL_PERIODIC, SNAPSHOT_KIND
from binshift_operator.snapshot_codec import slot_name

HOUR, DAY = 3600.0, 86_400.0
HOURLY: dict[str, Any] = {"every": "1h", "keep": 3}


def scheduled(**schedule: Any) -> SnapshotCluster:
    """A dataflow with a schedule whose first snapshot is complete."""
    cluster = started(snapshots={**HOURLY, **schedule})
    cluster.leap(120)
    assert cluster.names("Complete") == [slot(cluster)]
    return cluster


def slot(cluster: SnapshotCluster, ago: int = 0, every: float = HOUR) -> str:
    """The name of the snapshot of the current slot, or of an earlier one."""
    return slot_name(NAME, (cluster.now // every - ago) * every)


def slots(cluster: SnapshotCluster, number: int) -> list[str]:
    """The names of the newest slots, the oldest first."""
    return [slot(cluster, ago) for ago in reversed(range(number))]


def locations(cluster: SnapshotCluster) -> set[str]:
    """The names of snapshots whose files are stored."""
    return {each.rpartition("/")[2] for each in cluster.copies.stored}


def created(cluster: SnapshotCluster) -> int:
    """How many snapshots were created so far."""
    return sum(write.startswith("POST") and write.endswith("snapshots") for write in cluster.server.writes)


def test_days() -> None:
    """Each hour there is one more, and the newest three are kept, with their files and no others."""
    cluster = scheduled()
    before = created(cluster)
    cluster.leap(2 * DAY)
    assert created(cluster) - before == 48
    assert cluster.names("Complete") == cluster.names() == slots(cluster, 3)
    assert locations(cluster) == set(slots(cluster, 3))
    labels = cluster.server.objects[SNAPSHOT_KIND, NS, slot(cluster)]["metadata"]["labels"]
    assert labels == {LABEL_DATAFLOW: NAME, LABEL_PERIODIC: "true"}


def test_requests_are_made_around_the_due_time() -> None:
    """Between two slots nothing is requested, but the listings that make lost events harmless."""
    cluster = scheduled()
    cluster.leap(HOUR - (cluster.now % HOUR) + 120)
    cluster.server.requests.clear()
    cluster.leap(HOUR - 240)
    assert cluster.server.requests == []
    cluster.leap(240)
    assert 0 < len(cluster.server.requests) < 50


@pytest.mark.parametrize("restarts", [False, True])
def test_operator_was_down(restarts: bool) -> None:
    """After a day without an operator there is one snapshot for the slot of now, and none for the missed ones."""
    cluster = scheduled()
    first = slot(cluster)
    cluster.down = True
    cluster.leap(DAY)
    cluster.down = False
    if restarts:
        cluster.restart_operator()
    cluster.leap(120)
    assert cluster.names("Complete") == [first, slot(cluster)]


def test_suspended_for_a_day() -> None:
    """No snapshot waits meanwhile; one is made after the dataflow is resumed."""
    cluster = scheduled()
    first = slot(cluster)
    cluster.edit(suspend=True)
    cluster.converge()
    cluster.server.requests.clear()
    cluster.leap(DAY)
    assert len(cluster.server.requests) <= 1
    cluster.edit(suspend=False)
    cluster.converge()
    cluster.leap(120)
    assert cluster.names("Complete") == cluster.names() == [first, slot(cluster)]


def test_none_overlaps() -> None:
    """While one is unfinished no other is created, and once it has ended, that of the current slot is."""
    cluster = scheduled()
    cluster.copies.seconds = 2.5 * HOUR
    cluster.leap(HOUR)
    begun = slot(cluster)
    cluster.leap(2 * HOUR)
    assert [name for name in cluster.names() if name not in cluster.names("Complete")] == [begun]
    cluster.copies.seconds = 5
    cluster.leap(HOUR)
    assert begun in cluster.names("Complete")
    assert slot(cluster) in cluster.names("Complete")
    assert slot(cluster, 1) in cluster.names() or slot(cluster, 2) not in cluster.names()


@pytest.mark.parametrize("writes", range(1, 13))
def test_operator_crashes_after_each_write(writes: int) -> None:
    """No crash makes two snapshots of a slot, keeps too many, or leaves files without their object."""
    cluster = scheduled(keep=1)
    cluster.server.crash_after = len(cluster.server.writes) + writes
    before = created(cluster)
    cluster.leap(2 * HOUR)
    assert created(cluster) - before == 2
    assert cluster.names("Complete") == cluster.names() == [slot(cluster)]
    assert locations(cluster) == {slot(cluster)}


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


def test_many_are_removed() -> None:
    """A lower number is put in place in steps, each of bounded length."""
    cluster = scheduled(keep=30)
    cluster.leap(29 * HOUR)
    assert len(cluster.names()) == 30
    cluster.edit(snapshots={**HOURLY, "keep": 2})
    cluster.work()
    assert len(cluster.names()) == 20
    cluster.leap(180)
    assert cluster.names() == slots(cluster, 2)


def test_dataflow_is_deleted() -> None:
    """Its snapshots and their files stay, and nothing more is done about them."""
    cluster = scheduled()
    cluster.leap(3 * HOUR)
    before = cluster.names()
    cluster.server.remove(("StreamingDataflow", NS, NAME))
    cluster.leap(DAY)
    assert cluster.names("Complete") == before


def test_paused() -> None:
    """A paused dataflow gets no periodic snapshot, and loses none."""
    cluster = scheduled()
    before = cluster.names()
    pause(cluster)
    cluster.leap(DAY)
    assert cluster.names() == before
    pause(cluster, None)
    cluster.leap(HOUR)
    assert slot(cluster) in cluster.names("Complete")


def test_schedule_is_removed() -> None:
    """Without a schedule no snapshot is made, and the existing ones stay."""
    cluster = scheduled()
    del cluster.dataflow["spec"]["snapshots"]
    cluster.leap(DAY)
    assert len(cluster.names("Complete")) == 1
    assert created(cluster) == 1


def test_nothing_before_the_first_epoch() -> None:
    """A dataflow without state gets no snapshot; the first one is made soon after its first epoch."""
    cluster = SnapshotCluster()
    cluster.start()
    cluster.silent = True
    cluster.edit(snapshots=HOURLY)
    cluster.run(30)
    cluster.leap(600)
    assert cluster.names() == []
    cluster.converge()
    cluster.leap(120)
    assert len(cluster.names("Complete")) == 1


def test_deaf_operator() -> None:
    """Without a single event, the listings find the schedule and the snapshots."""
    cluster = started()
    cluster.deaf = True
    cluster.edit(snapshots=HOURLY)
    cluster.request("mine")
    cluster.leap(900)
    assert sorted(cluster.names("Complete")) == sorted([slot(cluster), "mine"])
