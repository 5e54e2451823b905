"""The store in memory: for tests, the user's (`binshift.testing`) and our own, and as the plainest form of the contract.

This module owns a dict of dicts, bin -> key -> value. A writer copies a bin's dict the first time it touches it and
swaps the outer dict in at the end; a reader just keeps the outer dict it started with. That is all there is to
snapshot isolation here.

It must never write into a dict that a reader may hold. It is nothing for state that has to be shared between
processes, or that should survive one.
"""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np
import pyarrow as pa

from binshift import binary
from binshift.entries import Entries, concat, cut, make, merge_last_wins
from binshift.errors import StoreBusy
from binshift.invariants import invariant
from binshift.model import Bin, IntArray
from binshift.store.engine.contract import Size, StoreLimits, Transaction, check_sizes
from binshift.store.engine.sorted_run import SortedRun

Rows = dict[int, dict[bytes, bytes]]


class MemoryStore:
    """A `KeyValueStore` that lives and dies with this object."""

    def __init__(self, limits: StoreLimits | None = None) -> None:
        self._limits = limits or StoreLimits()
        self._rows: Rows = {}
        self._blobs: dict[str, bytes] = {}
        self._writing = threading.Lock()
        self._swapping = threading.Lock()

    @contextmanager
    def read(self) -> Iterator[Transaction]:
        """A snapshot."""
        with self._swapping:
            transaction = MemoryTransaction(self._rows, self._blobs, self._limits, writable=False)
        try:
            yield transaction
        finally:
            transaction.end()

    @contextmanager
    def write(self, timeout_seconds: float) -> Iterator[Transaction]:
        """A write transaction.

        Raises:
            StoreBusy: another thread's did not end within ``timeout_seconds``.
        """
        if not self._writing.acquire(timeout=timeout_seconds):
            raise StoreBusy(f"another thread has been writing to this store for more than {timeout_seconds} s")
        try:
            transaction = MemoryTransaction(dict(self._rows), dict(self._blobs), self._limits, writable=True)
            try:
                yield transaction
            finally:
                transaction.end()
            with self._swapping:
                self._rows, self._blobs = transaction.rows, transaction.blobs
        finally:
            self._writing.release()

    def close(self) -> None:
        """Nothing to give back."""


class MemoryTransaction:
    """One moment of a `MemoryStore`; see `contract.Transaction` for what the methods promise."""

    def __init__(self, rows: Rows, blobs: dict[str, bytes], limits: StoreLimits, *, writable: bool) -> None:
        self.rows = rows
        self.blobs = blobs
        self._limits = limits
        self._writable = writable
        self._own: set[int] = set()
        self._ended = False

    def end(self) -> None:
        """From now on every use is a mistake."""
        self._ended = True

    def get_many(self, bins: IntArray, keys: pa.BinaryArray) -> pa.BinaryArray:
        """The value of each (bin, key), null where there is none."""
        self._check()
        nothing: dict[bytes, bytes] = {}
        found = [self.rows.get(b, nothing).get(k) for b, k in zip(bins.tolist(), keys.to_pylist(), strict=True)]
        return binary.of(found)

    def scan(self, bin: Bin, start: bytes = b"", stop: bytes | None = None) -> Iterator[Entries]:
        """The rows of ``bin`` from ``start`` to before ``stop``, ascending."""
        self._check()
        rows = self.rows.get(bin, {})
        keys = sorted(rows)
        keys = keys[bisect_left(keys, start) : len(keys) if stop is None else bisect_left(keys, stop)]
        # Values are taken now: the same transaction may delete rows while the scan runs.
        values = [rows[key] for key in keys]
        step = 1024
        for at in range(0, len(keys), step):
            self._check()
            some = keys[at : at + step]
            bins = np.full(len(some), bin, dtype=np.int32)
            yield from cut(make(bins, some, values[at : at + step]), self._limits.scan_bytes_max)

    def scan_bins(self, bins: Sequence[Bin], start: bytes = b"", stop: bytes | None = None) -> Iterator[Entries]:
        """The rows of several bins from ``start`` to before ``stop``."""
        held: list[Entries] = []
        for bin in bins:
            held += self.scan(bin, start, stop)
            if len(held) > 1:  # rows of several bins are in one batch
                yield from cut(concat(held), self._limits.scan_bytes_max)
                held = []
        yield from held

    def first_keys(self, bins: IntArray, space: bytes, length: int) -> list[bytes]:
        """The beginning of each bin's first key in a space."""
        self._check()
        found = [
            min(filter(lambda key: key.startswith(space), self.rows.get(b, {})), default=b"") for b in bins.tolist()
        ]
        return [key[:length] for key in found]

    def check(self, entries: Entries) -> None:
        """Raise what `put_many` would raise."""
        self._check(writing=True)
        check_sizes(entries, self._limits)

    def put_many(self, entries: Entries) -> None:
        """Write rows; a null value deletes."""
        self.check(entries)
        entries = merge_last_wins([entries])
        for bin, key, value in zip(*(column.to_pylist() for column in entries.columns), strict=True):
            rows = self._own_rows(bin)
            if value is None:
                rows.pop(key, None)
            else:
                rows[key] = value

    def add_run(self, run: SortedRun) -> bool:
        """Rows are put one by one."""
        self.check(run.rows)
        return False

    def size(self) -> Size:
        """Bytes of all keys and values. Counts them, so ask seldom."""
        self._check()
        content = sum(len(key) + len(value) for rows in self.rows.values() for key, value in rows.items())
        return Size(sum(map(len, self.rows.values())), content)

    def drop(self, bin: Bin, rows_max: int) -> bool:
        """Delete at most ``rows_max`` rows of ``bin``; True when none are left."""
        self._check(writing=True)
        rows = self._own_rows(bin)
        for key in list(rows)[:rows_max]:
            del rows[key]
        return not rows

    def clear(self) -> None:
        """Delete all rows."""
        self._check(writing=True)
        self.rows.clear()

    def meta(self, name: str) -> bytes | None:
        """The blob called ``name``."""
        self._check()
        return self.blobs.get(name)

    def set_meta(self, name: str, value: bytes | None) -> None:
        """Write a blob; None deletes it."""
        self._check(writing=True)
        if value is None:
            self.blobs.pop(name, None)
        else:
            self.blobs[name] = value

    def _own_rows(self, bin: int) -> dict[bytes, bytes]:
        if bin not in self._own:
            self._own.add(bin)
            self.rows[bin] = dict(self.rows.get(bin, {}))
        return self.rows.setdefault(bin, {})

    def _check(self, *, writing: bool = False) -> None:
        invariant(not self._ended, "a transaction is used after its end")
        invariant(self._writable or not writing, "a read transaction cannot write")
