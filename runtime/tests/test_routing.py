"""The core types and routes: valid values, and rejected control updates."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from binshift.errors import InvalidRoute
from binshift.invariants import InvariantViolated
from binshift.model import BINS_MAX, Bin, BinSet, Move, Moves, Plan, Step, Worker
from binshift.routing import Route

BINS = 16
bin_sets = st.frozensets(st.integers(0, BINS - 1))
routes = st.lists(st.integers(0, 3), min_size=BINS, max_size=BINS).map(lambda owners: Route(np.array(owners)))


@given(bin_sets, bin_sets)
def test_bin_sets_behave_like_sets(these: frozenset[int], those: frozenset[int]) -> None:
    """A BinSet has the members, order, operators and ranges of the plain set it was made of."""
    a, b = BinSet(these), BinSet(those)
    assert list(a) == sorted(these)
    assert [list(a | b), list(a & b), list(a - b)] == [sorted(s) for s in (these | those, these & those, these - those)]
    assert [n in a for n in range(BINS)] == [n in these for n in range(BINS)]
    assert BinSet.from_ranges(a.ranges()) == a
    assert (a == b) == (these == those)
    assert a != these


@pytest.mark.parametrize("number", [-1, BINS_MAX, 2**31, 2**32 + 5, 2**40])
@pytest.mark.parametrize("form", [lambda n: [n], lambda n: np.array([n], dtype=np.int64)], ids=["iterable", "array"])
def test_bin_set_refuses_what_is_no_bin(number: int, form: object) -> None:
    """A number outside the range of bins is refused, also one that would wrap around into it."""
    with pytest.raises(InvariantViolated, match="out of range"):
        BinSet(form(number))  # type: ignore[operator]


VALUES = [
    BinSet([3, 1]),
    Moves([1], [0], [2]),
    Step(Moves([1], [0], [2])),
    Plan.of([Step(Moves([1], [0], [2]))]),
    Route.initial(4, [Worker(0), Worker(1)]),
]


@pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
def test_values_survive_a_copy_and_a_pickle(value: object) -> None:
    """Immutable values can be copied and sent to another process, and are equal and hash the same there."""
    for again in (copy.deepcopy(value), pickle.loads(pickle.dumps(value))):
        assert again == value
        assert hash(again) == hash(value)


@given(st.sets(st.integers(0, BINS_MAX - 1), max_size=4) | st.sets(st.integers(0, 200)))
def test_sets_of_bins_survive_a_pickle_and_a_bitmap(values: set[int]) -> None:
    """Dense ones and sparse ones."""
    bins = BinSet(values)
    assert pickle.loads(pickle.dumps(bins)) == bins
    assert BinSet.from_bitmap(bins.bitmap()) == bins


def test_pickled_sets_of_bins_are_small() -> None:
    """Orders of every epoch have them."""
    some = len(pickle.dumps(BinSet()))
    assert len(pickle.dumps(BinSet(range(0, 65_536, 2)))) < some + 65_536 // 8 + 64
    assert len(pickle.dumps(BinSet([65_535]))) < some + 256


@pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
def test_values_cannot_be_changed(value: object) -> None:
    """No attribute of a value can be set, and no array in it written to."""
    name = (getattr(type(value), "__slots__", None) or ["array"])[0]
    with pytest.raises(AttributeError):
        setattr(value, name, None)
    array = {"BinSet": "array", "Moves": "bins", "Route": "owners"}.get(type(value).__name__)
    if array:
        with pytest.raises(ValueError, match="read-only"):
            getattr(value, array)[0] = 1


def test_moves_keep_their_own_arrays() -> None:
    """Changing the array that moves were made of does not change the moves."""
    bins = np.array([1, 2], dtype=np.int32)
    moves = Moves(bins, [0, 0], [1, 1])
    bins[0] = 7
    assert list(moves) == [Move(Bin(1), Worker(0), Worker(1)), Move(Bin(2), Worker(0), Worker(1))]
    assert Moves.of(list(moves)) == moves
    assert Moves.of([]) == Moves([], [], [])
    assert moves.bins_to(Worker(1)) == BinSet([1, 2])


def test_plan_hands_out_its_steps() -> None:
    """Steps are returned as given, by number, from the end, and in order; beyond the last there is none."""
    steps = [Step(Moves([3], [0], [1])), Step(Moves([1, 2], [0, 0], [1, 2]))]
    plan = Plan.of(steps)
    assert list(plan.steps) == steps
    assert (plan.steps[-1], len(plan.steps), plan.bins_total) == (steps[1], 2, 3)
    with pytest.raises(IndexError):
        plan.steps[2]
    assert list(Plan.of([]).steps) == []


def test_plan_refuses_a_bin_that_moves_twice() -> None:
    """A bin moves at most once in a plan."""
    with pytest.raises(InvariantViolated, match="twice"):
        Plan.of([Step(Moves([1], [0], [1])), Step(Moves([1], [1], [2]))])


@given(st.integers(0, 10), st.sets(st.integers(0, 100), min_size=1))
def test_initial_route_is_even_and_contiguous(exponent: int, workers: set[int]) -> None:
    """The first route assigns bins in runs whose lengths differ by one at most."""
    route = Route.initial(1 << exponent, [Worker(w) for w in workers])
    counts = [len(route.bins_of(Worker(w))) for w in workers]
    assert sum(counts) == route.bins
    assert max(counts) - min(counts) <= 1
    assert all(len(route.bins_of(w).ranges()) == 1 for w in route.workers)


@given(routes, routes)
def test_moves_lead_from_one_route_to_the_other(start: Route, target: Route) -> None:
    """Applying the moves to a target gives the target, in both of its forms, and a higher version."""
    moves = start.moves_to(target.owners)
    named = {Bin(b): target.owner(Bin(b)) for b in range(BINS)}
    assert start.moves_to(named) == moves
    assert start.moved(moves) == target
    assert start.moved(moves).version == start.version + 1
    assert all(start.owner(move.bin) == move.source != move.destination for move in moves)


def test_every_bin_has_one_owner() -> None:
    """The bins of all workers are a partition, and a worker without bins has an empty set (I1)."""
    route = Route(np.array([2, 0, 2, 5]))
    assert route.workers == (0, 2, 5)
    assert [list(route.bins_of(w)) for w in route.workers] == [[1], [0, 2], [3]]
    assert route.bins_of(Worker(1)) == BinSet()


def test_adjacent_updates_in_successive_epochs() -> None:
    """Updates for epochs e and e+1 take effect one after the other, each in its own epoch only."""
    before = Route.initial(4, [Worker(0)])
    at_e = before.moved(Moves([1], [0], [1]))
    after_e = at_e.moved(Moves([2], [0], [1]))
    assert [r.owners.tolist() for r in (before, at_e, after_e)] == [[0, 0, 0, 0], [0, 1, 0, 0], [0, 1, 1, 0]]
    assert [r.version for r in (before, at_e, after_e)] == [0, 1, 2]


def test_a_bin_moves_and_moves_back() -> None:
    """Successive plans may move a bin there and back: the owners are as before, the version is not."""
    before = Route.initial(4, [Worker(0)])
    back = before.moved(Moves([1], [0], [1])).moved(Moves([1], [1], [0]))
    assert back == before
    assert back.version == 2


def test_updates_in_the_wrong_order_are_refused() -> None:
    """An update made for a later route does not fit an earlier one; the error names the bin and its owner."""
    before = Route.initial(4, [Worker(0)])
    with pytest.raises(InvalidRoute, match="bin 1 is owned by worker 0, not by 1"):
        before.moved(Moves([1], [1], [2]))


@pytest.mark.parametrize("bin_", [-1, 4, 100])
def test_updates_of_unknown_bins_are_refused(bin_: int) -> None:
    """An unknown bin cannot move; a negative number is not a bin counted from the end."""
    route = Route.initial(4, [Worker(0)])
    with pytest.raises(InvalidRoute, match=f"bin {bin_} does not exist"):
        route.moved(Moves([bin_], [0], [1]))
    with pytest.raises(InvalidRoute, match=f"bin {bin_} does not exist"):
        route.moves_to({Bin(bin_): Worker(1)})


def test_a_bin_cannot_move_twice_at_once() -> None:
    """One epoch has one route, so a bin has one destination in it."""
    with pytest.raises(InvalidRoute, match="twice"):
        Route.initial(4, [Worker(0)]).moved(Moves([1, 1], [0, 0], [1, 2]))


def test_a_target_of_another_size_is_refused() -> None:
    """A target must name an owner for exactly the bins of the route."""
    with pytest.raises(InvalidRoute, match="2 bins does not fit a route of 4 bins"):
        Route.initial(4, [Worker(0)]).moves_to(np.zeros(2, dtype=np.int32))


@pytest.mark.parametrize("owners", [[], [0, 0, 0], [0, -1]], ids=["none", "three", "ownerless"])
def test_impossible_routes_are_refused(owners: list[int]) -> None:
    """A route needs a power of two of bins, each with an owner."""
    with pytest.raises(InvalidRoute):
        Route(np.array(owners, dtype=np.int32))
