"""Every strategy makes each move once; Optimized does it in the fewest steps, each a maximum matching."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from binshift.errors import MigrationRefused
from binshift.invariants import InvariantViolated
from binshift.model import Moves, Plan, Worker
from binshift.planner import target_route
from binshift.routing import Route
from binshift.strategies import Strategy, cut
from binshift.strategies.matchings import rounds

Pair = tuple[int, int]


@st.composite
def all_moves(draw: st.DrawFn) -> Moves:
    """Up to 60 moves among up to 12 workers; a worker may be both source and destination."""
    pairs = draw(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 11)).filter(lambda p: p[0] != p[1]), max_size=60))
    bins = draw(st.permutations(range(len(pairs))))
    return Moves(bins, [s for s, _ in pairs], [d for _, d in pairs])


def steps_of(plan: Plan) -> list[Moves]:
    """The moves of each step."""
    return [step.moves for step in plan.steps]


def fewest_steps(moves: Moves, batch_size: int) -> int:
    """The batches of the busiest worker, sending or receiving: no schedule can be shorter."""
    batches = {pair: -(-count // batch_size) for pair, count in pairs_of(moves).items()}
    sent, received = Counter[int](), Counter[int]()
    for (source, destination), count in batches.items():
        sent[source] += count
        received[destination] += count
    return max([*sent.values(), *received.values()], default=0)


def pairs_of(moves: Moves) -> Counter[Pair]:
    """The number of bins that each pair of workers moves."""
    return Counter(zip(moves.sources.tolist(), moves.destinations.tolist(), strict=True))


def largest_matching(pairs: Iterable[Pair]) -> int:
    """The size of a maximum matching, by trying every source in turn (Kuhn)."""
    nearby: dict[int, list[int]] = {}
    for source, destination in pairs:
        nearby.setdefault(source, []).append(destination)
    mate: dict[int, int] = {}

    def place(source: int, seen: set[int]) -> bool:
        for destination in nearby[source]:
            if destination not in seen:
                seen.add(destination)
                if destination not in mate or place(mate[destination], seen):
                    mate[destination] = source
                    return True
        return False

    return sum(place(source, set()) for source in nearby)


@given(all_moves(), st.sampled_from(Strategy), st.integers(1, 9))
def test_every_move_is_made_exactly_once(moves: Moves, strategy: Strategy, batch_size: int) -> None:
    """A plan consists of exactly its moves, for any strategy, and no step is empty."""
    plan = cut(moves, strategy, batch_size)
    assert sorted(plan.moves) == sorted(moves)
    assert all(len(step) for step in steps_of(plan))


@given(all_moves(), st.integers(1, 9))
def test_step_sizes_are_as_ordered(moves: Moves, batch_size: int) -> None:
    """AllAtOnce has one step, Fluid one bin per step, Batched n bins per step except for the last."""
    sizes = {s: [len(step) for step in steps_of(cut(moves, s, batch_size))] for s in Strategy}
    assert sizes[Strategy.ALL_AT_ONCE] == ([len(moves)] if len(moves) else [])
    assert sizes[Strategy.FLUID] == [1] * len(moves)
    assert all(size == batch_size for size in sizes[Strategy.BATCHED][:-1])
    assert len(sizes[Strategy.BATCHED]) == -(-len(moves) // batch_size)


@given(all_moves(), st.integers(1, 9))
def test_batches_are_taken_from_all_pairs_in_turn(moves: Moves, batch_size: int) -> None:
    """After any number of batches no pair of workers is ahead of another by more than one bin, unless that pair is done."""
    left = pairs_of(moves)
    made = Counter[Pair]()
    for step in steps_of(cut(moves, Strategy.BATCHED, batch_size)):
        made.update(pairs_of(step))
        waiting = [made[pair] for pair in left if made[pair] < left[pair]]
        assert not waiting or max(made.values()) <= min(waiting) + 1


@given(all_moves(), st.integers(1, 4))
def test_optimized_is_a_shortest_sequence_of_maximum_matchings(moves: Moves, batch_size: int) -> None:
    """In each step a worker sends to at most one and receives from at most one, n bins at most; no step could have one
    more pair, and no plan could have fewer steps."""
    plan = cut(moves, Strategy.OPTIMIZED, batch_size)
    left = pairs_of(moves)
    for step in steps_of(plan):
        pairs = pairs_of(step)
        assert len({s for s, _ in pairs}) == len({d for _, d in pairs}) == len(pairs)
        assert all(count == min(batch_size, left[pair]) for pair, count in pairs.items())
        assert len(pairs) == largest_matching(left)
        left = Counter({pair: count - pairs[pair] for pair, count in left.items() if count > pairs[pair]})
    assert len(plan.steps) == fewest_steps(moves, batch_size)


@given(st.dictionaries(st.tuples(st.integers(0, 4), st.integers(0, 4)), st.integers(1, 30), min_size=1))
@example({(0, 0): 6, (1, 1): 6, (2, 0): 2, (2, 1): 5})
def test_rounds_are_shortest_for_any_pairs(batches: dict[Pair, int]) -> None:
    """Even for pairs with very unequal numbers of batches, each round is a maximum matching and none is wasted."""
    pairs = sorted(batches)
    counts = np.array([batches[pair] for pair in pairs])
    round_of = rounds(np.array([s for s, _ in pairs]), np.array([d for _, d in pairs]), counts)
    left = Counter(batches)
    for number in range(int(round_of.max()) + 1):
        used = [pairs[i] for i in np.repeat(np.arange(len(pairs)), counts)[round_of == number]]
        assert len({s for s, _ in used}) == len({d for _, d in used}) == len(used)
        assert len(used) == largest_matching(left)
        left = +(left - Counter(used))
    assert not left
    degrees = (sum(n for p, n in batches.items() if p[side] == w) for side in (0, 1) for w in range(5))
    assert round_of.max() + 1 == max(degrees)


@pytest.mark.parametrize("seed", range(4))
def test_optimized_is_shortest_among_many_workers(seed: int) -> None:
    """Even for dense moves among dozens of workers, with pairs of very different sizes, the least number of steps suffices."""
    rng = np.random.default_rng(seed)
    sources, destinations = (rng.zipf(1.3, 5000) % 40 for _ in range(2))
    moves = Moves(np.arange(5000), sources, 100 + destinations)
    for batch_size in (1, 7):
        plan = cut(moves, Strategy.OPTIMIZED, batch_size)
        assert len(plan.steps) == fewest_steps(moves, batch_size)
        assert all(len(set(step.destinations.tolist())) == len(pairs_of(step)) for step in steps_of(plan))


def test_optimized_moves_pairs_in_parallel() -> None:
    """Doubling the workers takes the steps of one worker's bins, not of all bins."""
    route = Route.initial(4096, [Worker(0), Worker(1)])
    moves = route.moves_to(target_route(route, [Worker(w) for w in range(4)]).owners)
    plan = cut(moves, Strategy.OPTIMIZED, 64)
    assert len(plan.steps) == 1024 // 64
    assert all(pairs_of(step) == {(0, 2): 64, (1, 3): 64} for step in steps_of(plan))


