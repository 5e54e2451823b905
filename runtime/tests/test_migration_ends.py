"""How migrations fail and end: abandoned epochs, failed copies, lost workers, cancellation; and their progress."""

from __future__ import annotations

import numpy as np
import pytest
from migration_script import PLAN, A, B, C, apply_events, copied, failed, flips, made, run

from binshift.migration import (
    Cancel,
    Copy,
    CopyAt,
    DropCopies,
    EpochAbandoned,
    EpochRecorded,
    EpochStarting,
    Event,
    Limits,
    MigrationPlan,
    Phase,
    Rates,
    Retire,
    Started,
    StepNumber,
    WorkerLost,
    begin,
    progress,
    wants_epoch,
)
from binshift.model import BinSet, Epoch, Moves, Plan, Step, Worker


def test_an_abandoned_epoch_flips_nothing() -> None:
    """The steps of an epoch without a record flip again in its next run, which has the same number."""
    state, actions = apply_events(made(None, None, *copied(0)), EpochStarting(Epoch(11)), EpochAbandoned(Epoch(11)))
    assert progress(state).bins_moved == 0
    state, actions = apply_events(state, *run(11))
    assert flips(actions) == {11: [0]}
    assert progress(state).bins_moved == 1


def test_a_flip_that_breaks_epochs_is_given_up() -> None:
    """After a bounded number of abandoned epochs the step is removed from the route, and the migration has the reason."""
    state = made(None, Limits(flip_abandons_max=1), *copied(0))
    again: list[Event] = [EpochStarting(Epoch(11)), EpochAbandoned(Epoch(11))]
    state, actions = apply_events(state, *again, *again, EpochStarting(Epoch(11)))
    assert state.phase is Phase.FAILED
    assert state.reason == "epoch 11 was abandoned 2 times with step 0 in its route"
    assert [a for a in actions if isinstance(a, DropCopies)] == [
        DropCopies(w, BinSet([b])) for b, w in enumerate([B, B, C])
    ]


def test_copies_are_tried_again_a_bounded_number_of_times() -> None:
    """A failed copy is restarted, reports of the old attempt are ignored, and the last failure ends the migration."""
    state, actions = apply_events(made(None, Limits(copy_retries_max=1)), failed(0))
    assert actions == [Copy(StepNumber(0), B, BinSet([0]), 1)]
    state, actions = apply_events(state, *copied(0), failed(0), EpochStarting(Epoch(11)), EpochAbandoned(Epoch(11)))
    assert actions == []
    state, actions = apply_events(state, failed(0, attempt=1))
    assert state.reason == "copying step 0 to worker 1 failed 2 times, the last time: disk full"
    assert state.phase is Phase.FAILED


def test_a_hopeless_copy_is_not_tried_again() -> None:
    """A failure that a retry cannot fix ends the migration at once."""
    state, actions = apply_events(made(), failed(0, retryable=False))
    assert state.reason == "copying step 0 to worker 1 failed: disk full"
    assert not any(isinstance(a, Copy) for a in actions)


def test_a_copy_lost_in_its_flip_is_decided_by_the_record() -> None:
    """If the epoch is recorded, the lost copy was already the bin; if it is abandoned, the copy is made again first."""
    flipping = made(None, None, *copied(0), EpochStarting(Epoch(11)), failed(0))
    recorded, actions = apply_events(flipping, EpochRecorded(Epoch(11)))
    assert (progress(recorded).bins_moved, actions) == (1, [])
    abandoned, actions = apply_events(flipping, EpochAbandoned(Epoch(11)), EpochStarting(Epoch(11)))
    assert actions == [Copy(StepNumber(0), B, BinSet([0]), 1)]
    _, actions = apply_events(abandoned, *copied(0, attempt=1), EpochAbandoned(Epoch(11)), EpochStarting(Epoch(11)))
    assert flips(actions) == {11: [0]}


@pytest.mark.parametrize("recorded", [True, False], ids=["recorded", "abandoned"])
def test_cancel_leaves_the_running_epoch_alone(recorded: bool) -> None:
    """Waiting steps are dropped at once; the one in the running route is decided by the record, then retired."""
    state, actions = apply_events(made(None, None, *copied(0), EpochStarting(Epoch(11))), Cancel("enough"))
    assert actions == [DropCopies(B, BinSet([1])), DropCopies(C, BinSet([2]))]
    assert not state.phase.ended
    if recorded:
        state, actions = apply_events(state, EpochRecorded(Epoch(11)), *run(12))
        assert actions == [Retire(A, BinSet([0]))]
    else:
        state, actions = apply_events(state, EpochAbandoned(Epoch(11)))
        assert actions == [DropCopies(B, BinSet([0]))]
    assert (state.phase, state.reason) == (Phase.CANCELLED, "enough")


