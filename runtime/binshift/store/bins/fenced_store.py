"""The way into a bin store: snapshots for readers, and fenced transactions for everybody who changes something.

This module owns the order every change keeps: take the write lock, read the status, compare fences (I8), and only then
hand out the transaction. `binstore` and `copies` go through it; nothing else touches the key-value store.

It must never let a task write whose fence is below what the store has seen, and never show rows of a bin that is
neither owned nor a copy.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from binshift import entries
from binshift.entries import Entries
from binshift.errors import Fenced
from binshift.invariants import invariant
from binshift.model import Bin, Fence, IntArray
from binshift.store.bins import status as stored
from binshift.store.bins import transitions, undo
from binshift.store.bins.status import Status
from binshift.store.engine.contract import KeyValueStore, Size, StoreLimits, Transaction

logger = logging.getLogger(__name__)


class Reader:
    """One moment of a bin store: its status, and the rows of the bins that count.

    Args:
        status: at that moment.
        transaction: reads the rows.
        bins: of the dataflow.
        remember_bytes: how many bytes of rows that are read by key it remembers, for `BinStore.committing`.
    """

    def __init__(self, status: Status, transaction: Transaction, bins: int, remember_bytes: int = 0) -> None:
        self.status = status
        self.remembered: list[Entries] = []
        self._transaction = transaction
        self._bins = bins
        self._room = remember_bytes

    @functools.cached_property
    def _visible(self) -> npt.NDArray[np.bool_]:
        """Of every bin, whether its rows count. Many readers only read the status."""
        visible = np.zeros(self._bins, dtype=np.bool_)
        visible[self.status.visible.array] = True
        return visible

    def get_many(self, bins: IntArray, keys: pa.BinaryArray) -> pa.BinaryArray:
        """The value of each (bin, key), null where there is none, in the given order. Fastest if sorted.

        Raises:
            InvariantViolated: a bin is neither owned nor a copy.
        """
        invariant(bool(self._visible[bins].all()), "rows are read of a bin that is neither owned nor a copy")
        values = self._transaction.get_many(bins, keys)
        self._room -= keys.nbytes + values.nbytes
        if self._room > 0:
            self.remembered.append(entries.make(bins, keys, values))
        return values

    def scan(self, bin: Bin, start: bytes = b"", stop: bytes | None = None) -> Iterator[Entries]:
        """The rows of ``bin`` with ``start <= key < stop``, ascending, in bounded batches.

        Raises:
            InvariantViolated: the bin is neither owned nor a copy.
        """
        invariant(bool(self._visible[bin]), f"bin {bin} is scanned, and is neither owned nor a copy")
        return self._transaction.scan(bin, start, stop)

    def scan_bins(self, bins: Sequence[Bin], start: bytes = b"", stop: bytes | None = None) -> Iterator[Entries]:
        """The rows with ``start <= key < stop`` (None: to the end) of several bins, bin by bin, each ascending.

        Raises:
            InvariantViolated: a bin is neither owned nor a copy.
        """
        invariant(bool(self._visible[list(bins)].all()), "rows are scanned of a bin that is neither owned nor a copy")
        return self._transaction.scan_bins(bins, start, stop)

    def size(self) -> Size:
        """All rows: those of owned bins and of copies, of states and of operators' own indexes."""
        return self._transaction.size()

    def first_keys(self, bins: IntArray, space: bytes, length: int) -> list[bytes]:
        """The first ``length`` bytes of each bin's first key that begins with ``space``; empty where there is none.

        Raises:
            InvariantViolated: a bin is neither owned nor a copy.
        """
        invariant(bool(self._visible[bins].all()), "keys are read of a bin that is neither owned nor a copy")
        return self._transaction.first_keys(bins, space, length)


class FencedStore:
    """A key-value store that holds a status, for a dataflow of ``bins`` bins; one made for another number is emptied.

    What is changed is marked with the ``driver``.
    """

    def __init__(self, kv: KeyValueStore, bins: int, limits: StoreLimits, driver: str = "") -> None:
        self.kv = kv
        self.limits = limits
        self._bins = bins
        self._driver = driver
        with kv.read() as transaction:
            known = stored.load(transaction, bins)
        if known is None:
            self._start_empty()

    def _start_empty(self) -> None:
        logger.warning("a local store was made for another number of bins than %d: it starts empty", self._bins)
        with self.kv.write(self.limits.lock_seconds_max) as transaction:
            if stored.load(transaction, self._bins) is None:
                self._clear(transaction)

    def forget_driver(self, driver: str) -> None:
        """Empty the store, its fence included, unless another driver than this one has marked it since."""
        with self.kv.write(self.limits.lock_seconds_max) as transaction:
            if self._load(transaction).driver == driver:
                self._clear(transaction)

    def _clear(self, transaction: Transaction) -> None:
        transaction.clear()
        undo.write(transaction, None)
        self.save(transaction, Status())

    @contextmanager
    def reading(self, *, remember: bool = False) -> Iterator[Reader]:
        """A snapshot; with ``remember``, of as many rows as an undo record may have."""
        with self.kv.read() as transaction:
            most = self.limits.undo_bytes_max if remember else 0
            yield Reader(self._load(transaction), transaction, self._bins, most)

    def reader_of(self, status: Status, transaction: Transaction) -> Reader:
        """What a transaction reads, with this status."""
        return Reader(status, transaction, self._bins)

    @contextmanager
    def writing(self, fence: Fence, *, background: bool = False) -> Iterator[tuple[Transaction, Status]]:
        """A write transaction and the status in it, for a task that has been let in.

        Raises:
            Fenced: the task's fence is too low; for ``background``: its term is.
            StoreBusy: another task is writing for too long.
        """
        with self.kv.write(self.limits.lock_seconds_max) as transaction:
            status = self._load(transaction)
            admit = transitions.admit_background if background else transitions.admit
            yield transaction, replace(admit(status, fence), driver=self._driver or status.driver)

    def save(self, transaction: Transaction, status: Status) -> None:
        """Write the status."""
        stored.save(transaction, status, self._bins)

    def _load(self, transaction: Transaction) -> Status:
        status = stored.load(transaction, self._bins)
        if status is None:
            raise Fenced(f"the local store was remade for another number of bins than {self._bins}: this task stops")
        return status
