"""The meter of a query's input, with reports as `SourceLimits` makes them from Spark's."""

from __future__ import annotations

import pytest

from binshift.engine.timings import EpochTimings
from binshift.epoch_costs import FIRST_ROWS
from binshift.model import Epoch
from binshift.spark.jobs.input_meter import CHANGE_MIN, PERIOD_SECONDS, InputMeter


class Limits:
    """The JVM's side: reports to hand out, and the limits that were set."""

    def __init__(self, can_be_bounded: str = "10") -> None:
        self.can_be_bounded = can_be_bounded
        self.reports: list[str] = []
        self.limits: dict[int, int] = {}
        self.released = 0
        self.calls = 0

    def report(self, batch: int) -> str:
        self.calls += 1
        reports, self.reports = self.reports, []
        return "\n".join([self.can_be_bounded, *reports])

    def limit(self, source: int, rows: int) -> None:
        self.limits[source] = rows

    def release(self) -> None:
        self.limits = {}
        self.released += 1

    def close(self) -> None:
        raise ConnectionError("Spark has ended")


def timings(epoch: int, *, moving: bool = False, runs: int = 1) -> EpochTimings:
    """An epoch that ended a second after the one before."""
    seconds = {"plan": 0.01, "record": 0.02, "task_commit": 0.03, "total": 0.5}
    return EpochTimings(Epoch(epoch), 1000.0 + epoch, runs, seconds, 0, 0, 0, moving=moving)


def reported(epoch: int, rows: int, milliseconds: int = 500, behind: int = -1) -> str:
    """A line as the JVM writes it, with a second source that has nothing."""
    return f"{epoch}\t2026-11-26T10:00:{epoch:02}.000Z\t{milliseconds}\t{rows} {behind}\t0 -1"


def fed(limits: Limits, meter: InputMeter, epochs: int, rows: int = 1000) -> None:
    """So many epochs, each reported while the next one runs."""
    for epoch in range(epochs):
        meter.epoch(timings(epoch))
        limits.reports.append(reported(epoch, rows))


def test_a_bound_follows_the_measured_cost() -> None:
    """A few rows at first; then what the cost allows, for the sources that can be bounded."""
    limits = Limits()
    meter = InputMeter(limits, 1.0)
    meter.epoch(timings(0))
    assert (limits.limits, meter.bound) == ({0: FIRST_ROWS}, FIRST_ROWS)
    limits.reports.append(reported(0, FIRST_ROWS))
    for epoch in range(1, 12):
        meter.epoch(timings(epoch))
        limits.reports.append(reported(epoch, FIRST_ROWS))
    assert meter.bounded == {0}
    assert meter.bound == limits.limits[0] == pytest.approx((0.9 - 0.06) / (0.5 - 0.06) * FIRST_ROWS, rel=CHANGE_MIN)


def test_without_a_bound_it_only_measures() -> None:
    """No limit is set, and the load is known."""
    limits = Limits()
    meter = InputMeter(limits, None)
    fed(limits, meter, 20)
    assert (limits.limits, meter.bound) == ({}, None)
    load = meter.load(1020.0)
    assert (load.measured, load.epoch_seconds, load.bound) == (16, 0.5, None)
    assert load.cost is not None


def test_a_bound_can_change_while_the_query_runs() -> None:
    """The next epoch has the new one, from the cost that was measured all along; without one, the program's own limits are back."""
    limits = Limits()
    meter = InputMeter(limits, None)
    fed(limits, meter, 10)
    assert meter.requested is None
    meter.request(1.0)
    meter.epoch(timings(10))
    first = meter.bound
    assert first == limits.limits[0] == pytest.approx((0.9 - 0.06) / (0.5 - 0.06) * 1000, rel=CHANGE_MIN)
    meter.request(2.0)
    meter.epoch(timings(11))
    assert meter.bound == limits.limits[0] == pytest.approx((1.8 - 0.06) / (0.5 - 0.06) * 1000, rel=CHANGE_MIN)
    meter.request(None)
    meter.epoch(timings(12))
    meter.epoch(timings(13))
    assert meter.bound is meter.requested is None
    assert (limits.limits, limits.released) == ({}, 1)


def test_a_bound_is_released_before_the_first_epoch() -> None:
    """The first batch was bounded in the JVM already."""
    limits = Limits()
    meter = InputMeter(limits, 1.0, requested=1.0)
    meter.request(None)
    meter.epoch(timings(0))
    assert (meter.bound, limits.released) == (None, 1)


def test_the_program_knows_better() -> None:
    """A query whose program has chosen a bound keeps it; what was requested is known nevertheless."""
    limits = Limits()
    meter = InputMeter(limits, 1.0, fixed=True)
    meter.request(5.0)
    assert (meter.max_epoch, meter.requested) == (1.0, 5.0)


def test_an_epoch_has_what_the_engine_knows_of_it() -> None:
    """Moves, second runs, what no source knows, and the time that rows have no part in."""
    limits = Limits()
    meter = InputMeter(limits, None)
    for epoch, (moving, runs) in enumerate([(True, 1), (False, 2), (False, 1)]):
        meter.epoch(timings(epoch, moving=moving, runs=runs))
        limits.reports.append(reported(epoch, 5, behind=7 if epoch == 2 else -1))
    meter.epoch(timings(3))
    assert [each.disturbed for each in meter.loads] == [True, True, False]
    assert [each.behind for each in meter.loads] == [None, None, 7]
    assert meter.loads[0].overhead == pytest.approx(0.06)


def test_fast_epochs_are_read_together() -> None:
    """A call of the JVM costs part of a millisecond: there are at most five a second."""
    limits = Limits()
    meter = InputMeter(limits, None)
    for number in range(100):
        each = timings(number)
        meter.epoch(EpochTimings(each.epoch, 1000.0 + number * 0.01, 1, each.seconds, 0, 0, 0))
    assert limits.calls <= 1 + 1.0 / PERIOD_SECONDS


def test_reports_of_other_epochs_are_left_out() -> None:
    """Those of an epoch that another driver ran, or that was read already."""
    limits = Limits()
    meter = InputMeter(limits, None)
    limits.reports.append(reported(41, 1000))
    meter.epoch(timings(42))
    assert list(meter.loads) == []


def test_a_session_that_has_ended_is_no_trouble() -> None:
    """The query ends with Spark's."""
    InputMeter(Limits(), None).close()
