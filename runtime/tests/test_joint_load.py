"""The load of several queries on the same workers, as that of one."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from binshift.control.load_answers import joint_load, load_shown
from binshift.epoch_costs import EpochCost
from binshift.load import Hottest, Load, together
from binshift.skew import Skew
from binshift.worker_need import Policy, need_of

POLICY = Policy(1, 64)

loads = st.builds(
    Load,
    at=st.floats(1, 2),
    cost=st.builds(EpochCost, st.floats(0, 0.3), st.floats(1e-6, 1e-3), st.booleans()),
    measured=st.integers(50, 99),
    rows_per_second=st.floats(1, 1e5),
    behind=st.integers(0, 10**6),
    bound=st.none() | st.integers(1, 10**5),
    at_bound=st.booleans(),
    epoch_seconds=st.floats(0.05, 1),
    workers=st.integers(1, 8),
    hottest=st.none() | st.builds(Hottest, st.floats(0.01, 1)),
    skew=st.none() | st.builds(Skew, st.floats(1.5, 8), st.floats(1, 1.5)),
)


@given(st.lists(loads, min_size=1, max_size=4))
def test_together_they_need_what_each_needs(parts: list[Load]) -> None:
    """Busy workers and the work that waits are sums over the queries; what is late in one is late in all."""
    joint = together(parts)
    assert joint is not None
    assert joint.cost is not None
    assert joint.behind is not None
    need = need_of(joint, POLICY)
    assert need is not None
    costs = [each.cost for each in parts if each.cost is not None]
    busy = sum(cost.per_row * (each.rows_per_second or 0) for cost, each in zip(costs, parts, strict=True))
    assert math.isclose(need.of_load, busy, rel_tol=1e-6)
    waiting = sum(cost.per_row * (each.behind or 0) for cost, each in zip(costs, parts, strict=True))
    assert math.isclose(joint.behind * joint.cost.per_row, waiting, rel_tol=1e-3, abs_tol=joint.cost.per_row)
    assert joint.at_bound == any(each.at_bound for each in parts)
    assert joint.epoch_seconds == max(each.epoch_seconds or 0 for each in parts)
    shares = [each.hottest.share for each in parts if each.hottest is not None]
    assert (joint.hottest is None) == (not shares)
    skews = [each.skew.now if each.skew else 1.0 for each in parts]
    assert joint.skew is None or min(skews) * (1 - 1e-9) <= joint.skew.now <= max(skews) * (1 + 1e-9)
    assert (joint.skew is None) == all(each.skew is None for each in parts)
    assert joint.hottest is None or joint.hottest.share <= max(shares) * (1 + 1e-9)


@given(loads)
def test_one_query_is_itself(part: Load) -> None:
    """Nothing changes where there is only one."""
    joint = together([part])
    assert joint is not None
    assert joint.cost is not None
    assert part.cost is not None
    assert math.isclose(joint.cost.per_row, part.cost.per_row, rel_tol=1e-9)
    assert (joint.rows_per_second, joint.behind, joint.bound) == (part.rows_per_second, part.behind, part.bound)


@pytest.mark.parametrize("measured", [0, 1])
def test_what_is_not_measured_adds_nothing(measured: int) -> None:
    """A query that has just started, or has no input, does not keep the others from being scaled."""
    known = Load(1.0, EpochCost(0.1, 1e-4), 50, 1000.0, 0, None, at_bound=False, epoch_seconds=0.2, workers=2)
    new = Load(1.0, None, 0, None, None, None, at_bound=False, epoch_seconds=None, workers=2)
    joint = together([known] * measured + [new])
    assert joint == (known if measured else new)


def test_the_answer_of_several_queries() -> None:
    """As the control API gives it; a query that runs nothing has none."""
    known = Load(1.0, EpochCost(0.1, 1e-4), 50, 1000.0, 0, None, at_bound=False, epoch_seconds=0.2, workers=2)
    answer = joint_load([load_shown(known), None, load_shown(known)])
    assert answer is not None
    assert (answer.arriving_rows_per_second, answer.seconds_per_row) == (2000.0, 1e-4)
    assert joint_load([None, None]) is None
    assert together([]) is None