@pytest.mark.parametrize("strategy", [Strategy.FLUID, Strategy.BATCHED, Strategy.OPTIMIZED])
def test_bins_of_a_step_are_of_a_size(strategy: Strategy) -> None:
    """With weights, each pair moves its heaviest bins first, so that bins of similar weight share a step."""
    weights = np.array([1, 9, 2, 8, 3, 7, 4, 6])
    moves = Moves(np.arange(8), [0] * 4 + [1] * 4, [2] * 4 + [3] * 4)
    given_up = [int(b) for step in steps_of(cut(moves, strategy, 2, weights)) for b in step.bins if b < 4]
    assert given_up == [1, 3, 2, 0]


def test_names_are_those_of_the_resource() -> None:
    """The strategies have the names in the resource's and the API's documentation, and can be created from them."""
    assert [Strategy(name) for name in ("AllAtOnce", "Fluid", "Batched", "Optimized")] == list(Strategy)


@pytest.mark.parametrize("batch_size", [0, -1])
def test_an_empty_batch_is_refused(batch_size: int) -> None:
    """A plan with empty steps would never end."""
    with pytest.raises(MigrationRefused, match=f"batch of {batch_size} bins"):
        cut(Moves([0], [0], [1]), Strategy.BATCHED, batch_size)


def test_a_move_that_stays_is_a_bug() -> None:
    """A worker cannot send a bin to itself."""
    with pytest.raises(InvariantViolated, match="its own worker"):
        cut(Moves([0], [1], [1]), Strategy.FLUID)


@pytest.mark.parametrize("strategy", Strategy)
def test_largest_plan_can_be_cut(strategy: Strategy) -> None:
    """Replacing all of a thousand workers of 2^20 bins gives a plan of the expected length (for speed see bench_planner.py)."""
    route = Route.initial(1 << 20, [Worker(w) for w in range(1000)])
    moves = route.moves_to(target_route(route, [Worker(w) for w in range(1000, 2000)]).owners)
    plan = cut(moves, strategy, 64)
    assert plan.bins_total == route.bins
    assert (
        len(plan.steps)
        == {
            Strategy.ALL_AT_ONCE: 1,
            Strategy.FLUID: route.bins,
            Strategy.BATCHED: route.bins // 64,
            Strategy.OPTIMIZED: fewest_steps(moves, 64),
        }[strategy]
    )
