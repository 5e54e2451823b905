"""Data files: any rows in any runs are read back exactly, bin by bin; any damage is noticed; reading is economical."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator, Sequence

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from log_worlds import DictStorage, DictUpload

from binshift import entries
from binshift.errors import ForeignLog, LogDamaged, LogFileMissing
from binshift.invariants import InvariantViolated
from binshift.log.files import blocks, reading, trailer
from binshift.log.files.reading import read_all, read_bins, read_parts
from binshift.log.records.commits import FileRef
from binshift.log.records.envelope import digest
from binshift.model import BinSet

Row = tuple[int, bytes, bytes | None]

ROWS = st.lists(
    st.tuples(st.integers(0, 40), st.binary(max_size=4), st.none() | st.binary(max_size=60)),
    unique_by=lambda row: row[:2],
    max_size=60,
)


def read_trailer(storage: DictStorage, file: FileRef) -> trailer.Trailer:
    """Where the file's blocks are."""
    (tail,) = storage.get_ranges(file.name, [(file.bytes - file.trailer, file.bytes)])
    return trailer.decode_trailer(file.name, tail, file.checksum, file.bytes)


def batch(rows: Sequence[Row]) -> entries.Entries:
    """Sorted rows."""
    ordered = sorted(rows, key=lambda row: row[:2])
    return entries.make([b for b, _, _ in ordered], [k for _, k, _ in ordered], [v for _, _, v in ordered])


def rows_of(batches: Sequence[entries.Entries]) -> list[Row]:
    """The rows, in order."""
    return [row for each in batches for row in zip(*each.to_pydict().values(), strict=True)]


def write(storage: DictStorage, batches: Sequence[entries.Entries], block_bytes: int) -> FileRef | None:
    """A file with small blocks."""
    with blocks.FileWriter(storage, "deltas/x", block_bytes=block_bytes) as file:
        for each in batches:
            file.add(each)
        return file.finish()


@given(
    parts=st.lists(ROWS, max_size=5),
    block_bytes=st.sampled_from([1, 50, 300, 10_000]),
    small=st.booleans(),
    wanted=st.sets(st.integers(0, 45)),
)
def test_rows_come_back_by_bin(parts: list[list[Row]], block_bytes: int, small: bool, wanted: set[int]) -> None:
    """Any bins' rows are read in the order in which they were written, for any runs and blocks; the last value of a key counts."""
    storage = DictStorage()
    file = write(storage, [batch(rows) for rows in parts], block_bytes)
    written = [row for rows in parts for row in rows_of([batch(rows)])]
    if file is None:
        assert not written
        assert not storage.files
        return
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reading, "SMALL_FILE_BYTES", 10**6 if small else 0)
        patch.setattr(reading, "READ_BYTES_MAX", 2000)
        patch.setattr(reading, "READ_GAP_BYTES_MAX", 600)
        assert rows_of(list(read_all(storage, file))) == written
        found = rows_of(list(read_bins(storage, file, BinSet(wanted))))
    assert found == [row for row in written if row[0] in wanted]
    assert file.rows == len(written)
    assert file.bytes == len(storage.files["deltas/x"])
    assert set(file.bins) == {row[0] for row in written}


def big_file(storage: DictStorage, rows: int = 60_000) -> tuple[FileRef, entries.Entries]:
    """A file of a few megabytes with 4,096 bins."""
    rng = np.random.default_rng(5)
    bins = np.sort(rng.integers(0, 4096, rows)).astype(np.int32)
    keys = [b"\0" + i.to_bytes(8, "big") for i in range(rows)]
    values = [bytes(16)] * rows
    made = entries.make(bins, keys, values)
    file = blocks.write_file(storage, "deltas/big", [made])
    assert file is not None
    return file, made


