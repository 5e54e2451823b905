"""Targets are balanced within the stated bound and move no more than the stated bound, for any route and weights."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from binshift.errors import MigrationRefused
from binshift.invariants import InvariantViolated
from binshift.model import Worker
from binshift.planner import bin_weights, counted_weights, target_route
from binshift.routing import Route

Floats = npt.NDArray[np.float64]
EPSILON = 1e-6

worker_sets = st.sets(st.integers(0, 9), min_size=1).map(lambda found: [Worker(w) for w in sorted(found)])
weight_lists = st.one_of(
    st.lists(st.integers(0, 1000), min_size=64, max_size=64),
    st.lists(st.sampled_from([0, 1, 1, 1, 2, 500]), min_size=64, max_size=64),
    st.lists(st.floats(0, 1e9), min_size=64, max_size=64),
)


@st.composite
def routes(draw: st.DrawFn) -> Route:
    """Routes of 1 to 64 bins over at most eight workers: random, or made by the planner."""
    bins = 1 << draw(st.integers(0, 6))
    if draw(st.booleans()):
        return Route.initial(bins, [Worker(w) for w in range(draw(st.integers(1, 8)))])
    return Route(np.array(draw(st.lists(st.integers(0, 7), min_size=bins, max_size=bins))))


def loads_of(route: Route, workers: Sequence[Worker], weights: Floats) -> Floats:
    """The load of each of ``workers``."""
    return np.array([weights[route.bins_of(w).array].sum() for w in workers])


def least_moves(route: Route, workers: Sequence[Worker]) -> int:
    """The number of bins that any route must move that gives each worker floor or ceil of its share, counted simply.

    The ceilings go to the workers with most bins; a worker with more than its share gives the rest away.
    """
    floor, ceilings = divmod(route.bins, len(workers))
    counts = sorted((len(route.bins_of(w)) for w in workers), reverse=True)
    kept = sum(min(count, floor + (i < ceilings)) for i, count in enumerate(counts))
    return route.bins - kept


@given(routes(), worker_sets)
def test_equal_bins_are_spread_evenly_with_the_fewest_moves(route: Route, workers: list[Worker]) -> None:
    """With equal weights every worker gets floor or ceil of the average, with the least number of moves."""
    target = target_route(route, workers)
    counts = [len(target.bins_of(w)) for w in workers]
    assert sum(counts) == route.bins
    assert max(counts) - min(counts) <= 1
    assert len(route.moves_to(target.owners)) == least_moves(route, workers)


@given(routes(), worker_sets, weight_lists, st.sampled_from([0.0, 0.1, 0.5]))
def test_weighted_bins_are_balanced_within_the_bound(
    route: Route, workers: list[Worker], weights: list[float], slack: float
) -> None:
    """Every worker is within the slack and one heaviest bin of the average; movement is within its bound as well."""
    given_weights = np.array(weights[: route.bins], dtype=np.float64)
    target = target_route(route, workers, given_weights, slack=slack)
    weight = counted_weights(given_weights, route.bins)
    average, heaviest = weight.sum() / len(workers), weight.max()
    loads = loads_of(target, workers, weight)
    assert set(target.workers) <= set(workers)
    assert loads.max() <= average * (1 + slack) + heaviest + EPSILON
    assert loads.min() >= average * (1 - slack) - heaviest - EPSILON

    before = loads_of(route, workers, weight)
    needed = weight.sum() - before.sum() + np.maximum(before - average * (1 + slack), 0).sum()
    moved = weight[route.moves_to(target.owners).bins].sum()
    assert moved <= needed + (len(workers) - 1) * (slack * average + heaviest) + EPSILON


@given(routes(), worker_sets, weight_lists)
def test_planning_is_at_rest_once_done(route: Route, workers: list[Worker], weights: list[float]) -> None:
    """With equal weights, planning a target again changes nothing; equal inputs give equal results."""
    target = target_route(route, workers)
    assert target_route(target, workers) is target
    weighed = np.array(weights[: route.bins])
    assert target_route(route, workers, weighed) == target_route(route, reversed_list(workers), weighed)


def reversed_list(workers: list[Worker]) -> list[Worker]:
    """The same workers in another order, one of them twice."""
    return [*reversed(workers), workers[0]]


@given(routes(), worker_sets, weight_lists)
def test_infinite_slack_moves_only_what_lost_its_worker(
    route: Route, workers: list[Worker], weights: list[float]
) -> None:
    """When a worker is lost, only its bins get a new owner."""
    target = target_route(route, workers, np.array(weights[: route.bins]), slack=math.inf)
    homeless = ~np.isin(route.owners, workers)
    assert np.array_equal(target.owners[~homeless], route.owners[~homeless])
    assert np.isin(target.owners, workers).all()


def test_growing_takes_the_same_from_everyone() -> None:
    """Two workers give half of their bins to two new ones, and nothing moves between the old ones."""
    route = Route.initial(4096, [Worker(0), Worker(1)])
    moves = route.moves_to(target_route(route, [Worker(w) for w in range(4)]).owners)
    assert {(int(s), int(d)) for s, d in zip(moves.sources, moves.destinations, strict=True)} == {(0, 2), (1, 3)}
    assert len(moves) == 2048
    assert len(moves.bin_set().ranges()) == 2, "moved bins should stay contiguous, for short records"


def test_shrinking_and_replacing_move_only_the_leavers_bins() -> None:
    """Bins of remaining workers do not move when others leave, or are replaced one for one."""
    route = Route.initial(64, [Worker(w) for w in range(4)])
    shrunk = route.moves_to(target_route(route, [Worker(0), Worker(1)]).owners)
    assert shrunk.bin_set() == route.bins_of(Worker(2)) | route.bins_of(Worker(3))
    replaced = target_route(route, [Worker(0), Worker(1), Worker(2), Worker(7)])
    assert replaced.bins_of(Worker(7)) == route.bins_of(Worker(3))


def test_a_hot_bin_is_left_alone_and_its_company_moves() -> None:
    """Re-weighing moves the light bins away from a heavy one instead of the heavy one."""
    route = Route.initial(8, [Worker(0), Worker(1)])
    target = target_route(route, [Worker(0), Worker(1)], np.array([100, 1, 1, 1, 1, 1, 1, 1]))
    assert target.owner(next(iter(target.bins_of(Worker(0))))) == 0
    assert len(target.bins_of(Worker(0))) == 1


def test_slack_tolerates_a_small_imbalance() -> None:
    """An imbalance within the slack moves nothing, and the same route object is returned."""
    route = Route.initial(8, [Worker(0), Worker(1)])
    weights = np.array([11, 10, 10, 10, 10, 10, 10, 10])
    assert target_route(route, route.workers, weights, slack=0.1) is route


def test_a_new_worker_is_filled_with_few_bins() -> None:
    """A worker too far below its share, while none is above the slack, gets a few large bins instead of many small ones."""
    route = Route(np.repeat(np.arange(32), 32))
    weights = np.tile(np.repeat([1.0, 0.1], [16, 16]), 32)
    target = target_route(route, [Worker(w) for w in range(33)], weights, slack=0.5)
    assert len(route.moves_to(target.owners)) == len(target.bins_of(Worker(32))) == 8


def test_empty_bins_spread_like_others() -> None:
    """Bins without weight are distributed evenly, and weights that are all zero count as equal."""
    route = Route.initial(64, [Worker(0)])
    for weights in (np.zeros(64), np.array([1.0] * 32 + [0.0] * 32)):
        target = target_route(route, [Worker(0), Worker(1)], weights)
        assert len(target.bins_of(Worker(1))) in range(31, 34)


def test_bin_weights_balance_bytes_and_rows() -> None:
    """A bin's weight is half its share of the bytes and half its share of the rows; unknown values do not count."""
    assert bin_weights([1, 3], [9, 1]).tolist() == [0.125 + 0.45, 0.375 + 0.05]
    assert bin_weights([0, 0], [0, 0]).tolist() == [0, 0]


