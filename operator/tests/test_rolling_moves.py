"""How many bins a roll moves, with the planner of the runtime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from rolling_states import NEW, OLD, OTHER, rolling_state
from test_children_rendering import dataflow
from test_decide import LIMITS, SETTLED

from binshift.model import Worker
from binshift.planner import counted_weights, target_route
from binshift.routing import Route
from binshift_operator.decide import rolling
from binshift_operator.model.situation import Situation

BINS = 4096


def bins_moved(replicas: int, surge: int, weights: np.ndarray[Any, np.dtype[np.float64]] | None = None) -> int:
    """The bins that change their worker in a whole roll, whose executors do as they should."""
    flow = dataflow({"spec.replicas": replicas, **OTHER, "spec.executor.maxSurge": surge})
    pods, target = dict.fromkeys(range(replicas), OLD), frozenset(range(replicas))
    route, moved = Route.initial(BINS, [Worker(slot) for slot in target]), 0
    while True:
        state = rolling_state(pods, set(target), set(target))
        planned = rolling.plan(Situation(flow, state, SETTLED, LIMITS))
        pods |= {slot: NEW for slot in range(planned.processes) if slot not in pods}
        if planned.workers != target:
            workers, target = [Worker(slot) for slot in sorted(planned.workers)], planned.workers
            after = target_route(route, workers, counted_weights(weights, BINS))
            moved, route = moved + int((after.owners != route.owners).sum()), after
        elif planned.outgoing is not None:
            pods[planned.outgoing.slot] = NEW
        elif not planned.rolls:
            assert set(pods.values()) == {NEW}
            assert target == frozenset(range(replicas))
            return moved


@pytest.mark.parametrize("replicas", [1, 2, 3, 8, 16])
def test_each_bin_moves_about_once(replicas: int) -> None:
    """With a surge, one executor's share more than all bins; a share is not always a whole number."""
    assert bins_moved(replicas, 1) <= BINS * (replicas + 1) / replicas + replicas + 1


@pytest.mark.parametrize("replicas", [3, 8, 16])
def test_without_a_surge_two_shares_more(replicas: int) -> None:
    """The bins of the first executor go to the others, and as many return at the end."""
    assert bins_moved(replicas, 0) <= BINS * (replicas + 2) / replicas + 2 * (replicas + 1)


@pytest.mark.parametrize("replicas", [2, 3, 8])
def test_uneven_bins_move_about_once(replicas: int) -> None:
    """So it is for bins of very different load: a slot that takes over gets the load of the slot that leaves."""
    weights = np.random.default_rng(7).pareto(2.0, BINS) + 1.0
    assert bins_moved(replicas, 1, weights) <= 1.1 * BINS * (replicas + 1) / replicas