@given(
    files=st.lists(ROWS, max_size=6),
    small_bytes=st.sampled_from([0, 700, 10_000]),
    wanted=st.lists(st.sets(st.integers(0, 45)), min_size=6, max_size=6),
)
def test_several_files_are_read_as_one_after_the_other(
    files: list[list[Row]], small_bytes: int, wanted: list[set[int]]
) -> None:
    """This holds whichever files are small, and whichever bins are read from each."""
    storage = DictStorage()
    parts = []
    for number, (rows, bins) in enumerate(zip(files, wanted, strict=False)):
        if file := blocks.write_file(storage, f"deltas/{number}", [batch(rows)]):
            parts.append((file, BinSet(sorted(bins))))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reading, "SMALL_FILE_BYTES", small_bytes)
        together = [rows_of(list(part)) for part in read_parts(storage, parts)]
        assert together == [rows_of(list(read_bins(storage, *part))) for part in parts]


def test_one_bin_is_read_without_the_rest() -> None:
    """In a large file, one bin costs its trailer and one block; all bins cost few requests."""
    storage = DictStorage()
    file, made = big_file(storage)
    storage.read.clear()
    found = list(read_bins(storage, file, BinSet([77])))
    assert rows_of(found) == rows_of([entries.restrict(made, BinSet([77]))])
    assert len(storage.read) == 2
    assert sum(end - start for _, (start, end) in storage.read) < file.trailer + 2 * blocks.BLOCK_BYTES
    storage.read.clear()
    assert sum(each.num_rows for each in read_all(storage, file)) == made.num_rows
    assert len(storage.read) == 2
    storage.read.clear()
    list(read_bins(storage, file, BinSet([3, 4000])))
    assert sum(end - start for _, (start, end) in storage.read) < file.bytes / 2


def test_blocks_end_with_a_bin_where_they_can() -> None:
    """Small bins are never split; only a bin larger than a block is."""
    storage = DictStorage()
    rows: list[Row] = [(b, b"%04d" % k, b"v" * 50) for b in range(30) for k in range(100 if b == 7 else 5)]
    file = write(storage, [batch(rows)], 1500)
    assert file is not None
    found = read_trailer(storage, file).blocks
    split = [b.bin_last for a, b in itertools.pairwise(found) if a.bin_last == b.bin_first]
    assert set(split) == {7}
    assert all(block.bytes < 3 * 1500 for block in found)


