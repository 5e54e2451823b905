"""The bin store: the state of one worker's bins for one operator, and copies of others'.

This module owns what a bin store offers, and the transactions of an epoch: fence first (`fenced_store`), then the rules
(`transitions`), then the rows, then the status, all of it or nothing.

It must never change anything for a task whose fence is lower than one it has seen (I8), and never hold an undo record for
another state than its present one. It does not know the log: its caller decides what is recorded.

Why one stamp for all owned bins: an epoch is applied to all of them or to none (I3), so they can only be at one. Why an
undo of depth one: an epoch without a record is the only state that must be left again (see ARCHITECTURE.md).
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager

from binshift import entries as rows
from binshift.entries import Entries
from binshift.invariants import invariant
from binshift.model import BinSet, Epoch, Fence, Stamp
from binshift.store.bins import copies, transitions
from binshift.store.bins import undo as undo_record
from binshift.store.bins.epoch_commit import EpochCommit
from binshift.store.bins.fenced_store import FencedStore, Reader
from binshift.store.bins.status import Status
from binshift.store.engine.contract import KeyValueStore, Size, StoreLimits


class BinStore:
    """See the module. Every method that changes something takes the caller's fence, and may raise

    - `Fenced`: the store has seen a higher fence (for copies: a later term);
    - `StoreBusy`: another task was writing for too long;
    - `StateTooLarge`: a limit would be exceeded;
    - `StoreDamaged`: the store on disk is torn; it will be found empty.

    Each leaves the state as it was.

    Args:
        kv: where rows and status are kept.
        bins: how many bins the dataflow has; a store made for another number starts empty.
        limits: what is too much.
        driver: what is unique to the driver of the tasks; marks what they change.

    >>> from binshift.model import GENESIS, Bin, Term
    >>> from tempfile import TemporaryDirectory
    >>> from binshift.store.engine.lmdb_store import discard_environments, open_lmdb
    >>> folder = TemporaryDirectory()
    >>> store, fence = BinStore(open_lmdb(folder.name), bins=8), Fence(Term(1), Epoch(0), 1)
    >>> change, first = rows.make([3], [b"key"], [b"value"]), Stamp(Epoch(0), "1-1-0")
    >>> with store.committing(fence, expect=GENESIS, stamp=first, owned=BinSet([3, 4]), changes=[change], undo=True):
    ...     pass
    >>> with store.reader() as reader:
    ...     reader.status.stamp.epoch, [batch.num_rows for batch in reader.scan(Bin(3))]
    (0, [1])
    >>> store.undo(fence, GENESIS), store.status().owned
    (True, BinSet())
    >>> discard_environments(folder.name)
    >>> folder.cleanup()
    """

    def __init__(self, kv: KeyValueStore, bins: int, limits: StoreLimits | None = None, driver: str = "") -> None:
        self._fenced = FencedStore(kv, bins, limits or StoreLimits(), driver)
        self._attempt = uuid.uuid4().hex

    def close(self) -> None:
        """Give back what the store holds."""
        self._fenced.kv.close()

    def size(self) -> Size:
        """See `Reader.size`."""
        with self.reader() as reader:
            return reader.size()

    def status(self) -> Status:
        """What the store is now."""
        with self.reader() as reader:
            return reader.status

    def reader(self, *, remember: bool = False) -> AbstractContextManager[Reader]:
        """A snapshot: rows and the status they have together. It never waits for a writer; leave it soon.

        With ``remember``, it keeps the rows that are read by key, for `committing`.
        """
        return self._fenced.reading(remember=remember)

    def wait_for_writer(self) -> None:
        """Wait for the task that is writing, if one is: what is read afterwards has what it wrote."""
        with self._fenced.kv.write(self._fenced.limits.lock_seconds_max):
            pass

    # ------------------------------------------------------------------------------------------------------- epochs

    def raise_fence(self, fence: Fence) -> None:
        """From now on nothing below ``fence`` changes this store. An equal one is fine.

        Raises:
            Fenced: the store has seen a higher one.
        """
        if self.status().fence != fence:
            with self._fenced.writing(fence) as (transaction, status):
                self._fenced.save(transaction, status)

    @contextmanager
    def committing(
        self,
        fence: Fence,
        *,
        expect: Stamp,
        stamp: Stamp,
        owned: BinSet,
        changes: Sequence[Entries],
        undo: bool,
        read: Reader | None = None,
    ) -> Iterator[EpochCommit]:
        """Apply an epoch, in one transaction: from ``expect`` to ``stamp``, with ``owned`` as the bins from now on.

        All that can be refused is refused before the block begins; when it is left normally, the epoch is written. In between the
        store is locked: no other task changes it, and readers find the state before.

        Later ``changes`` win over earlier ones. Bins that were owned and are not any more become copies at the epoch
        before. With ``undo``, an undo record is kept, unless it would exceed its limit; what ``read`` remembers of the state
        ``expect`` is not read again for it. Before epoch 0 every bin is whole, as it is empty.

        Raises:
            NeedsBringUp: the store is not at ``expect``, or a bin is neither owned nor a copy at the epoch before.
            InvariantViolated: a changed bin is not in ``owned``, or epochs do not follow each other.
        """
        merged = rows.merge_last_wins(changes)
        foreign = rows.bin_set(merged) - owned
        invariant(not len(foreign), f"{foreign} changed and not owned")
        with self._fenced.writing(fence) as (transaction, status):
            remembered = read.remembered if read is not None and read.status.stamp == status.stamp else []
            old = remembered if undo else None
            commit = EpochCommit(self._fenced, transaction, status, expect, stamp, owned, merged, old)
            yield commit
            commit.apply()

    def undo(self, fence: Fence, to: Stamp) -> bool:
        """Go back one epoch, if that leads ``to``; False, with nothing changed, if it does not.

        A bin that left with that epoch comes back unless its copy was advanced, replaced or dropped since: check the status.
        """
        with self._fenced.writing(fence) as (transaction, status):
            if status.undo_to != to:
                return False
            record = undo_record.read(transaction)
            invariant(record.to == to, "the undo record and the status differ")
            transaction.put_many(record.rows)
            undo_record.write(transaction, None)
            self._fenced.save(transaction, transitions.undone(status, to, record.owned, record.base))
            return True

    def forget_driver(self, driver: str) -> None:
        """Forget everything, the fence included, that ``driver`` has left here; nothing if another one has changed it since."""
        self._fenced.forget_driver(driver)

    def disown(self, fence: Fence) -> None:
        """Own nothing any more: the bins owned so far are copies at their epoch, which is recorded."""
        with self._fenced.writing(fence) as (transaction, status):
            undo_record.write(transaction, None)
            self._fenced.save(transaction, transitions.disowned(status))

    def reset(self, fence: Fence) -> None:
        """Forget everything but the fence."""
        with self._fenced.writing(fence) as (transaction, status):
            transaction.clear()
            undo_record.write(transaction, None)
            self._fenced.save(transaction, transitions.forgotten(status))

    # ------------------------------------------------------------------------------------------------------- copies

    def install_copies(
        self,
        fence: Fence,
        bins: BinSet,
        epoch: Epoch,
        entries: Sequence[Entries],
        *,
        begin: bool,
        done: bool,
        attempt: str | None = None,
        pause: copies.Pause = lambda: True,
    ) -> None:
        """Write a part of a copy of ``bins`` at ``epoch``, in many short transactions; ``pause`` is called between them.

        With ``begin``, whatever copy of them there was goes first. With ``done``, the copy is whole and counts; before,
        and if it is never done, it does not. Its parts come through this one object, or name the same ``attempt``; the first
        batch of rows after ``begin`` is the fastest to write.

        Raises:
            NeedsBringUp: a bin is already owned; or the copy continues without having begun, or another one of these bins
                began since.
            InvariantViolated: a row is in none of ``bins``.
        """
        copy = copies.Installation(self._fenced, fence, bins, epoch, attempt or self._attempt)
        if begin:
            copy.begin()
        copy.write(entries, pause, begun=begin)
        if done:
            copy.finish()

    def advance_copies(
        self, fence: Fence, bins: BinSet, epoch: Epoch, entries: Sequence[Entries], *, have: int | None = None
    ) -> None:
        """Apply recorded deltas to copies, in one transaction.

        Args:
            fence: of the caller.
            bins: copies that are all at ``have``.
            epoch: where they are afterwards.
            entries: the deltas of the epochs after ``have`` up to ``epoch``, in their order.
            have: an epoch; the one before ``epoch``, if not given.

        Raises:
            NeedsBringUp: one of them is at another epoch, or no copy; nothing changed.
            InvariantViolated: a row is in none of ``bins``.
        """
        copies.advance(self._fenced, fence, bins, epoch - 1 if have is None else have, epoch, entries)

    def drop_copies(self, fence: Fence, bins: BinSet, pause: copies.Pause = lambda: True) -> None:
        """Delete copies, whole or partial, in many short transactions; they count no more after the first.

        Bins that are not copies here (any more) are skipped. If ``pause``, called between transactions, returns that there is
        no more time, rows are left (`Status.dropping`) for another call.
        """
        copies.drop(self._fenced, fence, bins, pause)
