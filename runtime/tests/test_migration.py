"""One migration event by event: its actions and its flips. (Any order: test_migration_simulation.)"""

from __future__ import annotations

import numpy as np
import pytest
from migration_script import NOW, PLAN, ROUTE, A, B, C, apply_events, copied, flips, made, run

from binshift.errors import InvalidRoute, InvalidSettings
from binshift.invariants import InvariantViolated
from binshift.migration import (
    Copy,
    CopyAt,
    EpochAbandoned,
    EpochRecorded,
    EpochStarting,
    Flip,
    Limits,
    MigrationPlan,
    Paced,
    Phase,
    Retire,
    Started,
    StepNumber,
    Warm,
    WorkersWarm,
    advance,
    begin,
)
from binshift.model import BinSet, Epoch, Moves, Plan, Step


def test_the_plain_way() -> None:
    """Warm, copy, flip one step per epoch, retire each after one more record, settle."""
    state = begin(MigrationPlan(PLAN, cold=frozenset({B, C})), recorded=NOW)
    assert state.phase is Phase.PLANNED
    state, actions = apply_events(state, Started())
    assert (state.phase, actions) == (Phase.WARMING, [Warm(frozenset({B, C}))])
    assert advance(state, Started()) == (state, ()), "a repeated event changes nothing"
    state, actions = apply_events(state, WorkersWarm(frozenset({B, C})))
    copies = [Copy(StepNumber(i), w, BinSet([i]), 0) for i, w in enumerate([B, B, C])]
    assert (state.phase, actions) == (Phase.COPYING, copies)
    state, actions = apply_events(state, *copied(0, 1, 2), *run(11))
    assert (state.phase, flips(actions)) == (Phase.FLIPPING, {11: [0]})
    state, actions = apply_events(state, EpochStarting(Epoch(12)))
    assert flips(actions) == {12: [1]}
    state, actions = apply_events(state, EpochRecorded(Epoch(12)))
    assert actions == [Retire(A, BinSet([0]))]
    state, actions = apply_events(state, *copied(2, epoch=12), *run(13))
    assert flips(actions) == {13: [2]}
    assert state.phase is Phase.FLIPPING, "the last copy is still kept"
    state, actions = apply_events(state, *run(14))
    assert actions == [Retire(A, BinSet([2]))]
    assert (state.phase, state.reason, state.kept) == (Phase.SETTLED, "", ())


def test_nothing_to_move_settles_at_once() -> None:
    """A plan without steps is settled as soon as it starts."""
    assert made(MigrationPlan(Plan.of([]))).phase is Phase.SETTLED


def test_adjacent_updates() -> None:
    """Steps flip in epochs e and e+1, and the bins of the first are on their new worker in the second one's route."""
    _, actions = apply_events(made(None, None, *copied(0, 1)), *run(11), *run(12))
    first, second = (a for a in actions if isinstance(a, Flip))
    at_11 = ROUTE.moved(first.moves)
    at_12 = at_11.moved(second.moves)
    assert at_11.owners.tolist() == [B, A, A, A, A, A, A, A]
    assert at_12.owners.tolist() == [B, B, A, A, A, A, A, A]


def test_an_update_for_the_very_next_epoch() -> None:
    """Without pre-copy the first step flips in the first epoch that starts after the plan, and nothing is copied."""
    _, actions = apply_events(begin(MigrationPlan(PLAN, pre_copy=False), recorded=NOW), Started(), *run(11))
    assert flips(actions) == {11: [0]}
    assert not any(isinstance(a, Copy) for a in actions)


def test_a_bin_moves_and_moves_back() -> None:
    """A second plan moves the bin back once the first has ended; the route equals the first one, two versions later."""
    there = Plan.of([Step(Moves([0], [A], [B]))])
    back = Plan.of([Step(Moves([0], [B], [A]))])
    route, epoch = ROUTE, NOW
    for plan, destination in ((there, B), (back, A)):
        state = begin(MigrationPlan(plan), None, epoch)
        state, actions = apply_events(state, Started(), CopyAt(StepNumber(0), destination, epoch, 0))
        state, actions = apply_events(state, *run(epoch + 1), *run(epoch + 2))
        route, epoch = route.moved(next(a.moves for a in actions if isinstance(a, Flip))), state.recorded
        assert state.phase is Phase.SETTLED
    assert (route, route.version) == (ROUTE, 2)


def test_updates_in_the_wrong_order_are_refused() -> None:
    """A reverse plan does not fit the route before the plan was applied; epochs must not run backwards either."""
    _, actions = apply_events(made(MigrationPlan(Plan.of([Step(Moves([0], [B], [A]))]), pre_copy=False)), *run(11))
    with pytest.raises(InvalidRoute, match="bin 0 is owned by worker 0"):
        ROUTE.moved(next(a.moves for a in actions if isinstance(a, Flip)))
    for wrong in (EpochStarting(NOW), EpochRecorded(NOW)):
        with pytest.raises(InvariantViolated, match="epoch 10"):
            advance(made(), wrong)
    running = made(None, None, EpochStarting(Epoch(11)))
    for crossing in (EpochStarting(Epoch(12)), EpochRecorded(Epoch(12)), EpochAbandoned(Epoch(12))):
        with pytest.raises(InvariantViolated, match="11 runs"):
            advance(running, crossing)


