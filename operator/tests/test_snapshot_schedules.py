"""Periodic snapshots over days of simulated time: one for each slot, none twice, and only the newest are kept, with their files."""

from __future__ import annotations

from typing import Any

import pytest
from sim_cluster import NAME, NS
from sim_snapshots import SnapshotCluster, started
from test_paused import pause

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