def test_writing_is_streamed_and_blocks_are_filled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows that are added in small batches are written continuously, in blocks of full size, and not kept in memory."""
    storage = DictStorage()
    parts: list[int] = []
    real = DictUpload.write

    def write(self: DictUpload, data: bytes) -> None:
        parts.append(len(bytes(data)))
        real(self, data)

    monkeypatch.setattr(DictUpload, "write", write)
    with blocks.FileWriter(storage, "deltas/x", block_bytes=4000) as file:
        for b in range(400):
            file.add(batch([(b, b"k", b"v" * 90)]))
            assert file._pending_bytes <= 2 * 4000
        assert len(parts) > 5
        ref = file.finish()
    assert ref is not None
    sizes = [block.rows for block in read_trailer(storage, ref).blocks]
    assert min(sizes[:-1]) > 35
    assert {block.run for block in read_trailer(storage, ref).blocks} == {0}


def test_an_unsorted_batch_is_our_mistake() -> None:
    """Rows out of order, or a key twice in one batch, are rejected before they are written."""
    storage = DictStorage()
    for rows in ([(2, b"a", b""), (1, b"a", b"")], [(1, b"b", b""), (1, b"a", b"")], [(1, b"a", b""), (1, b"a", b"")]):
        made = entries.make([b for b, _, _ in rows], [k for _, k, _ in rows], [v for _, _, v in rows])
        with blocks.FileWriter(storage, "deltas/x") as file, pytest.raises(InvariantViolated, match="not sorted"):
            file.add(made)
    assert not storage.files


def test_an_error_leaves_no_file() -> None:
    """A writer that ends with an exception makes nothing visible."""
    storage = DictStorage()

    def failing() -> Iterator[entries.Entries]:
        yield batch([(b, b"a", b"v" * blocks.BLOCK_BYTES) for b in range(4)])
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        blocks.write_file(storage, "deltas/x", failing())
    assert not storage.files


@pytest.mark.parametrize("whole", [True, False])
def test_every_altered_byte_is_noticed(whole: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """A flipped bit anywhere, any truncation and any appended byte is reported as damage of this file."""
    monkeypatch.setattr(reading, "SMALL_FILE_BYTES", 10**6 if whole else 0)
    storage = DictStorage()
    rows: list[Row] = [(b, b"key", b"value") for b in range(4)]
    file = write(storage, [batch(rows)], 40)
    assert file is not None
    good = storage.files["deltas/x"]
    rng = random.Random(11)
    damaged = [good[:at] + bytes([good[at] ^ (1 << rng.randrange(8))]) + good[at + 1 :] for at in range(len(good))]
    damaged += [good[:-1], good[: len(good) // 2], b""]
    damaged += [good + b"\0"] if whole else []  # where only ranges are read, nothing beyond the end is used
    for data in damaged:
        storage.files["deltas/x"] = data
        with pytest.raises(LogDamaged, match="deltas/x"):
            list(read_all(storage, file))
    storage.files["deltas/x"] = good
    assert rows_of(list(read_all(storage, file))) == rows_of([batch(rows)])


def test_a_missing_or_exchanged_file_is_noticed() -> None:
    """A missing file, or another one of the same form in its place, is not treated as the recorded one."""
    storage = DictStorage()
    file = write(storage, [batch([(1, b"a", b"one")])], 100)
    assert file is not None
    write(storage, [batch([(1, b"a", b"two")])], 100)
    with pytest.raises(LogDamaged, match="deltas/x is damaged"):
        list(read_all(storage, file))
    storage.delete(["deltas/x"])
    with pytest.raises(LogFileMissing, match="deltas/x"):
        list(read_bins(storage, file, BinSet([1])))


def _with_tail(data: bytes, file: FileRef, body: bytes) -> tuple[bytes, FileRef]:
    tail = body + len(body).to_bytes(4, "little") + trailer.MAGIC
    changed = data[: file.bytes - file.trailer] + tail
    ref = msgspec.structs.replace(file, bytes=len(changed), trailer=len(tail), checksum=digest(tail))
    return changed, ref


def test_a_trailer_is_believed_only_if_it_fits() -> None:
    """Even with correct checksums, another version, nonsense, or blocks that do not fill the file are rejected."""
    storage = DictStorage()
    file = write(storage, [batch([(1, b"a", b"one"), (2, b"b", b"two")])], 1)
    assert file is not None
    good = storage.files["deltas/x"]
    listed = read_trailer(storage, file).blocks
    cases: list[tuple[bytes, type[Exception], str]] = [
        (msgspec.msgpack.encode({"format": 5, "blocks": []}), ForeignLog, "format 5"),
        (b"\xc1", LogDamaged, "damaged trailer"),
        (msgspec.msgpack.encode({"format": 2, "blocks": listed[:1]}), LogDamaged, "do not fill"),
        (msgspec.msgpack.encode({"format": 2, "blocks": listed, "more": 1}), LogDamaged, "damaged trailer"),
    ]
    for body, error, message in cases:
        storage.files["deltas/x"], ref = _with_tail(good, file, body)
        with pytest.raises(error, match=message):
            list(read_all(storage, ref))
    for version in (2, 3, 4):
        body = msgspec.msgpack.encode({"format": version, "blocks": listed})
        storage.files["deltas/x"], ref = _with_tail(good, file, body)
        assert sum(map(len, read_all(storage, ref))) == 2
    wrong = [msgspec.structs.replace(listed[0], rows=9), *listed[1:]]
    body = msgspec.msgpack.encode({"format": 2, "blocks": wrong})
    storage.files["deltas/x"], ref = _with_tail(good, file, body)
    with pytest.raises(LogDamaged, match="9"):
        list(read_all(storage, ref))
