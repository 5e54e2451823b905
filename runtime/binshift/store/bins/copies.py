"""Copies of bins: installed, advanced and dropped, concurrently with epochs.

This module owns the work on bins that a store does not own. It runs in the background, while epochs use the same
store, and LMDB has one writer at a time: so whatever may take long is cut into many short transactions, and between
them the bins concerned are *partial*: they count for nothing and may be left so by a process that dies.

It must never change rows of a bin that is owned, or that another attempt has begun to install since; each transaction checks
this again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from binshift import entries as rows
from binshift import failpoints
from binshift.entries import Entries
from binshift.invariants import invariant
from binshift.model import BinSet, Epoch, Fence
from binshift.store.bins import transitions
from binshift.store.bins.fenced_store import FencedStore
from binshift.store.engine import sorted_run
from binshift.store.engine.contract import Transaction
from binshift.store.engine.sorted_run import SortedRun

Pause = Callable[[], bool]
"""Called between transactions; rests if needed, and returns whether there is time for another one."""

_SWEEP_BINS = 8
"""Bins whose rows one transaction deletes; each gets its share of `StoreLimits.background_rows_max`."""


@dataclass(frozen=True)
class Installation:
    """A copy of bins while it is written: begun, continued and finished by one attempt."""

    fenced: FencedStore
    fence: Fence
    bins: BinSet
    epoch: Epoch
    attempt: str

    def begin(self) -> None:
        """Make room for the copy: whatever there was of these bins goes."""
        with self.fenced.writing(self.fence, background=True) as (transaction, status):
            begun, stale = transitions.begun(status, self.bins, self.epoch, self.attempt)
            self.fenced.save(transaction, begun)
        for some in _groups(stale):
            left = some
            while len(left):
                with self._writing(left) as transaction:
                    left = left - _delete(self.fenced, transaction, left)

    def write(self, entries: Sequence[Entries], pause: Pause, *, begun: bool) -> None:
        """Write rows. The first batch is packed if the copy has ``begun`` just now: nothing of its bins is stored yet."""
        for number, batch in enumerate(entries):
            merged = rows.merge_last_wins([batch])
            invariant(not len(rows.bin_set(merged) - self.bins), "a copy has rows of other bins")
            for at, part in enumerate(rows.cut(merged, sorted_run.BYTES_MAX, sorted_run.ROWS_MAX)):
                if number or at:
                    pause()
                packed = begun and not number and self._add(part)
                if not packed:
                    self._put(part, pause)

    def _add(self, part: Entries) -> bool:
        """Write rows as a run; False if they are to be put one by one."""
        run = SortedRun.of(part)  # before the lock is taken
        if run.content is None:
            return False
        with self._writing(self.bins) as transaction:
            return transaction.add_run(run)

    def _put(self, part: Entries, pause: Pause) -> None:
        limits = self.fenced.limits
        for at, piece in enumerate(rows.cut(part, limits.background_bytes_max, limits.background_rows_max)):
            if at:
                pause()
            with self._writing(self.bins) as transaction:
                transaction.put_many(piece)

    def finish(self) -> None:
        """From now on the copy counts."""
        with self.fenced.writing(self.fence, background=True) as (transaction, status):
            self.fenced.save(transaction, transitions.installed(status, self.bins, self.epoch, self.attempt))

    @contextmanager
    def _writing(self, bins: BinSet) -> Iterator[Transaction]:
        """A transaction in which these bins are still this attempt's."""
        with self.fenced.writing(self.fence, background=True) as (transaction, status):
            transitions.check_part(status, bins, self.epoch, self.attempt)
            yield transaction


def advance(
    fenced: FencedStore, fence: Fence, bins: BinSet, have: int, epoch: Epoch, entries: Sequence[Entries]
) -> None:
    """Apply recorded deltas, in one transaction: in between, a copy would be at no epoch."""
    merged = rows.merge_last_wins(entries)
    invariant(not len(rows.bin_set(merged) - bins), "a delta has rows of other bins")
    with fenced.writing(fence, background=True) as (transaction, status):
        after = transitions.advanced(status, bins, have, epoch)
        transaction.put_many(merged)
        fenced.save(transaction, after)


def drop(fenced: FencedStore, fence: Fence, bins: BinSet, pause: Pause) -> None:
    """Invalidate copies, then delete their rows, until ``pause`` returns False."""
    with fenced.writing(fence, background=True) as (transaction, status):
        after = transitions.retired(status, bins)
        fenced.save(transaction, after)
    for some in _groups(bins & after.dropping):
        left = some
        while len(left):
            if not pause():
                return
            with fenced.writing(fence, background=True) as (transaction, status):
                # A bin that another task has begun to install since is not ours any more.
                left = left & status.dropping
                empty = _delete(fenced, transaction, left)
                fenced.save(transaction, transitions.swept(status, empty))
                left = left - empty
            failpoints.reached("retire.between")


def _delete(fenced: FencedStore, transaction: Transaction, bins: BinSet) -> BinSet:
    """Delete a bounded number of rows; the bins that have none left."""
    share = max(fenced.limits.background_rows_max // _SWEEP_BINS, 1)
    return BinSet([bin for bin in bins if transaction.drop(bin, share)])


def _groups(bins: BinSet) -> Iterator[BinSet]:
    return (BinSet(bins.array[at : at + _SWEEP_BINS]) for at in range(0, len(bins), _SWEEP_BINS))
