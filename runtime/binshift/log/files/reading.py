"""Reads data files (`blocks`): all rows, or those of some bins.

Only the blocks that may hold the wanted bins are fetched, neighbours in one request. What is yielded is to be applied in that
order: a later run wins.

It must never hand out a row that was not verified: every block's checksum is compared every time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager

import pyarrow as pa

from binshift import entries as rows_of
from binshift.entries import ENTRY_SCHEMA, Entries
from binshift.errors import LogDamaged, reading
from binshift.log.files.trailer import Block, Trailer, decode_trailer
from binshift.log.records.commits import FileRef
from binshift.log.records.envelope import digest
from binshift.log.storage import layout
from binshift.log.storage.contract import ByteRange, Storage
from binshift.model import BinSet

READ_BYTES_MAX = 8 * 1024 * 1024
"""Bytes fetched at once; bounds a reader's memory (a single larger block is fetched alone)."""

READ_GAP_BYTES_MAX = 64 * 1024
"""Unwanted bytes between two wanted blocks up to which one request for all is cheaper than two."""

SMALL_FILE_BYTES = 512 * 1024
"""A file up to this size is fetched whole: one request instead of trailer, then blocks."""


def read_bins(storage: Storage, file: FileRef, bins: BinSet) -> Iterator[Entries]:
    """The rows of ``bins``, deletions included, in the order in which they are to be applied.

    Raises:
        LogFileMissing: the file is gone.
        LogDamaged: it is not what was recorded.
        StorageUnavailable: the store did not answer.
    """
    with _reading(file):
        content = _content(storage, file)
    return _restricted(_holding(storage, file, bins, content), bins)


def read_parts(storage: Storage, parts: Sequence[tuple[FileRef, BinSet]]) -> Iterator[Iterator[Entries]]:
    """Of each part what `read_bins` gives, to be taken before the next one's."""
    for (_, bins), blocks in zip(parts, read_blocks(storage, parts), strict=True):
        yield _restricted(blocks, bins)


def read_blocks(storage: Storage, parts: Sequence[tuple[FileRef, BinSet]]) -> Iterator[Iterator[Entries]]:
    """As `read_parts`, but a block that has some of the bins comes whole; small files are fetched several at a time.

    A bin that comes back has a delta of each worker and epoch to read, most of them small: on S3 waiting for them one
    by one would be most of the time.
    """
    small = storage.get_all([file.name for file, _ in parts if file.bytes <= SMALL_FILE_BYTES])
    for file, bins in parts:
        with _reading(file):
            content = next(small) if file.bytes <= SMALL_FILE_BYTES else None
        yield _holding(storage, file, bins, content)


def read_all(storage: Storage, file: FileRef) -> Iterator[Entries]:
    """All rows of the file; otherwise as `read_bins`. Reading to the end verifies every byte."""
    with _reading(file):
        content = _content(storage, file)
        yield from _decoded(storage, file, list(_trailer(storage, file, content).blocks), content)


def _holding(storage: Storage, file: FileRef, bins: BinSet, content: bytes | None) -> Iterator[Entries]:
    """The blocks that have some of ``bins``."""
    with _reading(file):
        yield from _decoded(storage, file, _trailer(storage, file, content).holding(bins), content)


def _decoded(storage: Storage, file: FileRef, blocks: list[Block], content: bytes | None) -> Iterator[Entries]:
    for group in _fetch_groups(blocks):
        for block, data in zip(group, _fetch(storage, file, group, content), strict=True):
            yield _decode(file, block, data)


def _restricted(blocks: Iterator[Entries], bins: BinSet) -> Iterator[Entries]:
    return (rows for block in blocks if (rows := rows_of.restrict(block, bins)).num_rows)


def _reading(file: FileRef) -> AbstractContextManager[None]:
    named = layout.parse(file.name)
    return reading(file.name, operator=named.operator, epoch=named.number) if named else reading(file.name)


def _content(storage: Storage, file: FileRef) -> bytes | None:
    """The whole of a small file."""
    return storage.get(file.name) if file.bytes <= SMALL_FILE_BYTES else None


def _trailer(storage: Storage, file: FileRef, content: bytes | None) -> Trailer:
    if content is None:
        (tail,) = storage.get_ranges(file.name, [(file.bytes - file.trailer, file.bytes)])
    elif len(content) != file.bytes:
        raise LogDamaged(f"{file.name} has {len(content)} bytes; {file.bytes} are recorded")
    else:
        tail = content[file.bytes - file.trailer :]
    return decode_trailer(file.name, tail, file.checksum, file.bytes)


def _fetch_groups(blocks: list[Block]) -> Iterator[list[Block]]:
    """The blocks in groups of at most `READ_BYTES_MAX`, or of one block."""
    group: list[Block] = []
    for block in blocks:
        if group and block.end - group[0].start > READ_BYTES_MAX:
            yield group
            group = []
        group.append(block)
    if group:
        yield group


def _fetch(storage: Storage, file: FileRef, blocks: list[Block], content: bytes | None) -> Iterator[memoryview]:
    if content is not None:
        yield from (memoryview(content)[block.start : block.end] for block in blocks)
        return
    ranges: list[ByteRange] = []
    for block in blocks:
        if ranges and block.start - ranges[-1][1] <= READ_GAP_BYTES_MAX:
            ranges[-1] = (ranges[-1][0], block.end)
        else:
            ranges.append((block.start, block.end))
    parts = storage.get_ranges(file.name, ranges)
    held = iter(zip(ranges, parts, strict=True))
    (start, end), part = next(held)
    for block in blocks:
        if block.start >= end:
            (start, end), part = next(held)
        yield memoryview(part)[block.start - start : block.end - start]


def _decode(file: FileRef, block: Block, data: memoryview) -> Entries:
    if digest(data) != block.checksum:
        raise LogDamaged(f"{file.name} is damaged in its bytes {block.start} to {block.end - 1}")
    try:
        rows = pa.ipc.read_record_batch(pa.py_buffer(data), ENTRY_SCHEMA)
    except (pa.ArrowInvalid, OSError) as error:
        raise LogDamaged(f"{file.name} has no rows in its bytes {block.start} to {block.end - 1}: {error}") from error
    if rows.num_rows != block.rows:
        raise LogDamaged(f"{file.name} has {rows.num_rows} rows in a block that should have {block.rows}")
    return rows
