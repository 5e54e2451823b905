"""The pace stays in its range, slows down when epochs are slow, recovers when they are fast, and does not oscillate."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from binshift.invariants import InvariantViolated
from binshift.migration import Limits
from binshift.pacing import Latency, Pace, PacingLimits, aim_seconds, next_pace

AIM = 1.0
CALM = 0.4
seconds = st.none() | st.floats(0, 100)
paces = st.builds(Pace, st.floats(0, 2), st.integers(0, 5000), st.integers(0, 20))
pacing_limits = st.builds(
    PacingLimits,
    duty_min=st.floats(0.01, 0.3),
    duty_max=st.floats(0.3, 1.0),
    duty_increment=st.floats(0.01, 0.2),
    bins_min=st.integers(1, 10),
    bins_max=st.integers(10, 512),
    bins_increment=st.integers(4, 100),
    gap_epochs_max=st.integers(0, 10),
    cut=st.floats(0.1, 0.9),
    comfort=st.floats(0.5, 0.95),
)


@given(paces, st.builds(Latency, st.floats(0, 10), seconds, seconds), seconds, pacing_limits)
def test_every_pace_is_within_its_limits(
    pace: Pace, latency: Latency, objective: float | None, limits: PacingLimits
) -> None:
    """For any measurement and any start, the next pace is in range, and never a standstill."""
    new = next_pace(pace, latency, objective, limits)
    assert 0 < limits.duty_min <= new.duty <= limits.duty_max <= 1
    assert 1 <= limits.bins_min <= new.bins_per_flip <= limits.bins_max
    assert 0 <= new.gap_epochs <= limits.gap_epochs_max


@given(pacing_limits, st.floats(1.001, 50))
def test_a_missed_aim_slows_down_until_the_least(limits: PacingLimits, slow: float) -> None:
    """If everything is too slow, first the duty is cut, at its minimum the bins, and at theirs the gap grows."""
    pace = Pace(limits.duty_max, limits.bins_max, 0)
    order = []
    for _ in range(80):
        new = next_pace(pace, Latency(CALM, AIM * slow, AIM * slow), AIM, limits)
        assert new.duty <= pace.duty
        assert new.bins_per_flip <= pace.bins_per_flip
        assert new.gap_epochs >= pace.gap_epochs
        order.append([new.duty < pace.duty, new.bins_per_flip < pace.bins_per_flip, new.gap_epochs > pace.gap_epochs])
        pace = new
    assert pace == Pace(limits.duty_min, limits.bins_min, limits.gap_epochs_max)
    assert all(sum(turned) <= 1 for turned in order), "one knob at a time"
    assert order == sorted(order, reverse=True), "duty, then bins, then gap"


@given(pacing_limits, st.floats(0, 0.99))
def test_a_comfortable_world_recovers_fully(limits: PacingLimits, share: float) -> None:
    """If everything is fast enough, every knob grows back to its best value, the gap before the bins."""
    pace = Pace(limits.duty_min, limits.bins_min, limits.gap_epochs_max)
    fast = AIM * limits.comfort * share
    for _ in range(400):
        new = next_pace(pace, Latency(CALM * share, fast, fast), AIM, limits)
        assert new.bins_per_flip == pace.bins_per_flip or not pace.gap_epochs
        pace = new
        if pace == Pace(limits.duty_max, limits.bins_max, 0):
            break
    assert pace == Pace(limits.duty_max, limits.bins_max, 0)


@given(pacing_limits, st.floats(0.05, 50), st.floats(0, 1))
@example(PacingLimits(duty_min=0.25, duty_increment=0.125, cut=0.75, comfort=0.5), 1.0, 0.0)
def test_duty_swings_no_further_than_stated(limits: PacingLimits, slope: float, start: float) -> None:
    """If latency grows with the duty, it settles between `cut` times the best value and one increment above it.

    Or it stays at its start, if it is neither too slow there nor clearly fast enough.
    """
    restful = (AIM * limits.comfort - CALM) / slope
    best = min(max((AIM - CALM) / slope, limits.duty_min), limits.duty_max)
    pace = Pace(limits.duty_min + start * (limits.duty_max - limits.duty_min))
    for step in range(400):
        pace = next_pace(pace, Latency(CALM, CALM + slope * pace.duty), AIM, limits)
        if step > 300:
            assert pace.duty <= best + limits.duty_increment + 1e-9
            least = max(min(best * limits.cut, restful), limits.duty_min)
            assert pace.duty >= min(best, least) - limits.duty_increment - 1e-9


def settles(knob: Callable[[Pace], float], measure: Callable[[Pace], Latency]) -> float:
    """The value at which a knob settles."""
    pace = Pace()
    for _ in range(200):
        pace = next_pace(pace, measure(pace), AIM)
    for _ in range(50):
        again = next_pace(pace, measure(pace), AIM)
        assert again == pace, "the pace should not change"
    return knob(pace)


@pytest.mark.parametrize("slope", [0.7, 1.0, 1.5])
def test_duty_comes_to_rest_between_comfort_and_aim(slope: float) -> None:
    """If an increment changes latency by less than the band under the aim, copying settles there."""
    duty = settles(lambda pace: pace.duty, lambda pace: Latency(CALM, CALM + slope * pace.duty))
    assert 0.9 * AIM <= CALM + slope * duty <= AIM


@pytest.mark.parametrize("slope", [0.001, 0.002, 0.005])
def test_bins_come_to_rest_between_comfort_and_aim(slope: float) -> None:
    """The same holds for the bins that flip together."""
    bins = settles(lambda pace: pace.bins_per_flip, lambda pace: Latency(CALM, None, CALM + slope * pace.bins_per_flip))
    assert 0.9 * AIM <= CALM + slope * bins <= AIM


def test_each_knob_follows_the_epochs_that_show_its_cost() -> None:
    """Slow flips do not slow copying; slow copying does not slow flips; a missing measurement changes nothing."""
    pace = Pace(0.5, 64, 0)
    assert next_pace(pace, Latency(CALM, 0.95, 2.0), AIM) == Pace(0.5, 32, 0)
    assert next_pace(pace, Latency(CALM, 2.0, 2.0), AIM) == Pace(0.25, 64, 0)
    assert next_pace(pace, Latency(CALM), AIM) == pace
    assert next_pace(pace, Latency(CALM, 0.95, 0.95), AIM) == pace


@pytest.mark.parametrize("objective", [None, 0.1])
def test_an_aim_that_calm_epochs_miss_is_not_chased(objective: float | None) -> None:
    """Without an objective, or with one below the latency of calm epochs, the aim is slightly above calm, and moves continue."""
    assert aim_seconds(Latency(CALM), objective, PacingLimits()) == CALM * 1.25
    assert next_pace(Pace(duty=0.5), Latency(CALM, copying_seconds=CALM), objective).duty > 0.5


def test_a_slow_flip_counts_for_the_bins_that_flipped() -> None:
    """A flip of 40 bins that misses the aim permits 20 in the next one, however many the pace permitted before."""
    slow = Latency(CALM, None, 2.0, flipped_bins=40)
    assert next_pace(Pace(0.5, 4096, 0), slow, AIM) == Pace(0.5, 20, 0)
    assert next_pace(Pace(0.5, 16, 0), slow, AIM) == Pace(0.5, 8, 0)


def test_a_pace_becomes_the_migrations_limits() -> None:
    """Bins and gap become the migration's limits; its other limits stay as the user set them."""
    limits = Pace(0.5, 32, 2).limits(Limits(steps_inflight_max=7))
    assert limits == Limits(steps_inflight_max=7, flip_bins_per_epoch_max=32, gap_epochs=2)


def test_impossible_ranges_are_refused() -> None:
    """A range without a value, or one that includes a standstill, is a bug."""
    wrong: list[Callable[[], PacingLimits]] = [
        lambda: PacingLimits(duty_min=0.0),
        lambda: PacingLimits(duty_min=0.9, duty_max=0.5),
        lambda: PacingLimits(bins_min=0),
        lambda: PacingLimits(cut=1.0),
        lambda: PacingLimits(calm_ratio=0.9),
    ]
    for limits in wrong:
        with pytest.raises(InvariantViolated):
            limits()
