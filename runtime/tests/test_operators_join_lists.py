"""The state of `Join`: what an epoch reads and writes, long lists, and the rules that a history does not show by itself."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pytest
from join_fold import SIDES, JoinFold, Sent, join, sent
from operator_histories import BINS, KEYS, Key, TwoWorkers, rows_of, sorted_rows

from binshift.entries import Entries, merge_last_wins
from binshift.errors import LogDamaged, Unsupported
from binshift.invariants import InvariantViolated
from binshift.model import Bin, BinSet, Epoch, IntArray
from binshift.operators.contract import EXPIRY_SPACE, STATE_SPACE, EpochContext, EpochState, StateReader
from binshift.operators.join import Comparison, Join, JoinType
from binshift.operators.join_chunks import CHUNK_BYTES_MAX, CHUNK_ROWS_MAX, decode

HOT: Key = (b"hot", 1.0)
LEFT, RIGHT = 0, 1


def row(side: int, number: int, expiry: int | None = None, key: Key = HOT, text: bytes = b"") -> Sent:
    """A row with a number, by which rows can be compared."""
    return Sent(side, key, None, expiry, True, (number, [text] if side else text, float(number), None))


@dataclass
class Counting:
    """A reader that counts."""

    reader: StateReader
    values: int = 0
    scanned: int = 0

    def get_many(self, bins: IntArray, keys: pa.BinaryArray) -> pa.BinaryArray:
        """See `StateReader`."""
        found = self.reader.get_many(bins, keys)
        self.values += len(found)
        return found

    def first_keys(self, bins: IntArray, space: bytes, length: int) -> list[bytes]:
        """See `StateReader`."""
        return self.reader.first_keys(bins, space, length)

    def scan(self, bin: Bin, start: bytes = b"", stop: bytes | None = None) -> Iterator[Entries]:
        """See `StateReader`."""
        for part in self.reader.scan(bin, start, stop):
            self.scanned += part.num_rows
            yield part

    def scan_bins(self, bins: Sequence[Bin], start: bytes, stop: bytes) -> Iterator[Entries]:
        """See `StateReader`."""
        for bin in bins:
            yield from self.scan(bin, start, stop)


def counted(workers: TwoWorkers, rows: Sequence[Sent], watermark: int = 0) -> tuple[Counting, Entries]:
    """What an epoch would read and change; it is not committed."""
    with workers.store.read() as reader:
        counting = Counting(reader)
        state = EpochState(counting)
        context = EpochContext(Epoch(99), 0, watermark, workers.watermark, BinSet(range(BINS)))
        for _ in workers.operator.run(iter([sent(rows)]), state, context):
            pass
    return counting, merge_last_wins(state.changes)


def chunks(workers: TwoWorkers) -> int:
    """How many chunks are stored."""
    return sum(key.startswith(STATE_SPACE) for _, key in workers.stored())


@pytest.mark.parametrize("type", JoinType)
def test_a_hot_key(type: JoinType) -> None:
    """A thousand rows of one key: some are kept forever between others that leave, and the list grows again."""
    operator = join(type, [Comparison("l2", "<", "r2")])
    workers, fold = TwoWorkers(operator), JoinFold(operator)
    lefts = [row(LEFT, at, None if at % 200 < 66 else 10 + at // 10) for at in range(1000)]
    history: list[tuple[list[Sent], int]] = [
        (lefts[:700], 0),
        ([row(RIGHT, 40), *lefts[700:]], 0),
        ([row(RIGHT, at, 60) for at in (300, 650)], 40),
        ([], 60),
        ([row(LEFT, 2000 + at, 200 + at) for at in range(150)], 61),
        ([row(RIGHT, 2100, 500), row(LEFT, 2050, 62)], 62),
        ([], 250),
        ([row(RIGHT, 5000, 300)], 1000),
        ([row(LEFT, 7, 2000)], 1001),
    ]
    for rows, watermark in history:
        output = workers.run(sent(rows), watermark, cut=10_000)
        assert sorted_rows(output) == sorted_rows(fold.epoch(rows, watermark))
    workers.run(sent([]), 3000)
    assert (chunks(workers) > 1) == any(each.sent.side == LEFT for each in fold.held)


def test_a_list_is_stored_in_chunks() -> None:
    """A chunk has a bounded number of rows, and of bytes unless a single row is larger; each has an entry in the index."""
    workers = TwoWorkers(join(JoinType.INNER))
    workers.run(sent([row(LEFT, at, 100) for at in range(10 * CHUNK_ROWS_MAX)]), cut=10_000)
    assert len(workers.stored()) == 20
    workers = TwoWorkers(join(JoinType.INNER))
    large = b"x" * (CHUNK_BYTES_MAX // 2)
    workers.run(sent([row(LEFT, at, text=large) for at in range(10)]))
    assert len(workers.stored()) == 5


def test_appending_rewrites_the_head_only() -> None:
    """However long the list is, a row without partners costs two reads and the change of one chunk."""
    workers = TwoWorkers(join(JoinType.INNER))
    workers.run(sent([row(LEFT, at, 100) for at in range(1010)]), cut=10_000)
    counting, changes = counted(workers, [row(LEFT, 5000, 100)])
    assert (counting.values, counting.scanned, changes.num_rows) == (2, 0, 1)


def test_partners_are_not_rewritten() -> None:
    """In an inner join a row with a thousand partners changes its own list; in an outer one also the chunks that it matches."""
    for type, changed in ((JoinType.INNER, 1), (JoinType.LEFT_OUTER, 2)):
        workers = TwoWorkers(join(type, [Comparison("l2", "==", "r2")]))
        workers.run(sent([row(LEFT, at) for at in range(1000)]), cut=10_000)
        counting, changes = counted(workers, [row(RIGHT, 500)])
        assert (counting.values, changes.num_rows) == (2 + 1000 // CHUNK_ROWS_MAX, changed)


@pytest.mark.parametrize("type", [JoinType.INNER, JoinType.LEFT_OUTER])
def test_eviction_reads_what_it_evicts(type: JoinType) -> None:
    """One key of a hundred ends: its chunks are read, and nothing else, neither rows nor the index."""
    workers = TwoWorkers(join(type))
    lefts = [row(LEFT, at, 1000 + number, (b"%d" % number, 0.0)) for number in range(100) for at in range(3)]
    workers.run(sent([*lefts, *[row(LEFT, at, 50) for at in range(200)]]), cut=10_000)
    counting, changes = counted(workers, [], 49)
    assert (counting.values, counting.scanned, changes.num_rows) == (0, 0, 0)
    counting, changes = counted(workers, [], 50)
    assert (counting.values, counting.scanned, changes.num_rows) == (4, 4, 8)
    assert changes.column("value").null_count == 8


def test_a_row_comes_out_in_the_epoch_that_ends_it() -> None:
    """Unmatched rows of one chunk come out one by one, without a change of the chunk; matched ones do not."""
    workers = TwoWorkers(join(JoinType.LEFT_OUTER, [Comparison("l2", "==", "r2")]))
    workers.run(sent([row(LEFT, at, 10 + at) for at in range(5)] + [row(RIGHT, 3, 0)]))
    for watermark, number in ((10, 0), (11, 1), (12, 2)):
        _, changes = counted(workers, [], watermark)
        assert {key[:1] for key in changes.column("key").to_pylist()} == {EXPIRY_SPACE}
        assert [found[0] for found in workers.run(sent([]), watermark)] == [number]
    assert workers.run(sent([]), 13) == []
    assert [found[0] for found in workers.run(sent([]), 14)] == [4]
    assert workers.stored() == []


def test_an_expired_row_has_no_partners() -> None:
    """It is still in a chunk that lasts, whose latest row has not expired."""
    workers = TwoWorkers(join(JoinType.INNER))
    workers.run(sent([row(LEFT, 1, 10), row(LEFT, 2, 100)]))
    workers.run(sent([]), 10)
    assert [found[0] for found in workers.run(sent([row(RIGHT, 7, 11)]), 11)] == [2]
    assert [found[0] for found in workers.run(sent([row(RIGHT, 8, 5)]), 100)] == [2]
    assert workers.stored() == []


def test_output_is_ordered_and_bounded() -> None:
    """Pairs come by left row and right row, stored ones first, in batches of bounded size."""
    operator = join(JoinType.INNER, batch_rows_max=7)
    workers = TwoWorkers(operator)
    workers.run(sent([row(LEFT, at) for at in range(3)]))
    workers.run(sent([row(RIGHT, at) for at in range(4)]))
    rows = [row(RIGHT, 9), row(LEFT, 8), row(LEFT, 9)]
    with workers.store.read() as reader:
        state = EpochState(reader)
        context = EpochContext(Epoch(2), 0, 0, 0, BinSet(range(BINS)))
        batches = list(operator.run(iter([sent(rows)]), state, context))
    assert [batch.num_rows for batch in batches] == [7, 6]
    pairs = [(found[0], found[3]) for batch in batches for found in rows_of(batch)]
    assert pairs == [(0, 9), (1, 9), (2, 9), *((left, right) for left in (8, 9) for right in (0, 1, 2, 3, 9))]


def test_a_semi_join_keeps_no_matched_rows() -> None:
    """The left row leaves with its first match; right rows stay."""
    workers = TwoWorkers(join(JoinType.LEFT_SEMI))
    workers.run(sent([row(LEFT, 1)]))
    assert len(workers.run(sent([row(RIGHT, 1), row(RIGHT, 2)]))) == 1
    assert len(workers.stored()) == 1
    assert len(workers.run(sent([row(LEFT, 2), row(LEFT, 2)]))) == 2
    assert len(workers.stored()) == 1


def test_output_without_columns_has_rows() -> None:
    """A count needs none."""
    operator = Join(KEYS, *SIDES, JoinType.INNER, (0, 0))
    with TwoWorkers(operator).store.read() as reader:
        context = EpochContext(Epoch(0), 0, 0, 0, BinSet(range(BINS)))
        batches = list(operator.run(iter([sent([row(LEFT, 1), row(RIGHT, 1)])]), EpochState(reader), context))
    assert [batch.num_rows for batch in batches] == [1]


def test_rows_that_are_not_sorted_are_refused() -> None:
    """Otherwise, a key could be read after it has changed."""
    rows = sent([row(LEFT, at, key=(b"%d" % at, 0.0)) for at in range(20)])
    with pytest.raises(InvariantViolated, match="sorted"):
        TwoWorkers(join(JoinType.INNER)).run(rows.take(pa.array(range(19, -1, -1))))


@pytest.mark.parametrize("comparison", [Comparison("l0", "<", "r2"), Comparison("l0", "=", "r0")])
def test_a_comparison_that_does_not_exist_is_refused(comparison: Comparison) -> None:
    """Columns of different types, and an unknown operator."""
    with pytest.raises(Unsupported, match="cannot compare"):
        join(JoinType.INNER, [comparison])


def test_more_output_columns_than_columns_are_refused() -> None:
    """The caller has miscounted."""
    with pytest.raises(InvariantViolated, match="output columns"):
        replace(join(JoinType.INNER), outputs=(5, 3))


def test_damaged_chunks_are_refused() -> None:
    """Whatever is cut off, bytes of another length are not read as rows."""
    workers = TwoWorkers(join(JoinType.INNER))
    workers.run(sent([row(LEFT, at) for at in range(70)]), cut=100)
    with workers.store.read() as reader:
        values = [
            value for bin in range(BINS) for part in reader.scan(Bin(bin)) for value in part.column("value").to_pylist()
        ]
    assert sum(len(decode(pa.array([value], pa.binary()))[0].chunk) for value in values) == 70
    for value in values:
        for length in np.linspace(0, len(value) - 1, 30).astype(int).tolist():
            with pytest.raises(LogDamaged, match="join"):
                decode(pa.array([value[:length]], pa.binary()))