def test_no_workers_is_refused() -> None:
    """A target without workers is rejected."""
    with pytest.raises(MigrationRefused, match="at least one worker"):
        target_route(Route.initial(4, [Worker(0)]), [])


@pytest.mark.parametrize("weights", [[1.0, -1.0], [1.0, math.nan], [1.0, math.inf], [1.0]])
def test_impossible_weights_are_a_bug(weights: list[float]) -> None:
    """Weights come from binshift's own measurements, so an impossible one is a bug."""
    with pytest.raises(InvariantViolated, match="weight"):
        target_route(Route.initial(2, [Worker(0)]), [Worker(0)], np.array(weights))


@pytest.mark.parametrize("skew", [0.0, 1.2], ids=["equal", "skewed"])
def test_largest_dataflow_keeps_the_bounds(skew: float) -> None:
    """A thousand workers and 2^20 bins are planned within the same bounds (for speed see benchmarks/bench_planner.py)."""
    route = Route.initial(1 << 20, [Worker(w) for w in range(500)])
    workers = [Worker(w) for w in range(1000)]
    weights = np.arange(1, route.bins + 1, dtype=np.float64) ** -skew
    target = target_route(route, workers, weights)
    weight = counted_weights(weights, route.bins)
    loads = np.bincount(target.owners, weight, minlength=1000)
    average = weight.sum() / 1000
    assert max(loads.max() - average, average - loads.min()) <= 1 + EPSILON
    if not skew:
        assert len(route.moves_to(target.owners)) == least_moves(route, workers)
