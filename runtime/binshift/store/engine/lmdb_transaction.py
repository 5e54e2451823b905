"""One transaction of an LMDB store: rows in and out, many at a time.

This module owns the conversion of Arrow columns to LMDB's calls and back. A hundred thousand rows an epoch leave no room for
Python statements per row, so keys are built in C++ (`long_keys.stored_keys`), read with one `map`, and written with one
`putmulti`; only deletions, and keys too long for LMDB, are processed one by one.

It must never hand out memory of the map: all that is returned is copied, so that it outlives the transaction.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from binshift import binary
from binshift.entries import Entries, bins_array, is_sorted, merge_last_wins, order_of, size_bytes
from binshift.invariants import invariant
from binshift.model import Bin, IntArray
from binshift.store.engine import long_keys, room, row_checksums
from binshift.store.engine.contract import KEY_PREFIX_BYTES_MAX, Size, StoreLimits, check_sizes
from binshift.store.engine.ranges import Ranges
from binshift.store.engine.users import Presence

_PAGE_BYTES = 4096


@dataclass(slots=True)
class Opened:
    """An open environment, its two databases, the file it has mapped, and its users in this process and in others.

    LMDB's own types are met in `lmdb` only.
    """

    environment: Any
    rows: Any
    blobs: Any
    file: tuple[int, int] | None
    presence: Presence
    users: int
    stale: bool = False

    def begin_use(self) -> None:
        """One more thread uses it."""
        self.presence.begin_use()
        self.users += 1

    def end_use(self) -> None:
        """One thread less; a stale environment is closed with its last user."""
        self.users -= 1
        if not self.users:
            self.presence.end_use()
            if self.stale:
                self.close()

    def close(self) -> None:
        """Close the environment, and be no user of the store any more."""
        self.environment.close()
        self.presence.close()


class LmdbTransaction:
    """One moment of the rows that LMDB has of an `LmdbStore`; see `contract.Transaction` for what the methods promise."""

    def __init__(self, handle: Any, opened: Opened, limits: StoreLimits, directory: Path, *, writable: bool) -> None:
        self._handle = handle
        self._rows, self._blobs = opened.rows, opened.blobs
        self._limits = limits
        self._directory = directory
        self._writable = writable
        self._ranges = Ranges(handle, opened.rows, limits.scan_bytes_max)

    def get_many(self, bins: IntArray, keys: pa.BinaryArray) -> pa.BinaryArray:
        """The value of each (bin, key), null where there is none; read in the order of the B-tree, whose pages are then met once."""
        order = order_of(bins, keys)
        if order is not None:
            places = np.empty(len(keys), dtype=np.int64)
            places[order] = np.arange(len(keys))
            return self.get_many(bins[order], keys.take(order)).take(pa.array(places))
        column, stored, long = long_keys.stored_keys(bins, keys)
        cursor = self._handle.cursor(self._rows)
        found = row_checksums.verify(column, binary.of(list(map(cursor.get, stored))))
        if not long:
            return found
        values: list[bytes | None] = found.to_pylist()
        for at in long:
            values[at] = long_keys.read_bucket(values[at]).get(keys[at].as_py())
        return binary.of(values)

    def check(self, entries: Entries) -> None:
        """Raise what is known of `put_many` before it writes."""
        check_sizes(entries, self._limits)
        self._check_disk(entries)

    def put_many(self, entries: Entries) -> None:
        """Write rows; a null value deletes."""
        invariant(self._writable, "a read transaction cannot write")
        if not is_sorted(entries, strictly=True):
            entries = merge_last_wins([entries])
        self.check(entries)
        gone = entries.column(2).null_count
        if gone:
            deleted = entries.column(2).is_null()
            self._delete(entries.filter(deleted))
            entries = entries.filter(pc.invert(deleted))
        column, stored, long = long_keys.stored_keys(bins_array(entries), entries.column(1))
        values = self._with_buckets(entries, stored, long) if long else entries.column(2)
        sealed = row_checksums.add(column, values).to_pylist()
        self._handle.cursor(self._rows).putmulti(zip(stored, sealed, strict=True))

    def _with_buckets(self, entries: Entries, stored: list[bytes], long: list[int]) -> pa.BinaryArray:
        """The values, with a bucket in place of each that is stored in one."""
        values: list[bytes] = entries.column(2).to_pylist()
        for at in long:
            # Keys of one batch that share a bucket: the later ones must find the earlier ones there.
            bucket = {**self._bucket(stored[at]), entries.column(1)[at].as_py(): values[at]}
            values[at] = self._put_bucket(stored[at], bucket)
        return binary.of(values)

    def _bucket(self, stored: bytes) -> dict[bytes, bytes]:
        sealed = binary.of([self._handle.get(stored, db=self._rows)])
        return long_keys.read_bucket(row_checksums.verify(binary.of([stored]), sealed)[0].as_py())

    def _put_bucket(self, stored: bytes, rows: dict[bytes, bytes]) -> bytes:
        bucket = long_keys.write_bucket(rows)
        sealed = row_checksums.add(binary.of([stored]), binary.of([bucket]))
        self._handle.put(stored, sealed[0].as_py(), db=self._rows)
        return bucket

    def _delete(self, entries: Entries) -> None:
        _, stored, long = long_keys.stored_keys(bins_array(entries), entries.column(1))
        for at in long:
            bucket = self._bucket(stored[at])
            if bucket.pop(entries.column(1)[at].as_py(), None) is not None and bucket:
                self._put_bucket(stored[at], bucket)
                stored[at] = b""
            elif bucket:
                stored[at] = b""
        delete, rows = self._handle.delete, self._rows
        for key in stored:
            if key:
                delete(key, db=rows)

    def _check_disk(self, entries: Entries) -> None:
        """A map on a full disk kills the process: leave before. Each row may need a fresh page, at worst."""
        pages = min(entries.num_rows, int(self._handle.stat(self._rows)["leaf_pages"]))
        rows_bytes = size_bytes(entries) + row_checksums.CHECKSUM_BYTES * entries.num_rows
        need = 2 * rows_bytes + pages * _PAGE_BYTES
        room.check_room(self._directory, need, self._limits.disk_free_bytes_min)

    def scan(self, bin: Bin, start: bytes = b"", stop: bytes | None = None) -> Iterator[Entries]:
        """The rows of ``bin`` from ``start`` to before ``stop``, ascending."""
        return self._ranges.scan(bin, start, stop)

    def scan_bins(self, bins: Sequence[Bin], start: bytes = b"", stop: bytes | None = None) -> Iterator[Entries]:
        """The rows of several bins from ``start`` to before ``stop``."""
        return self._ranges.scan_bins(bins, start, stop)

    def first_keys(self, bins: IntArray, space: bytes, length: int) -> list[bytes]:
        """The beginning of each bin's first key in a space."""
        invariant(length <= KEY_PREFIX_BYTES_MAX, f"{length} bytes of a key are more than is stored in order")
        cursor = self._handle.cursor(self._rows)
        start = len(long_keys.bin_prefix(0))
        prefixes = [long_keys.bin_prefix(b) + space for b in bins.tolist()]
        found = [cursor.key() if cursor.set_range(prefix) else b"" for prefix in prefixes]
        return [
            key[start : start + length] if key.startswith(prefix) else b""
            for key, prefix in zip(found, prefixes, strict=True)
        ]

    def size(self) -> Size:
        """Long keys of the same hash count as one row; of the bytes, all pages that hold rows count."""
        found = self._handle.stat(self._rows)
        pages = found["branch_pages"] + found["leaf_pages"] + found["overflow_pages"]
        return Size(int(found["entries"]), int(pages * found["psize"]))

    def drop(self, bin: Bin, rows_max: int) -> bool:
        """Delete at most ``rows_max`` rows of ``bin``; True when none are left."""
        invariant(self._writable, "a read transaction cannot write")
        prefix = long_keys.bin_prefix(bin)
        cursor = self._handle.cursor(self._rows)
        if not cursor.set_range(prefix):
            return True
        for _ in range(rows_max):
            if not cursor.key().startswith(prefix):
                return True
            cursor.delete()
        return not cursor.key().startswith(prefix)

    def clear(self) -> None:
        """Delete all rows."""
        invariant(self._writable, "a read transaction cannot write")
        self._handle.drop(self._rows, delete=False)

    def meta(self, name: str) -> bytes | None:
        """The blob called ``name``."""
        blob: bytes | None = self._handle.get(name.encode(), db=self._blobs)
        return None if blob is None else row_checksums.verify_blob(name, blob)

    def set_meta(self, name: str, value: bytes | None) -> None:
        """Write a blob; None deletes it."""
        invariant(self._writable, "a read transaction cannot write")
        if value is None:
            self._handle.delete(name.encode(), db=self._blobs)
        else:
            room.check_room(self._directory, 2 * len(value), self._limits.disk_free_bytes_min)
            self._handle.put(name.encode(), row_checksums.add_to_blob(name, value), db=self._blobs)
