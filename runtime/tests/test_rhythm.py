"""Snapshots, manifests and collections in a fast stream: as often as in a slower one, and bounded without a clock (I7)."""

from __future__ import annotations

from copy import copy
from types import SimpleNamespace
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

from binshift.engine.housekeeping import Housekeeping
from binshift.engine.rhythm import EPOCH_BYTES, STRETCH_MAX, Rhythm
from binshift.engine.snapshots import SLICES, SnapshotCycle
from binshift.model import BinSet, Epoch, Worker

BINS, CYCLE, RATE = 64, 64, 7.0


class FastLog:
    """A stream of one worker, as the engine reads it from the index; written bins count with the next epoch."""

    def __init__(self, epochs_per_second: float, delta_bytes: int = 1000) -> None:
        self.seconds = 0.0
        self.last = Epoch(-1)
        self.bins = BINS
        self.route = SimpleNamespace(bins_of=lambda worker: BinSet(range(BINS)))
        self.snapshots: dict[str, list[object]] = {"count": []}
        self.records: dict[int, object] = {}
        self.manifests: list[Epoch] = []
        self.collected: list[Epoch] = []
        self.written = np.full(BINS, -1)
        self.passes = 0
        self._step = 1 / epochs_per_second
        self._part = SimpleNamespace(operator="count", worker=0, delta=SimpleNamespace(bytes=delta_bytes))

    @property
    def index(self) -> FastLog:
        """Both are one here."""
        return self

    def clock(self) -> float:
        """Seconds of the stream."""
        return self.seconds

    def unbuildable(self, operator: str) -> BinSet:
        """None is."""
        return BinSet()

    def snapshot_epochs(self, operator: str) -> Any:
        """By bin."""
        self.passes += 1
        return self.written

    def write_manifest(self, epoch: Epoch) -> None:
        """Durable at once."""
        self.manifests.append(epoch)

    def collect(self, spark_committed: Epoch, now: float, pending: tuple[str, ...]) -> None:
        """Nothing to delete."""
        self.collected.append(self.last)

    def advance(self) -> None:
        """One more epoch."""
        self.last, self.seconds = Epoch(self.last + 1), self.seconds + self._step
        self.records[self.last] = SimpleNamespace(parts=(self._part,))


def run(log: FastLog, epochs: int) -> tuple[list[int], int]:
    """The epochs in which a slice was due, and the longest chain of deltas of a bin after the first cycle."""
    cycle = SnapshotCycle(CYCLE, clock=log.clock, epochs_per_second=RATE)
    slices, longest = [], 0
    for _ in range(epochs):
        log.advance()
        view: Any = copy(log)  # an index never changes: each epoch has another
        some = cycle.slice(view, "count", Worker(0))
        if some:
            slices.append(int(log.last))
            log.written[some.array] = log.last
        longest = max(longest, int((log.last - log.written).max()))
    return slices, longest


def house(log: FastLog, epochs: int) -> None:
    """Keep house after each epoch."""
    view: Any = log
    keeping = Housekeeping(view, 100, 16, log.clock, RATE)
    for _ in range(epochs):
        log.advance()
        keeping.run(())


@given(epochs=st.integers(0, 10_000), seconds=st.floats(0, 1e6), bytes=st.integers(0, 1 << 40))
def test_no_epoch_counts_twice_and_one_of_four_counts(epochs: int, seconds: float, bytes: int) -> None:
    """Whatever the clock and the sizes are."""
    times = iter([0.0, seconds])
    rhythm = Rhythm(lambda: next(times), RATE)
    counted = rhythm.since(rhythm.moment(Epoch(0)), Epoch(epochs), bytes)
    assert epochs // STRETCH_MAX <= counted <= epochs


@pytest.mark.parametrize("rate", [1, 5, 7, 20, 28])
def test_slices_of_a_fast_stream_keep_the_time_of_a_slower_one(rate: float) -> None:
    """Up to seven epochs a second, a slice comes every few epochs; above, with the same pause."""
    slices, _ = run(FastLog(rate), 600)
    pauses = np.diff(slices)
    assert pauses.max() <= np.ceil(max(1.0, rate / RATE) * CYCLE / SLICES) + 1
    assert pauses.mean() >= max(1.0, rate / RATE) * CYCLE / SLICES - 0.5


def test_a_round_passes_over_all_snapshots_once() -> None:
    """However many workers there are: with a pass for each, a round took seconds with hundreds of them."""
    log = FastLog(1.0)
    cycle = SnapshotCycle(CYCLE, clock=log.clock, epochs_per_second=RATE)
    slices: list[BinSet] = []
    view: Any = log
    for epoch in range(2 * CYCLE):
        log.advance()
        view = copy(log)
        slices = [cycle.slice(view, "count", Worker(worker)) for worker in range(40)]
        if epoch > CYCLE and all(slices):
            break
    assert all(slices)
    assert view.passes == 1


@pytest.mark.parametrize("rate", [7, 25, 1000])
def test_the_chain_of_a_bin_is_bounded(rate: float) -> None:
    """Deltas to read in a recovery: those of two cycles, four times as many at most, even where time seems to stand still."""
    _, longest = run(FastLog(rate), 3000)
    assert longest <= 2 * CYCLE * min(STRETCH_MAX, max(1, rate / RATE)) + CYCLE


def test_large_deltas_count_in_full() -> None:
    """What a recovery has to read is not four times as much because epochs are fast."""
    slices, _ = run(FastLog(1000, delta_bytes=EPOCH_BYTES), 600)
    assert np.diff(slices).max() == CYCLE // SLICES


@pytest.mark.parametrize(("rate", "apart"), [(5, 100), (25, 100 * 25 / 7), (1000, 400)])
def test_manifests_and_collections_keep_the_rhythm(rate: float, apart: float) -> None:
    """A restart reads at most four times the records of the setting."""
    log = FastLog(rate)
    house(log, 2000)
    assert np.diff(log.manifests) == pytest.approx(apart, abs=4)
    assert np.diff(log.collected) == pytest.approx(apart * 16 / 100, abs=4)
