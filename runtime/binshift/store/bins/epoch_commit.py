"""The transaction that applies an epoch to a bin store: what it will hold can be asked before anything is written.

This module owns the order of the writes (undo record, rows, status) and the count of the rows that comes of them. The rules are
`transitions`'; the write lock is held from the first check to the end, so that no other task can come between.

It must never write before all that can be refused has been checked: who asks can already rely on the epoch.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace

from binshift import failpoints
from binshift.entries import Entries, size_bytes
from binshift.model import BinSet, Epoch, Stamp
from binshift.store.bins import transitions
from binshift.store.bins import undo as undo_record
from binshift.store.bins.fenced_store import FencedStore, Reader
from binshift.store.bins.status import Status
from binshift.store.engine.contract import Size, Transaction

logger = logging.getLogger(__name__)


class EpochCommit:
    """An epoch in its transaction; see `BinStore.committing`.

    Args:
        store: where it is applied.
        transaction: of the store, which may write.
        status: of the store in it.
        expect, stamp, owned: as for `transitions.committed`.
        changes: each key once.
        read: rows as they are stored now, for the undo record; None: there is to be none.

    Raises:
        NeedsBringUp, InvariantViolated: as `transitions.committed`.
        StateTooLarge, DiskFull: as `Transaction.check`.
    """

    def __init__(
        self,
        store: FencedStore,
        transaction: Transaction,
        status: Status,
        expect: Stamp,
        stamp: Stamp,
        owned: BinSet,
        changes: Entries,
        read: Sequence[Entries] | None,
    ) -> None:
        self._store = store
        self._transaction = transaction
        self._before = status
        self._changes = changes
        self._applied = False
        self._after = transitions.committed(status, expect, stamp, owned)
        transaction.check(changes)
        self._old = (
            None if read is None else undo_record.old_rows(transaction, changes, store.limits.undo_bytes_max, read)
        )
        if self._old is not None:
            self._after = replace(self._after, undo_to=status.stamp)
        elif read is not None:
            logger.warning("epoch %d changes too much to be undone: a failure will rebuild from the log", stamp.epoch)

    def size(self) -> Size:
        """Of the store afterwards; of this epoch, rows count one by one, and bytes without what a store adds to them."""
        if self._old is None:
            self.apply()
        had = self._transaction.size()
        if self._applied or self._old is None:
            return had
        before, after = (rows.filter(rows.column("value").is_valid()) for rows in (self._old, self._changes))
        return Size(
            had.rows + after.num_rows - before.num_rows, max(0, had.bytes + size_bytes(after) - size_bytes(before))
        )

    def reader(self) -> Reader:
        """The state after the epoch; for use before the transaction ends."""
        self.apply()
        return self._store.reader_of(self._after, self._transaction)

    def apply(self) -> None:
        """Write everything, unless that is done."""
        if self._applied:
            return
        self._applied = True
        if self._old is not None:
            base = Epoch(self._after.stamp.epoch - 1)
            undo_record.write(
                self._transaction, undo_record.Undo(self._before.stamp, self._before.owned, base, self._old)
            )
        elif self._before.undo_to is not None:
            undo_record.write(self._transaction, None)
        self._transaction.put_many(self._changes)
        self._store.save(self._transaction, self._after)
        failpoints.reached("commit.inside")
