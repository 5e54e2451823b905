"""Files of the log that are found damaged while a query runs: other files replace them, or the query stops and names them."""

from __future__ import annotations

from functools import reduce
from operator import or_

import pytest
from target_world import begun, rows

from binshift.errors import LogDamaged
from binshift.log.index.index import Index
from binshift.log.records.commits import FileRef, SnapshotRef
from binshift.log.storage import layout
from binshift.migration import Phase
from binshift.model import Worker
from simulator import SimulatedCluster

OPERATOR = "totals"


def spoil(cluster: SimulatedCluster, name: str) -> None:
    """Flip a bit of a file, and notify only the witness."""
    data = cluster.world.files.get(name)
    cluster.world.files.put(name, data[:-1] + bytes([data[-1] ^ 1]))
    cluster.witness.spoiled |= {name}
    cluster.world.calm = False


def needed(cluster: SimulatedCluster, kind: str, worker: int) -> list[FileRef]:
    """The files of a kind that lead the bins of ``worker`` to the newest epoch, the newest file last."""
    index = cluster.driver.log.index
    assert index.route is not None
    plan = index.sources(OPERATOR, index.route.bins_of(Worker(worker)), {}, index.last)
    found = [part.file for part in plan.parts if layout.parse(part.file.name)[0] == kind]  # type: ignore[index]
    return sorted(found, key=lambda file: file.name)


def grown(epochs: int = 12) -> SimulatedCluster:
    """A cluster with snapshots of every bin and deltas after them."""
    cluster = begun()
    for number in range(3, epochs):
        cluster.epoch(rows(number))
        cluster.background()
    return cluster


def go_on(cluster: SimulatedCluster, epochs: int = 6) -> None:
    """Run epochs and rounds; the witness compares each with the reference."""
    for number in range(100, 100 + epochs):
        cluster.epoch(rows(number))
        cluster.background()


@pytest.mark.parametrize("kind", ["deltas", "snapshots"])
def test_a_moving_bin_whose_file_is_damaged_is_rewritten_by_its_owner(kind: str) -> None:
    """If the new owner finds the damage, the old one, which has the state, makes a snapshot, and the migration continues."""
    cluster = grown()
    spoiled = [file.name for worker in (0, 1) for file in needed(cluster, kind, worker)]
    assert spoiled
    for name in spoiled:
        spoil(cluster, name)
    migration = cluster.rescale(4)
    cluster.settle()
    assert migration.phase is Phase.SETTLED
    assert cluster.driver.log.index.unusable
    assert cluster.route is not None
    assert len(cluster.route.workers) == 4
    go_on(cluster)
    for worker in range(4):
        cluster.wipe(worker)  # the log alone is sufficient again
    go_on(cluster)


def test_an_idle_stream_is_repaired_too() -> None:
    """Without input, epochs are requested until the snapshots count; then no more are."""
    cluster = grown()
    for name in [file.name for worker in (0, 1) for file in needed(cluster, "snapshots", worker)]:
        spoil(cluster, name)
    cluster.rescale(3)
    cluster.settle()
    for _ in range(9):
        cluster.background()
        if cluster.driver.coordinator.needs_epoch():
            cluster.epoch()
    assert not cluster.driver.coordinator.needs_epoch()
    assert not cluster.driver.log.index.unbuildable(OPERATOR)


def test_a_flip_that_meets_damage_does_not_happen() -> None:
    """Without copies in advance the epoch itself finds the damage: the bins stay, and the migration ends with the file's name."""
    cluster = grown()
    spoiled = [file.name for worker in (0, 1) for file in needed(cluster, "snapshots", worker)]
    for name in spoiled:
        spoil(cluster, name)
    before = cluster.route
    migration = cluster.rescale(4, pre_copy=False)
    go_on(cluster)
    assert migration.phase is Phase.CANCELLED
    assert any(name in migration.reason for name in spoiled)
    assert cluster.route == before
    again = cluster.rescale(4, pre_copy=False)
    cluster.settle()
    assert again.phase is Phase.SETTLED
    go_on(cluster)


def replaceable(index: Index) -> SnapshotRef:
    """A newest snapshot whose bins are all in older ones too."""
    for newest in reversed(index.snapshots[OPERATOR]):
        older = [each.bins for each in index.snapshots[OPERATOR] if each.epoch < newest.epoch]
        if newest.file and older and not newest.bins - reduce(or_, older):
            return newest
    raise AssertionError("no snapshot is replaceable")


def test_a_lost_store_is_built_from_an_older_snapshot() -> None:
    """If the newest snapshot is damaged and the store is lost, the previous snapshot and the later deltas are used."""
    cluster = grown()
    index = cluster.driver.log.index
    newest = replaceable(index)
    assert newest.file is not None
    spoil(cluster, newest.file.name)
    cluster.wipe(newest.worker)
    go_on(cluster)
    assert cluster.driver.log.index.unusable == {newest.file.name}


def test_what_nothing_replaces_is_refused_by_name() -> None:
    """If store and file are both lost, the query stops, names the file, and changes nothing; with the file restored, it continues."""
    cluster = grown()
    name = needed(cluster, "deltas", 0)[-1].name
    whole = cluster.world.files.get(name)
    spoil(cluster, name)
    cluster.wipe(0)
    last = cluster.last
    with pytest.raises(LogDamaged, match=f"{name} .*backup"):
        cluster.epoch(rows(50))
    assert cluster.last == last
    cluster.world.files.put(name, whole)
    cluster.witness.spoiled = frozenset()
    cluster.restart_driver()
    cluster.finish()
    go_on(cluster)