@pytest.mark.parametrize(("behind", "flipped"), [(1, True), (2, True), (4, True), (5, False), (6, False)])
def test_a_flip_needs_a_copy_at_most_three_deltas_behind(behind: int, flipped: bool) -> None:
    """A flip in epoch e requires the copy at e-1 .. e-4."""
    starting = Epoch(20)
    _, actions = apply_events(made(None, None, *copied(0, epoch=starting - behind)), EpochStarting(starting))
    assert bool(flips(actions)) == flipped


def test_reports_may_overtake_each_other() -> None:
    """An older report of the same copy that arrives later does not make the copy older."""
    _, actions = apply_events(made(None, None, *copied(0, epoch=20), *copied(0, epoch=12)), EpochStarting(Epoch(21)))
    assert flips(actions) == {21: [0]}


def test_a_step_flips_when_all_its_destinations_are_ready() -> None:
    """One destination that is behind delays its step, and no other worker gets part of it."""
    state = made(MigrationPlan(Plan.of([Step(Moves([0, 1], [A, A], [B, C]))])), None, *copied(0))
    state, actions = apply_events(state, *run(11))
    assert flips(actions) == {}
    _, actions = apply_events(
        state, CopyAt(StepNumber(0), B, Epoch(11), 0), CopyAt(StepNumber(0), C, Epoch(11), 0), *run(12)
    )
    assert flips(actions) == {12: [0, 1]}


@pytest.mark.parametrize(("in_order", "expected"), [(True, {}), (False, {11: [1]})], ids=["in order", "any order"])
def test_a_late_copy_holds_up_others_only_if_order_is_wanted(in_order: bool, expected: dict[int, list[int]]) -> None:
    """The second step is ready before the first: it waits, or flips first where that is allowed."""
    _, actions = apply_events(made(None, Limits(in_order=in_order), *copied(1)), *run(11))
    assert flips(actions) == expected


def test_steps_share_an_epoch_within_limits() -> None:
    """As many steps flip together as the limits on steps and bins allow; a step larger than the limit flips alone."""
    ready = copied(0, 1, 2)
    for steps, bins, expected in ((3, 9, [0, 1, 2]), (2, 9, [0, 1]), (3, 2, [0, 1]), (3, 1, [0])):
        limits = Limits(flips_per_epoch_max=steps, flip_bins_per_epoch_max=bins)
        _, actions = apply_events(made(None, limits, *ready), *run(11))
        assert flips(actions) == {11: expected}


def test_flips_keep_their_distance() -> None:
    """With a gap of two, two epochs without a flip follow each one with a flip; pacing can shorten the gap."""
    state = made(None, Limits(gap_epochs=2, flip_deltas_max=9), *copied(0, 1, 2))
    state, actions = apply_events(state, *run(11), *run(12), *run(13), *run(14), *run(15))
    assert flips(actions) == {11: [0], 14: [1]}
    _, actions = apply_events(state, Paced(Limits(gap_epochs=1, flip_deltas_max=9)), *run(16))
    assert flips(actions) == {16: [2]}


def test_copying_runs_ahead_of_flipping_within_limits() -> None:
    """While one step flips, the next are copied: as many as the limits on steps, bins and bytes allow, always one (I7)."""
    sizes = np.full(8, 100)
    for limits in (Limits(steps_inflight_max=2), Limits(copy_bins_inflight_max=2), Limits(copy_bytes_inflight_max=299)):
        state, actions = apply_events(begin(MigrationPlan(PLAN, bin_bytes=sizes), limits, NOW), Started())
        assert [a.step for a in actions if isinstance(a, Copy)] == [0, 1]
        _, actions = apply_events(state, *copied(0), *run(11))
        assert [a.step for a in actions if isinstance(a, Copy)] == [2]
    _, actions = apply_events(
        begin(MigrationPlan(PLAN, bin_bytes=sizes), Limits(copy_bytes_inflight_max=1), NOW), Started()
    )
    assert [a.step for a in actions if isinstance(a, Copy)] == [0]


def test_no_bin_goes_to_a_cold_worker() -> None:
    """A step waits until its own destinations are warm; steps to warm workers do not wait for the others."""
    state, actions = apply_events(begin(MigrationPlan(PLAN, cold=frozenset({C})), recorded=NOW), Started())
    assert [a.step for a in actions if isinstance(a, Copy)] == [0, 1]
    _, actions = apply_events(state, WorkersWarm(frozenset({C})))
    assert [a.step for a in actions if isinstance(a, Copy)] == [2]


def test_limits_that_never_end_are_refused() -> None:
    """A limit below its least value is rejected by name."""
    with pytest.raises(InvalidSettings, match="flips_per_epoch_max is 0, so no migration could ever end"):
        Limits(flips_per_epoch_max=0)
    with pytest.raises(InvalidSettings, match="gap_epochs is -1; the least is 0"):
        Limits(gap_epochs=-1)
