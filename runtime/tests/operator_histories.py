"""Histories for tests of state operators: random epochs on two workers between which bins move, each epoch run twice.

`TwoWorkers` runs an operator. In each epoch every bin is owned by one of two workers, and another epoch may have another
assignment. Each worker reads only its own bins, gets only their rows, and runs twice, as after a failure; both runs must agree,
and a worker may change only its own bins and delete only rows that exist. `rows_of` and `order_of` make rows comparable.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import strategies as st
from spark_strings import column, texts, values

from binshift.entries import Entries, bin_set, merge_last_wins
from binshift.model import Bin, BinSet, Epoch, IntArray
from binshift.operators.contract import BIN_COLUMN, EpochContext, EpochState, Operator, StateReader
from binshift.rows import RowCodec
from binshift.store.engine.memory_store import MemoryStore
from simulator.flows import bin_of

BINS = 6
KEYS = pa.schema([("k0", pa.string()), ("k1", pa.float64())])
"""The key columns of histories: strings of any bytes, and doubles with NaN and both zeros."""

Row = tuple[Any, ...]
Key = tuple[Any, ...]
"""The values of `KEYS`, in some histories followed by other key columns."""

splits = st.sets(st.integers(0, BINS - 1)).map(BinSet)
"""The bins of the first worker; the second has the others."""
keys: st.SearchStrategy[Key] = st.tuples(
    st.none() | st.sampled_from([b"", b"a", b"b", b"\xff", b"\xed\xa0\x80"]) | texts(2),
    st.none() | st.sampled_from([0.0, -0.0, 1.5, float("nan"), float("-inf")]),
)
"""Keys: few enough that they repeat."""


def canonical(key: Key) -> str:
    """Equal for keys that Spark groups together: -0.0 is 0.0, and NaN is NaN."""
    return repr(tuple(value + 0.0 if isinstance(value, float) else value for value in key))


def bin_of_key(key: Key) -> Bin:
    """The bin of a key."""
    return bin_of((canonical(key[: len(KEYS)]),), BINS)


def key_columns(found: list[Key]) -> list[pa.Array]:
    """The key columns of these keys."""
    return [column(KEYS.field(at).type, [key[at] for key in found]) for at in range(len(KEYS))]


def bin_column(found: list[Key]) -> pa.Array:
    """The bins of these keys."""
    return pa.array([bin_of_key(key) for key in found], pa.int32())


def store_order(key: Key) -> tuple[int, bytes]:
    """The position of a key in the order of the store: by bin, then by packed key."""
    packed = RowCodec(KEYS).pack(pa.RecordBatch.from_arrays(key_columns([key]), schema=KEYS))
    return bin_of_key(key), packed[0].as_py()


def rows_of(batch: pa.RecordBatch) -> list[Row]:
    """Rows with strings as bytes."""
    return list(zip(*map(values, batch.columns), strict=True)) if batch.num_columns else []


def sorted_rows(rows: list[Row]) -> list[str]:
    """The rows in a form in which NaN equals NaN, sorted."""
    return sorted(map(repr, rows))


@dataclass(frozen=True)
class OwnedReader:
    """A reader that refuses the bins of the other worker."""

    reader: StateReader
    owned: BinSet

    def get_many(self, bins: IntArray, keys: pa.BinaryArray) -> pa.BinaryArray:
        """See `StateReader`."""
        assert set(bins.tolist()) <= set(self.owned)
        return self.reader.get_many(bins, keys)

    def first_keys(self, bins: IntArray, space: bytes, length: int) -> list[bytes]:
        """See `StateReader`."""
        assert set(bins.tolist()) <= set(self.owned)
        return self.reader.first_keys(bins, space, length)

    def scan(self, bin: Bin, start: bytes = b"", stop: bytes | None = None) -> Iterator[Entries]:
        """See `StateReader`."""
        assert bin in self.owned
        return self.reader.scan(bin, start, stop)

    def scan_bins(self, bins: Sequence[Bin], start: bytes, stop: bytes) -> Iterator[Entries]:
        """See `StateReader`."""
        assert set(bins) <= set(self.owned)
        return self.reader.scan_bins(bins, start, stop)


class TwoWorkers:
    """Runs consecutive epochs of an operator on two workers.

    Attributes:
        late: rows that the last epoch dropped as late.
        counts: the operator's further figures of that epoch.
    """

    def __init__(self, operator: Operator) -> None:
        self.operator = operator
        self.store = MemoryStore()
        self.epoch = -1
        self.watermark = 0
        self.late = 0
        self.counts: Counter[str] = Counter()

    def run(self, rows: pa.RecordBatch, watermark: int = 0, first: BinSet | None = None, cut: int = 3) -> list[Row]:
        """One epoch: the output rows of the worker that owns the bins ``first`` (default: all), then those of the other."""
        first = BinSet(range(BINS)) if first is None else first
        previous, self.watermark, self.epoch, self.late = self.watermark, watermark, self.epoch + 1, 0
        self.counts.clear()
        output: list[Row] = []
        changes: list[Entries] = []
        with self.store.read() as reader:
            for owned in (first, BinSet(range(BINS)) - first):
                mine = rows.filter(pa.array(np.isin(rows.column(BIN_COLUMN).to_numpy(), owned.array)))
                batches = [mine.slice(at, cut) for at in range(0, mine.num_rows, cut)]
                context = EpochContext(Epoch(self.epoch), 0, watermark, previous, owned)
                once, again = (self._run(batches, OwnedReader(reader, owned), context) for _ in range(2))
                assert once[1:] == again[1:]
                assert repr(once[0]) == repr(again[0])
                assert bin_set(once[1]) - owned == BinSet()
                gone = once[1].filter(once[1].column("value").is_null())
                assert reader.get_many(gone.column("bin").to_numpy(), gone.column("key")).null_count == 0
                output += once[0]
                changes.append(once[1])
                self.late += once[2]
                self.counts.update(once[3])
        with self.store.write(1) as transaction:
            transaction.put_many(merge_last_wins(changes))
        return output

    def _run(
        self, batches: list[pa.RecordBatch], reader: StateReader, context: EpochContext
    ) -> tuple[list[Row], Entries, int, Counter[str]]:
        state = EpochState(reader)
        rows = [row for out in self.operator.run(iter(batches), state, context) for row in self._checked(out)]
        return rows, merge_last_wins(state.changes), state.rows_late, state.counts

    def _checked(self, batch: pa.RecordBatch) -> list[Row]:
        assert batch.schema == self.operator.output_schema
        batch.validate(full=False)
        return rows_of(batch)

    def stored(self) -> list[tuple[int, bytes]]:
        """Bin and key of every row in the store, including the indexes."""
        with self.store.read() as reader:
            parts = [part for b in range(BINS) for part in reader.scan(Bin(b))]
        return [pair for part in parts for pair in zip(*(c.to_pylist() for c in part.columns[:2]), strict=True)]
