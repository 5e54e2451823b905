"""Bins are built from nothing: their rows do not depend on how the bins are grouped."""

from __future__ import annotations

import random

import pytest
from log_worlds import DictStorage, World

from binshift import entries
from binshift.entries import EMPTY, Entries, bin_set, concat
from binshift.log.files.blocks import write_file
from binshift.log.index.bringup import BringUp, DeltaPart
from binshift.model import BinSet, Epoch, Fence, Term
from binshift.store.bins.binstore import BinStore
from binshift.store.engine.contract import StoreLimits
from binshift.store.engine.memory_store import MemoryStore
from binshift.worker import rebuild
from binshift.worker.bring_up import bring_up
from binshift.worker.rebuild import BinRebuild, Limits

WHOLE = Limits(bins_at_once=1 << 20, rows_at_once=1 << 40, bytes_at_once=1 << 40)


def world_of(seed: int) -> World:
    """Thirty epochs with snapshots and deletions."""
    world = World(DictStorage(), random.Random(seed))
    for _ in range(30):
        world.epoch()
        world.snapshot()
    return world


def filled(world: World, operator: str, bins: BinSet, limits: Limits) -> tuple[list[BinSet], Entries]:
    """The groups, and all rows in order."""
    files = world.index.sources(operator, bins, {}, world.index.last)
    made = BinRebuild(world.storage, files, bins)
    groups = list(made.groups(limits))
    return groups, concat([EMPTY, *(made.rows(group) for group in groups)])


@pytest.mark.parametrize("shared_rows", [0, 1 << 30])
@pytest.mark.parametrize("seed", range(4))
def test_groups_make_no_difference(seed: int, shared_rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """For any limits, and whether deltas are read once or by each group, the rows are those of a single group."""
    world = world_of(seed)
    some = BinSet(random.Random(seed).sample(range(world.bins), world.bins // 2))
    for operator in world.index.operators:
        for bins in (BinSet(range(world.bins)), some):
            _, whole = filled(world, operator, bins, WHOLE)
            monkeypatch.setattr(rebuild, "SHARED_ROWS_MAX", shared_rows)
            for limits in (
                Limits(bins_at_once=1),
                Limits(bins_at_once=3),
                Limits(rows_at_once=5),
                Limits(bytes_at_once=4096),
            ):
                groups, rows = filled(world, operator, bins, limits)
                assert rows.to_pylist() == whole.to_pylist()
                assert [b for group in groups for b in group] == list(bins)
                assert all(len(group) <= limits.bins_at_once for group in groups)
            assert not len(bin_set(whole) - bins)
            assert whole.column("value").null_count == 0


def test_nothing_is_no_group() -> None:
    """No bins form no group."""
    world = world_of(1)
    assert filled(world, world.index.operators[0], BinSet(), WHOLE)[0] == []


def test_a_group_has_a_share_of_the_bytes() -> None:
    """Files of so many bytes in all are read in about as many groups as the limit fits into them."""
    world = world_of(2)
    (operator, *_), bins = world.index.operators, BinSet(range(world.bins))
    files = world.index.sources(operator, bins, {}, world.index.last)
    made = BinRebuild(world.storage, files, bins)
    half = Limits(bytes_at_once=files.bytes_total // 2 + 1)
    assert len(list(made.groups(WHOLE))) == 1
    assert len(list(made.groups(half))) in (2, 3)


@pytest.mark.parametrize("merged_rows", [1, 1 << 30])
def test_rows_before_a_snapshot_do_not_return(merged_rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A block of a delta has rows of other bins, too: also of one that was emptied, and whose snapshot is newer and has no rows."""
    monkeypatch.setattr(rebuild, "MERGED_ROWS", merged_rows)
    storage, bins = DictStorage(), BinSet([1, 2])
    parts = []
    for epoch, found in (
        (3, entries.make([1, 2, 3], [b"k"] * 3, [b"old"] * 3)),
        (6, entries.make([1], [b"l"], [b"new"])),
    ):
        file = write_file(storage, f"deltas/{epoch}", [found])
        assert file is not None
        parts.append(DeltaPart(Epoch(epoch), file, BinSet([1])))
    starts = ((Epoch(-1), BinSet([1])), (Epoch(5), BinSet([2])))
    made = BinRebuild(storage, BringUp("sum", Epoch(6), bins, bins, starts, (), tuple(parts)), bins)
    rows = concat([made.rows(group) for group in made.groups(WHOLE)])
    assert rows.to_pylist() == entries.make([1, 1], [b"k", b"l"], [b"old", b"new"]).to_pylist()


def test_blocks_are_not_fetched_for_bins_with_a_newer_snapshot() -> None:
    """Of a large delta only what is needed is fetched: a filling of many megabytes must not be read for the one bin that is left."""
    storage, bins = DictStorage(), BinSet(range(16))
    rows = entries.make(list(bins), [b"k"] * 16, [bytes(256 * 1024)] * 16)
    file = write_file(storage, "deltas/3", [rows])
    assert file is not None
    starts = ((Epoch(-1), BinSet([4])), (Epoch(5), bins - BinSet([4])))
    delta = DeltaPart(Epoch(3), file, BinSet([4]))
    made = BinRebuild(storage, BringUp("sum", Epoch(6), bins, bins, starts, (), (delta,)), bins)
    found = concat([made.rows(group) for group in made.groups(WHOLE)])
    assert bin_set(found) == BinSet([4])
    assert sum(end - start for _, (start, end) in storage.read) < 2 * 256 * 1024 + file.trailer


@pytest.mark.parametrize("shared_rows", [0, 1 << 30])
def test_there_is_a_rest_after_each_file(shared_rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """However small the groups are, files that all groups share are read once, and no two of them without a rest."""
    monkeypatch.setattr(rebuild, "SHARED_ROWS_MAX", shared_rows)
    world, rests = world_of(3), []
    (operator, *_), bins = world.index.operators, BinSet(range(world.bins))
    files = world.index.sources(operator, bins, {}, world.index.last)
    made = BinRebuild(world.storage, files, bins, lambda: rests.append(1))
    groups = list(made.groups(Limits(bins_at_once=1)))
    for group in groups:
        made.rows(group)
    assert len(rests) >= len(files.parts)
    if shared_rows:
        snapshots = sum(len(snapshot.bins & bins) for snapshot in files.snapshots)
        assert len(rests) == snapshots + len(files.deltas)


def test_large_rows_are_written_in_small_transactions() -> None:
    """A round rests between them, whether a transaction is full of rows or of bytes: an epoch waits for the one that runs."""
    storage, store, bins = (
        DictStorage(),
        BinStore(MemoryStore(), 16, StoreLimits(background_bytes_max=2200)),
        BinSet([1]),
    )
    rows = entries.make([1] * 6, [b"%d" % at for at in range(6)], [bytes(1 << 10)] * 6)
    file = write_file(storage, "deltas/1", [rows])
    assert file is not None
    files = BringUp("sum", Epoch(1), bins, bins, ((Epoch(-1), bins),), (), (DeltaPart(Epoch(1), file, bins),))
    rests: list[int] = []

    def pause() -> bool:
        rests.append(store.size().rows)
        return True

    done = bring_up(store, storage, Fence(Term(1), Epoch(1), 0), bins, Epoch(1), files, pause=pause)
    assert rests[-2:] == [2, 4]
    assert store.status().copies == {1: 1}
    assert (done.bins, done.rows, store.size().rows) == (1, 6, 6)