def test_cancel_before_the_start_and_after_the_last_flip() -> None:
    """A migration that has not started is simply over; one whose bins have all moved is settled, despite the cancellation."""
    state, actions = apply_events(begin(MigrationPlan(PLAN)), Cancel("never mind"))
    assert (state.phase, actions) == (Phase.CANCELLED, [])
    limits = Limits(flips_per_epoch_max=3)
    state, actions = apply_events(made(None, limits, *copied(0, 1, 2)), *run(11), Cancel("too late"), *run(12))
    assert (state.phase, state.reason) == (Phase.SETTLED, "")
    assert [a for a in actions if isinstance(a, Retire)] == [Retire(A, BinSet([0, 1, 2]))]


def test_a_lost_worker_ends_only_what_needs_it() -> None:
    """Losing a worker of a later step ends the migration, and the worker gets no further action; losing an uninvolved worker, or one
    that has done its part, does not end it."""
    state, actions = apply_events(made(), WorkerLost(Worker(9)))
    assert (state.phase, actions) == (Phase.COPYING, [])
    state, actions = apply_events(state, WorkerLost(B))
    assert (state.phase, actions) == (Phase.FAILED, [DropCopies(C, BinSet([2]))])
    assert "worker 1 was lost" in state.reason
    all_flipped = made(None, Limits(flips_per_epoch_max=3), *copied(0, 1, 2), *run(11))
    state, actions = apply_events(all_flipped, WorkerLost(A), *run(12))
    assert (state.phase, actions) == (Phase.SETTLED, [])


def test_a_lost_worker_does_not_hold_up_the_next_plan() -> None:
    """The epoch that would release the last copies may need another plan: that one takes over at once, including the copies."""
    moved, _ = apply_events(made(None, None, *copied(0)), *run(11), EpochStarting(Epoch(12)), WorkerLost(C))
    ended, actions = apply_events(moved, EpochAbandoned(Epoch(12)))
    assert (ended.phase, actions) == (Phase.FAILED, [])
    rescue = begin(MigrationPlan(Plan.of([Step(Moves([7], [C], [B]))]), pre_copy=False), None, Epoch(11), ended.kept)
    _, actions = apply_events(rescue, Started(), *run(12))
    assert flips(actions) == {12: [7]}
    assert Retire(A, BinSet([0])) in actions


@pytest.mark.parametrize("pre_copy", [True, False])
def test_a_kept_copy_that_is_wanted_again_is_not_retired(pre_copy: bool) -> None:
    """If the next plan moves bins back to a worker that still keeps them, only the others are dropped there."""
    limits = Limits(flips_per_epoch_max=3)
    ended, _ = apply_events(made(None, limits, *copied(0, 1, 2), WorkerLost(Worker(9))), *run(11))
    assert ended.phase is Phase.SETTLED
    back = MigrationPlan(Plan.of([Step(Moves([0], [B], [A]))]), pre_copy=pre_copy)
    state, _ = apply_events(
        begin(back, limits, Epoch(11), ended.kept), Started(), CopyAt(StepNumber(0), A, Epoch(11), 0)
    )
    _, actions = apply_events(state, *run(12), *run(13))
    assert flips(actions) == {12: [0]}
    assert [a for a in actions if isinstance(a, Retire)] == [Retire(A, BinSet([1, 2])), Retire(B, BinSet([0]))]


def test_an_idle_stream_is_nudged_only_when_it_helps() -> None:
    """An epoch is wanted for a ready step and for a copy to retire, not while copies are being made."""
    state = made()
    assert not wants_epoch(state)
    state, _ = apply_events(state, *copied(0))
    assert wants_epoch(state)
    state, _ = apply_events(state, *run(11))
    assert wants_epoch(state), "bin 0 must be retired"
    state, _ = apply_events(state, *run(12))
    assert not wants_epoch(state), "steps 1 and 2 are not copied"
    state, _ = apply_events(state, *copied(1, epoch=12), *run(13), Cancel("enough"))
    assert wants_epoch(state), "bin 1 must be retired"
    assert not wants_epoch(apply_events(state, *run(14))[0])


def test_progress_counts_and_estimates() -> None:
    """Bins, bytes and steps are counted by the records; the time left is the longer of copying and flipping."""
    plan = MigrationPlan(PLAN, bin_bytes=np.array([10, 20, 30, 0, 0, 0, 0, 0]))
    state, _ = apply_events(made(plan, None, *copied(0, 1)), *run(11))
    seen = progress(state, Rates(epoch_seconds=1.0, copy_bins_per_second=0.1, copy_bytes_per_second=3.0))
    assert (seen.bins_moved, seen.bins_copied, seen.bins_total) == (1, 1, 3)
    assert (seen.bytes_moved, seen.bytes_copied, seen.bytes_total) == (10, 20, 60)
    assert (seen.steps_flipped, seen.steps_inflight, seen.steps_total) == (1, 2, 3)
    assert seen.seconds_left == 10.0, "30 bytes at 3 per second"
    assert progress(state, Rates(epoch_seconds=60.0, copy_bytes_per_second=3.0)).seconds_left == 180.0, (
        "2 flips, 1 more"
    )
    assert progress(state, Rates(epoch_seconds=1.0)).seconds_left is None, "no rate, no estimate"
    assert progress(made(MigrationPlan(Plan.of([])))).seconds_left == 0.0
