"""The cost of epochs and the bound that follows from it, in a closed loop with epochs of known cost."""

from __future__ import annotations

import itertools
import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from binshift.epoch_costs import FIRST_ROWS, GROWTH_MAX, EpochCost, EpochCosts, EpochLoad, bound_rows, shares
from binshift.model import Epoch


class Stream:
    """Epochs of a known cost, each with as many rows as the bound allows and the backlog has.

    Attributes:
        cost: the true one.
        max_seconds: of an epoch.
        workers: that share the rows.
    """

    def __init__(self, cost: EpochCost, max_seconds: float, workers: int = 2, noise: float = 0.0) -> None:
        self.cost, self.max_seconds, self.workers = cost, max_seconds, workers
        self.costs = EpochCosts()
        self._random, self._noise = random.Random(3), noise
        self._epochs = 0

    def epoch(self, rows: float = math.inf, *, disturbed: bool = False, slower: float = 1.0) -> EpochLoad:
        """The next one, of at most so many rows."""
        bound = bound_rows(self.costs, self.max_seconds, self.workers)
        taken = int(min(rows, bound))
        usual = self.cost.fixed + self.cost.per_row * taken / self.workers
        seconds = usual * slower * (1 + self._noise * self._random.random())
        load = EpochLoad(Epoch(self._epochs), 0.0, seconds, (taken,), self.workers, disturbed, bound=bound)
        self._epochs += 1
        self.costs.add(load)
        return load


@pytest.mark.parametrize("per_row", [1e-7, 1e-5, 1e-3], ids=["fast", "usual", "slow"])
@pytest.mark.parametrize("workers", [1, 8])
def test_a_backlog_has_epochs_of_the_given_length(per_row: float, workers: int) -> None:
    """From whatever the first bound is, epochs become nearly as long as allowed, and none is longer once the cost is known."""
    stream = Stream(EpochCost(0.1, per_row), 2.0, workers, noise=0.1)
    epochs = [stream.epoch() for _ in range(40)]
    assert all(each.seconds <= 2.2 for each in epochs[6:])
    assert all(each.seconds >= 1.5 for each in epochs[20:])


def test_a_burst_after_a_calm_time_is_taken_in_short_epochs() -> None:
    """Small epochs show mostly the fixed part: the bound grows step by step, and no epoch is too long."""
    stream = Stream(EpochCost(0.1, 1e-5), 2.0)
    for _ in range(200):
        stream.epoch(500)
    burst = [stream.epoch() for _ in range(12)]
    assert all(each.seconds <= 2.2 for each in burst)
    assert burst[-1].seconds >= 1.5
    assert all(b.total <= GROWTH_MAX * a.total * 1.01 for a, b in itertools.pairwise(burst))


def test_epochs_whose_fixed_part_is_too_long_are_half_useful() -> None:
    """A bound that cannot be kept does not shrink epochs to nothing."""
    stream = Stream(EpochCost(3.0, 1e-5), 2.0)
    epochs = [stream.epoch() for _ in range(60)]
    assert epochs[-1].seconds == pytest.approx(6.0, rel=0.1)


def test_more_workers_have_larger_epochs_at_once() -> None:
    """What was learnt on two workers holds for four."""
    stream = Stream(EpochCost(0.1, 1e-5), 2.0, 2)
    before = [stream.epoch() for _ in range(30)][-1]
    stream.workers = 4
    after = stream.epoch()
    assert after.total == pytest.approx(2 * before.total, rel=0.05)
    assert after.seconds <= 2.2


def test_disturbed_and_slow_epochs_count_for_little() -> None:
    """Migrations, second runs and one slow epoch leave the bound as it is."""
    stream = Stream(EpochCost(0.1, 1e-5), 2.0)
    for _ in range(30):
        stream.epoch()
    bound = bound_rows(stream.costs, 2.0, 2)
    for _ in range(20):
        stream.epoch(disturbed=True, slower=5.0)
    assert bound_rows(stream.costs, 2.0, 2) == bound
    stream.epoch(slower=5.0)
    assert bound_rows(stream.costs, 2.0, 2) == pytest.approx(bound, rel=0.25)


def test_a_cost_that_grows_is_followed() -> None:
    """Rows become three times as dear: a few epochs are too long, then no more."""
    stream = Stream(EpochCost(0.1, 1e-5), 2.0)
    for _ in range(100):
        stream.epoch()
    stream.cost = EpochCost(0.1, 3e-5)
    later = [stream.epoch() for _ in range(40)]
    assert later[0].seconds > 4
    assert all(each.seconds <= 2.3 for each in later[12:])


def test_nothing_known_gives_the_first_bound() -> None:
    """It is in proportion to the workers."""
    assert bound_rows(EpochCosts(), 2.0, 3) == 3 * FIRST_ROWS


@given(
    st.lists(st.tuples(st.integers(0, 10**7), st.floats(0.001, 100.0)), max_size=60),
    st.floats(0.05, 100.0),
    st.integers(1, 100),
)
def test_whatever_was_measured_some_rows_are_taken(
    epochs: list[tuple[int, float]], max_seconds: float, workers: int
) -> None:
    """No measurements stop a stream, and none allow an epoch far beyond the known ones."""
    costs = EpochCosts()
    for number, (rows, seconds) in enumerate(epochs):
        costs.add(EpochLoad(Epoch(number), 0.0, seconds, (rows,), 1))
    bound = bound_rows(costs, max_seconds, workers)
    assert 1 <= bound <= max(GROWTH_MAX * costs.largest, FIRST_ROWS) * workers + 1
    cost = costs.cost
    assert cost is None or (cost.fixed >= -1e-9 and cost.per_row >= 0)


@given(st.integers(1, 10**9), st.lists(st.integers(0, 10**6), min_size=1, max_size=5), st.data())
def test_sources_share_a_bound(rows: int, came: list[int], data: st.DataObject) -> None:
    """Every source that can be bounded gets something, the others nothing, and together they get all rows."""
    bounded = data.draw(st.sets(st.integers(0, len(came) - 1), min_size=1))
    parts = shares(rows, came, bounded)
    assert {each for each, part in enumerate(parts) if part} == bounded
    assert sum(parts) <= rows + len(came)
