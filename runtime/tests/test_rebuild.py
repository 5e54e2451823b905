"""Bins are built from nothing: their rows do not depend on how the bins are grouped."""

from __future__ import annotations

import random

import pytest
from log_worlds import DictStorage, World

from binshift.entries import EMPTY, Entries, bin_set, concat
from binshift.model import BinSet
from binshift.worker import rebuild
from binshift.worker.rebuild import BinRebuild, Limits

WHOLE = Limits(bins_at_once=1 << 20, rows_at_once=1 << 40)


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
            for limits in (Limits(bins_at_once=1), Limits(bins_at_once=3), Limits(rows_at_once=5)):
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
