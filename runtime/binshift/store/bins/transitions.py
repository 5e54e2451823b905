"""How a bin store's status may change: one pure function for each thing that can happen to it.

This module owns the rules: continuity (I2), what becomes of bins that come and go, what an undo may give back, which
copies may be begun, continued and advanced. Each function takes a status and returns the next one, or raises and so
leaves everything as it was. `binstore` does the rows.

It must never let a bin become owned that is not whole and at the epoch before, and never let a part of a copy count
as the copy.
"""

from __future__ import annotations

from dataclasses import replace

from binshift.errors import Fenced, NeedsBringUp
from binshift.invariants import invariant
from binshift.model import BEFORE_FIRST, GENESIS, BinSet, Epoch, Fence, Stamp
from binshift.store.bins.status import DROPPED, NO_BINS, Copies, Partial, Status


def admit(status: Status, fence: Fence) -> Status:
    """Let a task of an epoch in, and shut out all below it (I8).

    Raises:
        Fenced: the store has seen a higher fence.
    """
    if fence < status.fence:
        raise _fenced(status, fence)
    return replace(status, fence=fence)


def admit_background(status: Status, fence: Fence) -> Status:
    """Let a background task in: of the same driver's term, however many epochs have begun since it was sent out.

    Copies hold recorded states only, so within a term a late one cannot do harm; the rules below see to its parts.

    Raises:
        Fenced: a newer driver has been here.
    """
    if fence.term < status.fence.term:
        raise _fenced(status, fence)
    return replace(status, fence=fence) if fence.term > status.fence.term else status


def _fenced(status: Status, fence: Fence) -> Fenced:
    return Fenced(
        f"this task holds {fence}, and the local store has seen {status.fence}: a newer driver or run owns the state; "
        "this one changes nothing any more"
    )


def committed(status: Status, expect: Stamp, stamp: Stamp, owned: BinSet) -> Status:
    """After an epoch: ``owned`` at ``stamp``; bins that left are copies at the epoch before. There is no undo yet.

    Raises:
        NeedsBringUp: the store is not at ``expect``, or lacks a bin at the epoch before (I2).
        InvariantViolated: ``stamp`` does not follow the state of the bins owned so far.
    """
    _check_stamp(status, expect)
    before = Epoch(stamp.epoch - 1)
    invariant(not len(status.owned) or expect.epoch == before, f"epoch {stamp.epoch} after epoch {expect.epoch}")
    missing = owned - status.owned - status.held_copies.at(before)
    if before == BEFORE_FIRST:
        # Before the first epoch every bin is empty, and so whole wherever there is nothing of it.
        missing = missing & (status.held_copies.bin_set() | status.partial_bins)
    if len(missing):
        raise NeedsBringUp(f"epoch {stamp.epoch} needs {missing} at epoch {before}, which this store does not have")
    copies = status.held_copies.without(owned - status.owned).with_bins(status.owned - owned, before)
    return replace(status, stamp=stamp, owned=owned, copies=copies, undo_to=None)


def undone(status: Status, to: Stamp, owned_before: BinSet, base: Epoch) -> Status:
    """Before the last epoch again. ``base`` is the epoch before it, ``owned_before`` what was owned then.

    A bin that left with that epoch comes back only if its copy is still the one it left as.
    """
    copies = status.held_copies
    back = (owned_before - status.owned) & copies.at(base)
    promoted = status.owned - owned_before
    owned = (status.owned & owned_before) | back
    return replace(status, stamp=to, owned=owned, copies=copies.without(back).with_bins(promoted, base), undo_to=None)


def disowned(status: Status) -> Status:
    """The owned bins as copies: their state is a recorded one, and others are their owners, or the store is an epoch behind."""
    copies = status.held_copies.with_bins(status.owned, status.stamp.epoch)
    return replace(status, stamp=GENESIS, owned=NO_BINS, copies=copies, undo_to=None)


def forgotten(status: Status) -> Status:
    """Nothing but the fence, and who has set it."""
    return Status(fence=status.fence, driver=status.driver)


def begun(status: Status, bins: BinSet, epoch: Epoch, attempt: str) -> tuple[Status, BinSet]:
    """A copy begins; also the bins whose earlier rows have to go first.

    Raises:
        NeedsBringUp: a bin is already owned here: an epoch was faster than this copy.
    """
    if len(bins & status.owned):
        raise NeedsBringUp(
            f"{bins & status.owned} cannot be copied to this store: an epoch has made it their owner meanwhile"
        )
    stale = bins & (status.held_copies.bin_set() | status.partial_bins)
    left = _without(status, bins)
    return replace(left, partial=(*left.partial, Partial(attempt, epoch, bins))), stale


def check_part(status: Status, bins: BinSet, epoch: Epoch, attempt: str) -> None:
    """May rows of this copy be written?

    Raises:
        NeedsBringUp: these bins are not (or no longer) being installed at ``epoch`` by ``attempt``.
    """
    if len(bins - _installing(status, epoch, attempt)):
        raise NeedsBringUp(
            f"a copy of {bins} at epoch {epoch} continues here but never began, or another one has begun since: "
            "begin it again"
        )


def installed(status: Status, bins: BinSet, epoch: Epoch, attempt: str) -> Status:
    """The copy is whole.

    Raises:
        NeedsBringUp: see `check_part`.
    """
    check_part(status, bins, epoch, attempt)
    left = _without(status, bins)
    return replace(left, copies=left.held_copies.with_bins(bins, epoch))


def advanced(status: Status, bins: BinSet, have: int, epoch: Epoch) -> Status:
    """Copies at ``have`` brought to ``epoch``.

    Raises:
        NeedsBringUp: one of them is not a copy at ``have``.
    """
    missing = bins - status.held_copies.at(have)
    if len(missing):
        raise NeedsBringUp(
            f"{missing} cannot continue from epoch {have} to {epoch}: this store has no copies of them at epoch {have}"
        )
    return replace(status, copies=status.held_copies.with_bins(bins, epoch))


def retired(status: Status, bins: BinSet) -> Status:
    """Copies, whole or partial, that count no more; their rows are still there.

    Other bins are skipped, including bins that an epoch has made owned after the decision to drop their copies.
    """
    there = bins & (status.held_copies.bin_set() | status.partial_bins)
    left = _without(status, there)
    return replace(left, partial=(*left.partial, Partial(DROPPED, BEFORE_FIRST, there))) if len(there) else left


def swept(status: Status, bins: BinSet) -> Status:
    """These bins have no rows any more."""
    return _without(status, bins & status.dropping)


def _without(status: Status, bins: BinSet) -> Status:
    """Neither copies nor partial any more."""
    kept = (replace(part, bins=part.bins - bins) for part in status.partial)
    copies: Copies = status.held_copies.without(bins)
    return replace(status, copies=copies, partial=tuple(part for part in kept if len(part.bins)))


def _installing(status: Status, epoch: Epoch, attempt: str) -> BinSet:
    found = NO_BINS
    for part in status.partial:
        if part.attempt == attempt and part.epoch == epoch:
            found = found | part.bins
    return found


def _check_stamp(status: Status, expect: Stamp) -> None:
    if status.stamp != expect:
        raise NeedsBringUp(f"this store is at {status.stamp}, not at {expect}: it must be undone, advanced or rebuilt")
