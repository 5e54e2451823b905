"""One decision of the autoscaler, and what holds for any load."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from binshift.autoscale import Autoscaler, Decision, Reason, recommended_workers
from binshift.epoch_costs import EpochCost
from binshift.errors import InvalidSettings
from binshift.load import Load
from binshift.worker_need import MEASURED_MIN, Policy

POLICY = Policy(1, 16)
COST = EpochCost(0.1, 50e-6)


def load(
    rate: float = 10_000, *, at: float = 1000.0, measured: int = 100, cost: EpochCost = COST, **known: object
) -> Load:
    """A load on two workers that has been measured."""
    values = {"behind": 0, "bound": None, "at_bound": False, "epoch_seconds": 0.15, "workers": 2} | known
    return Load(at, cost, measured, rate, **values)  # type: ignore[arg-type]


def decided(seen: Load, workers: int = 2, policy: Policy = POLICY, *, settled: bool = True) -> Decision:
    """The first decision."""
    return Autoscaler(policy).decide(seen, workers, settled=settled)


def test_nothing_is_decided_before_the_cost_is_known() -> None:
    """Whatever comes in, a few epochs are measured first."""
    for unknown in (
        load(80_000, measured=MEASURED_MIN - 1, at_bound=True),
        Load(0.0, None, 100, 1e6, 10**7, None, at_bound=True, epoch_seconds=9.0, workers=2),
    ):
        found = decided(unknown)
        assert (found.workers, found.reason) == (2, Reason.MEASURING)


def test_the_figures_are_in_the_message() -> None:
    """What arrives, how many workers that keeps busy, and what a backlog adds."""
    found = decided(load(80_100, behind=3_000_000, epoch_seconds=2.0))
    assert (found.workers, found.reason) == (7, Reason.LOAD)
    assert found.message == (
        "2 to 7 workers: 80,100 rows/s keep 4.0 busy, at 70% each; a backlog of 2,679,600 rows needs 1.1"
    )


def test_a_load_that_fits_changes_nothing() -> None:
    """Also where it would need more by the figure, but nothing is late and the cost is a guess."""
    assert decided(load(20_000)).reason is Reason.STEADY
    guess = load(40_000, cost=EpochCost(0.0, 50e-6, certain=False), epoch_seconds=0.2)
    assert decided(guess) == decided(guess).__class__(2, 3, False, Reason.STEADY, decided(guess).message)


def test_the_range_limits() -> None:
    """What is beyond it is shown."""
    found = decided(load(1_000_000, behind=10**6, epoch_seconds=3.0))
    assert (found.workers, found.limited) == (16, True)
    assert decided(load(10), workers=1, policy=Policy(3, 4)).workers == 3


def test_growing_waits_between_two_decisions() -> None:
    """Ten seconds at least."""
    scaler = Autoscaler(POLICY)
    assert scaler.decide(load(40_000, epoch_seconds=1.0), 2, settled=True).workers == 3
    again = load(80_000, at=1009.0, epoch_seconds=2.0)
    assert scaler.decide(again, 3, settled=False).workers == 3
    assert scaler.decide(load(80_000, at=1010.0, epoch_seconds=2.0), 3, settled=False).workers == 6


def test_shrinking_waits_until_fewer_were_enough_for_long() -> None:
    """Five minutes of a small load, a burst in between, and half of the workers at most."""
    scaler, workers, decisions = Autoscaler(POLICY), 8, []
    for second in range(730):
        busy = second == 400
        seen = load(100_000 if busy else 5_000, at=float(second), epoch_seconds=1.0 if busy else 0.15)
        workers = scaler.decide(seen, workers, settled=True).workers
        decisions.append(workers)
    assert decisions[:285] == [8] * 285
    assert decisions[310:400] == [4] * 90
    assert decisions[400:685] == [8] * 285
    assert decisions[-1] < 8


@pytest.mark.parametrize(
    "wrong", [{"least": 0}, {"least": 5, "most": 4}, {"utilization": 0.0}, {"down_share": 2.0}, {"latency_target": 0.0}]
)
def test_wrong_policies_are_rejected(wrong: dict[str, float]) -> None:
    """With the value."""
    with pytest.raises(InvalidSettings):
        Policy(**({"least": 1, "most": 4} | wrong))  # type: ignore[arg-type]


LOADS = st.builds(
    load,
    st.floats(0, 1e7),
    cost=st.builds(EpochCost, st.floats(0, 10), st.floats(0, 1e-2), st.booleans()),
    behind=st.none() | st.integers(0, 10**10),
    at_bound=st.booleans(),
    epoch_seconds=st.floats(0, 1e4),
    workers=st.integers(1, 64),
)


@given(LOADS, st.integers(1, 64), st.integers(1, 20), st.integers(0, 40), st.booleans())
def test_decisions_are_within_the_range(seen: Load, workers: int, least: int, width: int, settled: bool) -> None:
    """Whatever is measured, and also where there are more or fewer workers now."""
    policy = Policy(least, least + width)
    found = decided(seen, workers, policy, settled=settled)
    if workers <= policy.most or found.reason is not Reason.INEFFECTIVE:
        assert policy.least <= found.workers <= policy.most
    assert policy.least <= found.recommended <= policy.most


@given(st.floats(0, 1e6), st.floats(0, 1e6), st.integers(1, 64))
def test_more_rows_never_need_fewer_workers(rate: float, more: float, workers: int) -> None:
    """The recommendation grows with what arrives."""
    policy = Policy(1, 10_000)
    assert decided(load(rate), workers, policy).recommended <= decided(load(rate + more), workers, policy).recommended


@given(st.floats(1_000, 1e6), st.integers(1, 8))
def test_one_decision_is_enough(rate: float, workers: int) -> None:
    """With the number of workers decided, the same load needs no other."""
    policy = Policy(1, 10_000)
    late = load(rate, epoch_seconds=5.0)
    first = decided(late, workers, policy).workers
    assert decided(load(rate, at=2000.0), max(first, workers), policy).workers == max(first, workers)
    assert first >= min(workers, math.ceil(COST.per_row * rate / policy.utilization - 1e-9))


def test_a_recommendation_for_other_autoscalers() -> None:
    """It is what the load needs, and not above the present number while nothing is late."""
    assert recommended_workers(load(measured=1), 1.0) is None
    assert recommended_workers(load(20_000), 1.0) == 2
    assert recommended_workers(load(5_000), 1.0) == 1
    assert recommended_workers(load(80_000, epoch_seconds=2.0), 1.0) == 6
