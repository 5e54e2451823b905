"""Data files: rows of state sorted by (bin, key), in blocks, so that some bins can be read without the others.

Deltas and snapshots are such files. Writing is push-style and streamed: an epoch adds its rows as they come, in any
number of sorted runs, and no more than a block or two is held. Blocks are cut between bins where possible; a bin
larger than a block takes several. `reading` is the other direction.

It must never leave a file under its name before it is complete.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from types import TracebackType

import numpy as np

from binshift import entries as rows_of
from binshift.entries import Entries
from binshift.invariants import invariant
from binshift.log.files.trailer import Block, encode_trailer
from binshift.log.records import binsets
from binshift.log.records.commits import FileRef
from binshift.log.records.envelope import digest
from binshift.log.storage.contract import ByteRange, Storage, Upload
from binshift.model import BinSet

BLOCK_BYTES = 256 * 1024
"""Aim for a block's rows: one request's worth; of 4,096 bins and a 4 MiB delta it holds 256."""


class FileWriter:
    """Writes one data file; use as a context manager, so that an error leaves nothing behind.

    >>> # with FileWriter(storage, name) as file:
    >>> #     file.add(entries)
    >>> #     ref = file.finish()
    """

    def __init__(self, storage: Storage, name: str, *, block_bytes: int = BLOCK_BYTES) -> None:
        self._storage, self._name, self._block_bytes = storage, name, block_bytes
        self._upload: Upload | None = None
        self._blocks: list[Block] = []
        self._bins: list[BinSet] = []
        self._pending: list[Entries] = []
        self._pending_bytes = 0
        self._run = 0
        self._last: tuple[int, bytes] | None = None

    def add(self, entries: Entries) -> None:
        """Append rows sorted strictly by (bin, key). Rows that do not continue the ones before begin a new run.

        Raises:
            InvariantViolated: they are not sorted, or have a key twice.
            StorageUnavailable: a finished block could not be written.
        """
        if not entries.num_rows:
            return
        invariant(rows_of.is_sorted(entries, strictly=True), f"rows for {self._name} are not sorted by (bin, key)")
        if self._last is not None and _key_at(entries, 0) <= self._last:
            self._flush(rest=True)
            self._run += 1
        self._last = _key_at(entries, entries.num_rows - 1)
        self._pending.append(entries)
        self._pending_bytes += rows_of.size_bytes(entries)
        if self._pending_bytes >= 2 * self._block_bytes:
            self._flush(rest=False)

    def finish(self) -> FileRef | None:
        """Make the file durable and visible; None, and no file, if there was no row."""
        self._flush(rest=True)
        if self._upload is None:
            return None
        tail = encode_trailer(self._blocks)
        self._upload.write(tail)
        self._upload.finish()
        return FileRef(
            name=self._name,
            bytes=self._blocks[-1].end + len(tail),
            rows=sum(block.rows for block in self._blocks),
            trailer=len(tail),
            checksum=digest(tail),
            packed_bins=binsets.pack(BinSet(np.concatenate([bins.array for bins in self._bins]))),
        )

    def __enter__(self) -> FileWriter:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._upload is not None:
            self._upload.abort()

    def _flush(self, *, rest: bool) -> None:
        """Write the pending rows as blocks; all of them, or all but what may still share a block with later ones."""
        if not self._pending:
            return
        pending = rows_of.concat(self._pending)
        cuts = list(_cuts(pending, self._block_bytes))
        kept = 0 if rest else 1
        for start, end in cuts[: len(cuts) - kept]:
            self._write(pending.slice(start, end - start))
        start, end = cuts[-1]
        self._pending = [pending.slice(start, end - start)][:kept]
        self._pending_bytes = sum(rows_of.size_bytes(each) for each in self._pending)

    def _write(self, rows: Entries) -> None:
        if self._upload is None:
            self._upload = self._storage.upload(self._name)
        data = rows.serialize()
        bins = rows_of.bin_set(rows)
        start = self._blocks[-1].end if self._blocks else 0
        first, last = int(bins.array[0]), int(bins.array[-1])
        self._blocks.append(Block(start, data.size, rows.num_rows, first, last, self._run, digest(data)))
        self._bins.append(bins)
        self._upload.write(data)


def write_file(storage: Storage, name: str, batches: Iterable[Entries]) -> FileRef | None:
    """Write ``batches``, each sorted, as one file; None, and no file, if they have no rows. Errors as `FileWriter`."""
    with FileWriter(storage, name) as file:
        for batch in batches:
            file.add(batch)
        return file.finish()


def _key_at(entries: Entries, row: int) -> tuple[int, bytes]:
    return entries.column(0)[row].as_py(), entries.column(1)[row].as_py()


def _cuts(entries: Entries, bytes_max: int) -> Iterator[ByteRange]:
    """Row ranges of at most ``bytes_max`` each, ending with a bin's last row if the bin began after the range did."""
    ends = np.cumsum(rows_of.row_bytes(entries))
    bin_starts = np.flatnonzero(np.diff(rows_of.bins_array(entries))) + 1
    start, rows = 0, entries.num_rows
    while start < rows:
        done = int(ends[start - 1]) if start else 0
        stop = max(int(np.searchsorted(ends, done + bytes_max, side="right")), start + 1)
        if stop < rows:
            at = int(np.searchsorted(bin_starts, stop, side="right")) - 1
            if at >= 0 and bin_starts[at] > start:
                stop = int(bin_starts[at])
        yield start, min(stop, rows)
        start = stop
