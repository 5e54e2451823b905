"""Latency is measured per row, from its due time to the commit of its epoch."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from binshift.model import Epoch
from flights_demo.latency_log import LatencyLog, bins_moved
from flights_demo.replay import Schedule
from openloop import Latency

SCHEDULE = Schedule(rows=100, seconds=0.8, tick_seconds=0.1, primers=2)
"""Files of ten rows, a row every 10 ms; rows 20 to 99 are due at 0.00 to 0.79."""


def _ledger(*commits: tuple[float, list[int]]) -> LatencyLog:
    log = LatencyLog(SCHEDULE)
    for number, (at, files) in enumerate(commits):
        log.commit(Epoch(number), at, files, (8, 8))
    return log


def test_latency_is_from_due_to_commit() -> None:
    """Each row's latency is the commit of its epoch minus its due time; other rows have none yet."""
    found = _ledger((0.0, [0, 1]), (0.3, [2, 3])).latencies()
    assert np.isnan(found[:20]).all()
    assert found[20:40] == pytest.approx(0.3 - np.arange(20) / 100)
    assert np.isnan(found[40:]).all()


def test_primers_count_as_rows_and_not_as_latency() -> None:
    """Rows of primers are part of the input, but have no latency."""
    log = _ledger((0.0, [0, 1]))
    assert log.rows == 20
    assert log.outside([]).rows == 0


def test_complete_when_every_row_is_committed() -> None:
    """The replay is complete with the last file, not before; an epoch without files changes nothing."""
    log = _ledger((0.0, [0, 1]), (0.5, [2, 3, 4, 5, 6, 7, 8]), (0.6, []))
    assert not log.complete
    log.commit(Epoch(3), 1.0, [9], (8, 8))
    assert log.complete
    assert [entry.rows for entry in log.entries] == [20, 70, 0, 10]


def test_spans_divide_the_rows() -> None:
    """Rows due within a span and rows due outside of all are together all rows that were due."""
    log = _ledger((0.0, [0, 1]), (0.4, [2, 3, 4, 5]), (1.8, [6, 7, 8, 9]))
    spans = [(0.095, 0.195), (0.595, 0.695)]
    inside, outside = log.between(spans), log.outside(spans)
    assert (inside.rows, outside.rows) == (20, 60)
    assert inside.max == pytest.approx(1.8 - 0.6)
    assert outside.max == pytest.approx(1.8 - 0.4)


def test_standing_still_shows_in_the_buckets() -> None:
    """All rows that waited for a late epoch show it, the first one most: the load is open loop."""
    buckets = _ledger((0.0, [0, 1]), (0.3, [2, 3, 4]), (5.0, [5, 6, 7, 8, 9])).buckets()
    assert buckets.starts.tolist() == [0.0, 0.25, 0.5, 0.75]
    assert buckets.max[0] == pytest.approx(0.3)
    assert buckets.max[1] == pytest.approx(5.0 - 0.3)
    assert buckets.p50[3] == pytest.approx(5.0 - 0.77, abs=0.01)


def test_recent_figures_are_by_commit_time() -> None:
    """The live figures are of recently committed rows, whenever they were due."""
    log = _ledger((0.0, [0, 1]), (0.5, [2, 3]), (2.0, [4, 5, 6, 7]))
    latency, rate = log.recent(now=2.1, seconds=1.0)
    assert (latency.rows, rate) == (40, 40.0)
    assert log.recent(now=9.0, seconds=1.0)[0].rows == 0


def test_nothing_known_is_no_number() -> None:
    """Without rows, latencies are NaN and there are no buckets."""
    assert math.isnan(Latency.of(np.array([np.nan])).p99)
    assert LatencyLog(SCHEDULE).buckets().starts.size == 0


@given(st.lists(st.integers(0, 5), min_size=1, max_size=30))
def test_moved_bins_are_noticed(owners: list[int]) -> None:
    """Equal counts mean that no bin moved; all bins of a worker are noticed if they are elsewhere afterwards."""
    counts = tuple(np.bincount(owners, minlength=6).tolist())
    assert bins_moved(counts, counts) == 0
    assert bins_moved(counts, (0, 0, 0, 0, 0, 0, len(owners))) == len(owners)
