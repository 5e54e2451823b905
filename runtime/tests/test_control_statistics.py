"""Values that the control API computes: latency, rates, sizes; and its notes on migrations."""

from __future__ import annotations

import math
import random

import numpy as np
import pytest
from log_worlds import DictStorage, World
from measured_epochs import Measured

from binshift.control import statistics
from binshift.control.models import moment
from binshift.engine.timings import EpochTimings
from binshift.model import Epoch


def epochs(*totals: float, rows: int = 10) -> list[Measured]:
    """Consecutive epochs of these durations."""
    ends = np.cumsum(totals) + 1_000
    return [
        Measured(Epoch(at), committed_at=float(end), seconds={"total": total}, rows_in=rows)
        for at, (end, total) in enumerate(zip(ends, totals, strict=True))
    ]


def test_percentiles_are_of_records() -> None:
    """Epochs are weighted by their records: a slow one without records has no effect, a large slow one does."""
    calm = epochs(*[0.2] * 99)
    slow = Measured(Epoch(99), committed_at=calm[-1].committed_at + 5, seconds={"total": 5.0}, rows_in=0)
    seen = statistics.latency([*calm, slow])
    assert seen is not None
    assert (seen.epochs, seen.max_seconds) == (99, 0.4)
    assert 0.2 <= seen.p50_seconds <= seen.p95_seconds <= seen.p99_seconds <= 0.4
    seen = statistics.latency([*calm, Measured(Epoch(99), slow.committed_at, seconds={"total": 5.0}, rows_in=1000)])
    assert seen is not None
    assert seen.p95_seconds >= 5.0


def test_percentiles_weigh_records_and_not_aggregated_rows() -> None:
    """A backlog that the JVM reduces to a few rows is weighted by its records."""
    calm = epochs(*[0.2] * 99)
    backlog = Measured(Epoch(99), calm[-1].committed_at + 5, seconds={"total": 5.0}, rows_in=10, behind=100_000)
    seen = statistics.latency([*calm, backlog])
    assert seen is not None
    assert seen.p50_seconds >= 5.0
    rate = statistics.rates([*calm, backlog], now=backlog.committed_at)
    assert rate is not None
    assert rate.source_rows_per_second > 50 * rate.input_rows_per_second


def test_the_rate_of_a_bin_is_in_what_bins_count() -> None:
    """Rows, where the JVM aggregates before the exchange, and not the records behind them."""
    ten = [
        EpochTimings(Epoch(at), 1_000.5 + at / 2, 1, {"total": 0.5}, 40, 0, 0, records_in=1_000, weighed_in=40)
        for at in range(10)
    ]
    seen = statistics.rates(ten, now=1_005.0)
    assert seen is not None
    assert (seen.source_rows_per_second, seen.weighed_rows_per_second) == pytest.approx((2_000.0, 80.0))
    found = statistics.rates_by_bin(np.array([3.0, 1.0]), seen)
    assert found is not None
    assert found.tolist() == pytest.approx([60.0, 20.0])


def test_latency_is_of_the_epochs_between_two_times() -> None:
    """Only epochs committed in the given time count; without any, or without records, latency is unknown."""
    three = epochs(1.0, 2.0, 4.0)
    seen = statistics.latency(three, since=1_002.0, until=1_003.0)
    assert seen is not None
    assert (seen.epochs, seen.max_seconds) == (1, 3.0)
    assert statistics.latency(three, since=2_000.0) is None
    assert statistics.latency(epochs(1.0, rows=0)) is None
    assert statistics.latency([]) is None


def test_rates_count_idle_time() -> None:
    """A stream that was idle for a minute has a rate of 0; a new one is measured from its start."""
    ten = epochs(*[0.5] * 10)
    seen = statistics.rates(ten, now=1_005.0)
    assert seen is not None
    assert (seen.window_seconds, seen.epochs_per_second, seen.input_rows_per_second) == pytest.approx((5.0, 2.0, 20.0))
    idle = statistics.rates(ten, now=1_100.0)
    assert idle is not None
    assert (idle.window_seconds, idle.input_rows_per_second) == (60.0, 0.0)
    assert statistics.rates([], now=0.0) is None


def test_sizes_agree_with_the_snapshots() -> None:
    """A bin has the size of its newest snapshot; the size of a bin without a snapshot is unknown."""
    for seed in range(5):
        world = World(DictStorage(), random.Random(seed))
        for _ in range(30):
            world.epoch()
            world.snapshot()
        index = world.index
        sizes = statistics.sizes(index)
        known = ~np.isnan(sizes.rows)
        covered = [
            {b for s in index.snapshots[operator] for b in s.bins.array.tolist()} for operator in index.operators
        ]
        assert set(np.flatnonzero(known).tolist()) == set.intersection(*covered)
        assert (sizes.rows[known] >= 0).all()
        assert math.isclose(
            sum(statistics.by_worker(index, sizes.bytes).values()), float(sizes.bytes[known].sum()), abs_tol=1e-6
        )
        assert sum(statistics.bin_counts(index).values()) == index.bins


def test_sizes_of_whole_snapshots_add_up() -> None:
    """If a worker's newest snapshot has all its bins, its keys are the rows of that snapshot, or unknown if it was deleted."""
    world = World(DictStorage(), random.Random(1), workers=1, operators=("count",))
    for _ in range(60):
        world.epoch()
        world.snapshot(1.0)
    newest = world.index.snapshots["count"][-1]
    rows = 0 if newest.file is None else newest.file.rows
    assert len(newest.bins) == world.bins
    assert statistics.by_worker(world.index, statistics.sizes(world.index).rows) == {0: pytest.approx(rows)}
    assert rows > 0


def test_the_age_of_snapshots_counts_bins_that_never_had_one() -> None:
    """The age grows with each epoch without snapshots, and falls once every bin has one."""
    world = World(DictStorage(), random.Random(1), workers=1, operators=("count",))
    assert statistics.snapshot_age_epochs(world.index) is None
    for _ in range(40):
        world.epoch()
    assert statistics.snapshot_age_epochs(world.index) == world.index.last - world.index.base >= 39
    for _ in range(3):
        world.epoch()
        world.snapshot(1.0)
    age = statistics.snapshot_age_epochs(world.index)
    assert age is not None
    assert age <= 3


def test_the_watermark_and_its_lag() -> None:
    """The lag is from the watermark to the epoch's own time, not to the clock; before the first event it is unknown."""
    world = World(DictStorage(), random.Random(1))
    assert statistics.watermark(world.index) is None
    world.epoch()
    assert statistics.watermark(world.index) is None
    world.epoch()
    world.epoch()
    assert statistics.watermark(world.index) == pytest.approx((1.8, 0.2))


def test_event_times_of_no_calendar_are_not_known() -> None:
    """Event times are users' data: one far outside any calendar is null, not an error."""
    assert moment(-1e18) is None
    assert moment(float("nan")) is None
    assert moment(-1.0) is not None
