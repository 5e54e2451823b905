"""Routes are balanced by measured load within the stated bound, with little movement, and then do not change."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_planner import EPSILON, least_moves, loads_of, routes, weight_lists, worker_sets

from binshift import seating
from binshift.model import Bin, BinSet, Worker
from binshift.planner import SLACK, TOLERATED, balanced_route, counted_weights, target_route
from binshift.routing import Route
from binshift.seating import Floor


@given(routes(), worker_sets, weight_lists)
def test_no_worker_is_above_the_bound(route: Route, workers: list[Worker], weights: list[float]) -> None:
    """A worker above 1.1 times the mean has only bins that by themselves are heavier than a tenth of the mean."""
    given_weights = np.array(weights[: route.bins], dtype=np.float64)
    target = balanced_route(route, workers, given_weights)
    weight = counted_weights(given_weights, route.bins)
    mean = weight.sum() / len(workers)
    for worker, load in zip(workers, loads_of(target, workers, weight), strict=True):
        if load > mean * (1 + TOLERATED) + EPSILON:
            assert weight[target.bins_of(worker).array].min() > mean * TOLERATED - EPSILON
    assert len(target.workers) == min(len(workers), route.bins)
    assert set(target.workers) <= set(workers)


@given(routes(), worker_sets, weight_lists)
def test_a_balanced_route_stays(route: Route, workers: list[Worker], weights: list[float]) -> None:
    """Balancing a balanced route returns the same route: a restarted driver moves nothing."""
    given_weights = np.array(weights[: route.bins], dtype=np.float64)
    target = balanced_route(route, workers, given_weights)
    assert balanced_route(target, workers, given_weights) is target
    assert balanced_route(target, workers, given_weights, SLACK) is target or target is route


@given(routes(), worker_sets, weight_lists, st.sampled_from([0.0, SLACK, TOLERATED]))
def test_what_is_left_alone_is_what_a_plan_would_not_change(
    route: Route, workers: list[Worker], weights: list[float], slack: float
) -> None:
    """The check of a route and its plan agree: the check finds it balanced if and only if the plan moves nothing."""
    given_weights = np.array(weights[: route.bins], dtype=np.float64)
    for each in (route, target_route(route, workers, given_weights, slack=slack)):
        planned = target_route(each, workers, given_weights, slack=slack)
        floor = Floor(each.owners, np.unique(workers), counted_weights(given_weights, each.bins), slack)
        assert floor.balanced() == (planned is each)


@given(routes(), worker_sets, weight_lists)
def test_little_moves_for_balance(route: Route, workers: list[Worker], weights: list[float]) -> None:
    """The moved load is that of leaving workers and the excess beyond 1.05 times the mean, plus at most two bins per worker."""
    given_weights = np.array(weights[: route.bins], dtype=np.float64)
    target = balanced_route(route, workers, given_weights)
    weight = counted_weights(given_weights, route.bins)
    mean, before = weight.sum() / len(workers), loads_of(route, workers, weight)
    needed = weight.sum() - before.sum() + np.maximum(before - mean * (1 + SLACK), 0).sum()
    moved = weight[route.moves_to(target.owners).bins].sum()
    assert moved <= needed + len(workers) * (SLACK * mean + 2 * weight.max()) + EPSILON


@given(routes(), worker_sets, weight_lists, st.lists(st.floats(1.2, 20.0), min_size=1, max_size=3))
def test_a_bin_heavier_than_a_mean_load_is_alone(
    route: Route, workers: list[Worker], weights: list[float], times: list[float]
) -> None:
    """A bin of more than 1.1 times the mean load has a worker of its own, on which it stays when one more worker comes."""
    given_weights = np.array(weights[: route.bins], dtype=np.float64)
    given_weights[: len(times)] = np.array(times[: route.bins]) * (given_weights.sum() + 1)
    target = balanced_route(route, workers, given_weights)
    weight = counted_weights(given_weights, route.bins)
    hot = np.flatnonzero(weight > (1 + TOLERATED) * weight.sum() / len(workers) + EPSILON)
    if len(workers) > 1:
        assert all(target.bins_of(target.owner(Bin(bin))) == BinSet([bin]) for bin in hot.tolist())
        grown = balanced_route(target, [*workers, Worker(max(workers) + 1)], given_weights)
        assert (grown.owners[hot] == target.owners[hot]).all()


@given(routes(), worker_sets)
def test_unknown_loads_are_counts(route: Route, workers: list[Worker]) -> None:
    """Without weights every worker gets floor or ceil of the bins, with the fewest moves."""
    target = balanced_route(route, workers, None)
    counts = [len(target.bins_of(w)) for w in workers]
    assert max(counts) - min(counts) <= 1
    assert len(route.moves_to(target.owners)) == least_moves(route, workers)


def test_growth_follows_the_bytes_and_not_the_numbers() -> None:
    """If a tenth of the bins has nearly all the load, four workers get a quarter of it each."""
    route = Route.initial(1024, [Worker(0), Worker(1)])
    weights = np.where(np.arange(1024) < 100, 1000.0, 1.0)
    workers = [Worker(w) for w in range(4)]
    by_counts, by_load = (loads_of(balanced_route(route, workers, w), workers, weights) for w in (None, weights))
    assert by_counts.max() > 1.9 * weights.sum() / 4
    assert by_load.max() <= (1 + TOLERATED) * weights.sum() / 4


def test_growth_shares_empty_bins_by_number() -> None:
    """If most bins are still empty, four workers get a quarter of them each, as well as a quarter of the load."""
    route = Route.initial(4096, [Worker(0), Worker(1)])
    weights = np.zeros(4096)
    weights[::13] = np.random.default_rng(7).pareto(1.5, weights[::13].size) + 1
    workers = [Worker(w) for w in range(4)]
    target = balanced_route(route, workers, weights)
    counts = loads_of(target, workers, np.ones(4096))
    assert counts.min() > 0.9 * 1024
    assert loads_of(target, workers, weights).max() <= (1 + TOLERATED) * weights.sum() / 4


@pytest.mark.parametrize("bins", [4096, 65536])
def test_few_bins_are_moved_one_at_a_time(bins: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Planning works on arrays: the steps that take bins one by one run a few times for each worker, whatever the loads are."""
    single: list[int] = []
    held = seating._Held.of

    def counted(self: seating._Held, seat: int) -> npt.NDArray[np.int64]:
        single.append(seat)
        return held(self, seat)

    monkeypatch.setattr(seating._Held, "of", counted)
    workers = [Worker(w) for w in range(4)]
    for seed in range(32):
        chance = np.random.default_rng(seed)
        for weights in (
            chance.random(bins),
            chance.pareto(1.2, bins),
            chance.random(bins) * chance.integers(0, 2, bins),
        ):
            single.clear()
            balanced_route(Route.initial(bins, workers[:2]), workers, weights)
            assert len(single) <= 8 * len(workers)


def test_a_drift_within_the_bound_is_left_alone() -> None:
    """An excess of nine per cent on one worker moves nothing; twelve per cent moves only what is necessary."""
    route = Route.initial(256, [Worker(0), Worker(1)])
    for share, moves in ((1.09, 0), (1.13, 12)):
        weights = np.where(route.owners == 0, share, 2 - share)
        target = balanced_route(route, route.workers, weights)
        assert len(route.moves_to(target.owners)) <= moves
        assert (target is route) == (moves == 0)


@pytest.mark.parametrize("bins", [1, 4, 64])
def test_each_worker_gets_a_bin(bins: int) -> None:
    """One key with all the load leaves no worker without a bin, as far as there are bins: every worker gets the target's bins."""
    route = Route.initial(bins, [Worker(0)])
    weights = np.zeros(bins)
    weights[0] = 1e9
    workers = [Worker(w) for w in range(9)]
    assert len(balanced_route(route, workers, weights).workers) == min(bins, 9)
    assert len(target_route(route, workers, weights, slack=0.5).workers) == min(bins, 9)
