"""Ranges of rows in an LMDB store: of one bin, or the same range of many bins.

A batch of Arrow costs some hundred microseconds however few rows it has. Rows of small ranges are therefore converted together.
It must never hand out memory of the map.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

import numpy as np
import pyarrow as pa

from binshift import binary
from binshift.entries import Entries, cut, make
from binshift.invariants import invariant
from binshift.model import Bin
from binshift.store.engine import long_keys, row_checksums
from binshift.store.engine.contract import KEY_PREFIX_BYTES_MAX

_SCAN_ROWS_MIN, _SCAN_ROWS_MAX = 16, 16384
_SCAN_GULP_ROWS_MIN, _SCAN_GULP_ROWS_MAX = 4, 128


class Ranges:
    """Reads ranges within one transaction.

    Args:
        handle: LMDB's transaction.
        rows: LMDB's database of rows.
        bytes_max: a batch has no more bytes, or one row.
    """

    def __init__(self, handle: Any, rows: Any, bytes_max: int) -> None:
        self._handle = handle
        self._rows = rows
        self._bytes_max = bytes_max

    def scan(self, bin: Bin, start: bytes = b"", stop: bytes | None = None) -> Iterator[Entries]:
        """The rows of ``bin`` from ``start`` to before ``stop``, ascending."""
        position = long_keys.bin_prefix(bin) + start[: long_keys.PLAIN_BYTES_MAX]
        step = self._scan_step()
        while True:
            stored = self._stored_rows(position, long_keys.bin_prefix(bin + 1), step)
            keys, values = _opened(stored)
            first = bisect_left(keys, start)
            last = len(keys) if stop is None else bisect_left(keys, stop)
            if first < last:
                bins = np.full(last - first, bin, dtype=np.int32)
                rows = make(bins, binary.of(keys[first:last]), values.slice(first, last - first))
                yield from cut(rows, self._bytes_max)
            if len(stored) < step or last < len(keys):
                return
            position = stored[-1][0] + b"\0"

    def scan_bins(self, bins: Sequence[Bin], start: bytes = b"", stop: bytes | None = None) -> Iterator[Entries]:
        """The rows of several bins from ``start`` to before ``stop``; those of small ones are converted together."""
        invariant(
            max(len(start), len(stop or b"")) <= KEY_PREFIX_BYTES_MAX, "bounds are longer than what is stored in order"
        )
        step, held = self._scan_step(), list[long_keys.Row]()
        for bin in bins:
            prefix = long_keys.bin_prefix(bin)
            end = long_keys.bin_prefix(bin + 1) if stop is None else prefix + stop
            found = self._stored_rows(prefix + start, end, step)
            whole = len(found) < step and not long_keys.any_long([key for key, _ in found])
            if whole:
                held += found
            if not whole or len(held) >= step:
                yield from self._joined(held)
                held = []
            if not whole:
                yield from self.scan(bin, start, stop)
        yield from self._joined(held)

    def _stored_rows(self, position: bytes, end: bytes, rows_max: int) -> list[long_keys.Row]:
        """Stored rows from ``position`` to before ``end``: ``rows_max``, or more to complete a group of long keys."""
        cursor = self._handle.cursor(self._rows)
        if not cursor.set_range(position):
            return []
        found: list[long_keys.Row] = []
        coming = cursor.iternext()
        size = _SCAN_GULP_ROWS_MIN
        # In gulps, so as not to read far behind the end; most ranges have few rows.
        while gulp := list(islice(coming, min(size, rows_max - len(found)))):
            found += gulp
            size = min(2 * size, _SCAN_GULP_ROWS_MAX)
            if gulp[-1][0] >= end:
                found = found[: bisect_left(found, (end, b""))]
                break
        if len(found) == rows_max and long_keys.is_long(found[-1][0]):
            group = long_keys.group(found[-1][0])
            cursor.set_key(found[-1][0])
            while cursor.next() and cursor.key().startswith(group):
                found.append(cursor.item())
        return found

    def _scan_step(self) -> int:
        """How many rows of average size make a batch."""
        found = self._handle.stat(self._rows)
        used = (found["leaf_pages"] + found["overflow_pages"]) * found["psize"]
        fit = int(self._bytes_max * found["entries"] // max(used, 1))
        return min(max(fit, _SCAN_ROWS_MIN), _SCAN_ROWS_MAX)

    def _joined(self, rows: list[long_keys.Row]) -> Iterator[Entries]:
        """Stored rows of several bins, none of which has a long key."""
        if rows:
            stored = [key for key, _ in rows]
            values = row_checksums.verify(binary.of(stored), binary.of([value for _, value in rows]))
            bins = np.frombuffer(b"".join(key[:4] for key in stored), dtype=">i4").astype(np.int32)
            yield from cut(make(bins, binary.of([key[4:] for key in stored]), values), self._bytes_max)


def _opened(rows: list[long_keys.Row]) -> tuple[list[bytes], pa.BinaryArray]:
    """Full keys, ascending, and values of stored rows of one bin. Groups of long keys have to be complete."""
    stored, sealed = [key for key, _ in rows], [value for _, value in rows]
    values = row_checksums.verify(binary.of(stored), binary.of(sealed))
    if not long_keys.any_long(stored):
        return [key[4:] for key in stored], values
    keys, full = long_keys.expand(list(zip(stored, values.to_pylist(), strict=True)))
    return keys, binary.of(full)
