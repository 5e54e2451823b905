"""The sizes of bins, as counted by snapshots: the text, the index, and the way from a worker's round to weights."""

from __future__ import annotations

import random

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from log_worlds import DictStorage, World, loads_of

from binshift.log.records import bin_sizes
from simulator import SimulatedCluster, Totals

BINS = 16
some_loads = st.lists(st.tuples(st.integers(1, 2**62), st.integers(1, 2**62)), max_size=200)


@given(some_loads)
def test_loads_survive_being_text(held: list[tuple[int, int]]) -> None:
    """Every number is restored; the text of other bins is rejected."""
    text = bin_sizes.pack([rows for rows, _ in held], [size for _, size in held])
    found = bin_sizes.unpack(text, len(held))
    assert list(zip(found.rows.tolist(), found.bytes.tolist(), strict=True)) == held
    for wrong in {len(held) + 1, max(0, len(held) - 1)} - {len(held)}:
        with pytest.raises(ValueError, match=f"of {wrong} bins"):
            bin_sizes.unpack(text, wrong)


@pytest.mark.parametrize("text", ["x", "AAAA", bin_sizes.pack([1], [2])[:-4], bin_sizes.pack([-1], [2])])
def test_damaged_loads_are_refused(text: str) -> None:
    """Such text is invalid, truncated, or has negative numbers."""
    with pytest.raises(ValueError, match="the loads of 1 bins"):
        bin_sizes.unpack(text, 1)


@pytest.mark.parametrize("seed", range(5))
def test_the_index_knows_what_bins_held_when_they_were_written(seed: int) -> None:
    """The newest snapshot of each bin counts; if a changed bin was never written, all loads are unknown."""
    world = World(DictStorage(), random.Random(seed))
    unknown = known = 0
    for step in range(30):
        world.plan_moves(0.1)
        world.epoch()
        if step > 5:
            world.snapshot(0.9)
        if step == 20:
            world.snapshot_all()
        for operator in world.operators:
            epochs = world.index.snapshot_epochs(operator).tolist()
            rows = [loads_of(world.states[e][operator] if e >= 0 else {}, b) for b, e in enumerate(epochs)]
            changed = {b for state in world.states.values() for b, _ in state[operator]}
            found = world.index.bin_sizes(operator)
            if found is None:
                unknown += 1
                assert any(epochs[b] < 0 for b in range(world.bins))
            else:
                known += 1
                assert all(epochs[b] >= 0 for b in changed)
                assert list(zip(found.rows.tolist(), found.bytes.tolist(), strict=True)) == rows
    assert unknown
    assert known


def test_snapshots_that_were_not_counted_make_loads_unknown() -> None:
    """A checkpoint of a version without counts continues; nothing is estimated."""
    world = World(DictStorage(), random.Random(1))
    for _ in range(4):
        world.epoch()
    world.snapshot_all()
    world.snapshots = [msgspec.structs.replace(each, packed_loads="") for each in world.snapshots]
    world.epoch()
    assert [world.index.bin_sizes(operator) for operator in world.operators] == [None, None]


def test_loads_of_other_bins_are_refused_with_their_snapshot() -> None:
    """A snapshot that contradicts itself does not count."""
    world = World(DictStorage(), random.Random(2))
    for _ in range(4):
        world.epoch()
    world.snapshot_all()
    snapshot = next(each for each in world.snapshots if each.file is not None)
    assert world.index.snapshot_trouble(snapshot) is None
    wrong = msgspec.structs.replace(snapshot, packed_loads=bin_sizes.pack([1] * 99, [1] * 99))
    assert "the loads of" in str(world.index.snapshot_trouble(wrong))


def test_a_running_dataflow_weighs_its_bins() -> None:
    """The weights are unknown until each bin was written once; then they are known, also to the next driver."""
    cluster = SimulatedCluster(Totals(), bins=BINS, workers=2)
    rows = [{"key": f"k{n}", "value": n, "time": 0} for n in range(40)]
    cluster.epoch(rows)
    assert cluster.driver.coordinator.bin_weights() is None
    while cluster.driver.coordinator.bin_weights() is None:
        assert cluster.last < 200
        cluster.epoch(rows)
        cluster.background()
    weights = cluster.driver.coordinator.bin_weights()
    assert weights is not None
    loads_now = cluster.driver.log.index.bin_sizes("totals")
    assert loads_now is not None
    assert loads_now.rows.sum() == 40
    assert weights.shape == (BINS,)
    assert weights.argmax() == loads_now.bytes.argmax()
    assert (weights > 0).tolist() == (loads_now.rows > 0).tolist()
    cluster.restart_driver()
    again = cluster.driver.coordinator.bin_weights()
    assert again is not None
    assert np.array_equal(again, weights)
