"""The next bins to write as snapshots: all of them in turn, at a rate that does not grow with the state."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from log_worlds import DictStorage, World

from binshift.engine.snapshots import CYCLE_EPOCHS_MAX, SLICES, WRITTEN_BYTES, SnapshotCycle, slice_bins
from binshift.model import Worker

CYCLE = 64
sizes = st.lists(st.integers(0, 4 * WRITTEN_BYTES), min_size=1, max_size=64).map(
    lambda found: np.array(found, np.int64)
)


def cycle(loads: np.ndarray, epochs: int) -> tuple[int, list[int]]:
    """The number of epochs until every bin was written once (at most ``epochs``), and the bytes of each slice."""
    left, since, slices = loads, 0, []
    for epoch in range(1, epochs + 1):
        since += 1
        if since * SLICES < CYCLE:
            continue
        # Written bins go to the end of the queue, and so do their bytes.
        count = slice_bins(np.concatenate([left, loads[: len(loads) - len(left)]]), since, CYCLE)
        if count:
            slices.append(int(left[:count].sum()))
            left, since = left[count:], 0
        if not len(left):
            return epoch, slices
    return epochs + 1, slices


@given(sizes)
def test_every_bin_is_written_within_two_cycles(loads: np.ndarray) -> None:
    """This holds for any sizes. The length of a cycle is determined by its bytes."""
    length = max(CYCLE, min(int(loads.sum()) // WRITTEN_BYTES, CYCLE_EPOCHS_MAX))
    epochs, _ = cycle(loads, 4 * length)
    assert epochs <= 2 * length + 2 * CYCLE // SLICES + 1


@given(st.integers(1, 40), st.integers(64, 256))
def test_a_slice_does_not_grow_with_the_state(bin_kib: int, bins: int) -> None:
    """With many bins of equal size, a slice has about what the epochs since the last one allow."""
    loads = np.full(bins, bin_kib * 1024 * 10, np.int64)
    _, slices = cycle(loads, 8 * CYCLE_EPOCHS_MAX)
    assert max(slices) <= max(2 * CYCLE // SLICES * WRITTEN_BYTES, loads.sum() // SLICES + loads[0])


def test_a_worker_of_nothing_but_new_bins_writes_them_in_one_cycle() -> None:
    """Their sizes are unknown."""
    assert cycle(np.zeros(640, np.int64), 1000)[0] == CYCLE


@pytest.mark.parametrize("seed", range(4))
def test_a_new_driver_knows_the_sizes_from_the_log(seed: int) -> None:
    """The sizes are the ones that snapshots counted before it started."""
    world = World(DictStorage(), random.Random(seed))
    for _ in range(20):
        world.epoch()
        world.snapshot(0.9)
    restarted = SnapshotCycle(4)
    for operator in world.index.operators:
        restarted.slice(world.index, operator, Worker(0))
        known = world.index.bin_sizes(operator)
        if known is not None:
            assert (restarted._known(world.index, operator) == known.bytes).all()
