"""What a simulated cluster runs: a keyed stateful operator, and the work of the JVM on its rows.

A *flow* describes one operator three times: as the real `Operator` that tasks run, as F (rows to bins, removal of late rows,
partial aggregates, order), and, through its plain fields, to the `Reference`. Rows are dictionaries from column to
value. F is plain Python here, in place of generated code; everything after it is binshift's own.

It must never share a shortcut with the reference: the operator produces the state's bytes on one side, and the reference's
dictionaries produce them on the other.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np
import pyarrow as pa

from binshift.model import Bin
from binshift.operators.aggregate import Aggregate, OutputMode
from binshift.operators.contract import BIN_COLUMN, EXPIRY_SPACE, RECORDS_COLUMN, STATE_SPACE, Operator
from binshift.operators.expiry import EXPIRY_COLUMN, expiry_bytes
from binshift.operators.merge import Merge, MergeSpec
from binshift.rows import RowCodec

Row = Mapping[str, Any]
"""One row: column to value."""

Key = tuple[Any, ...]
"""The values of the grouping columns."""

State = Mapping[Key, Row]
"""Each key's state, in plain values."""

Packed = dict[int, dict[bytes, bytes]]
"""State as it is in stores and log: bin to key to value."""


class Flow(Protocol):
    """One stateful operator of a simulated query."""

    @property
    def name(self) -> str:
        """The name in files and errors."""

    @property
    def delay_ms(self) -> int | None:
        """How far the watermark is behind the latest event of all input; None without a watermark."""

    @property
    def time(self) -> str:
        """The column with the event time."""

    @property
    def holds_back_ms(self) -> int:
        """How much older than the watermark its output can be."""

    @property
    def operator(self) -> Operator:
        """The operator that tasks run."""

    def arranged(self, inputs: Sequence[Sequence[Row]], bins: int) -> pa.RecordBatch:
        """F: an epoch's rows of each input as S takes them, with their bins, in S's order."""

    def packed(self, state: State, bins: int) -> Packed | None:
        """The bytes that a state has in stores and log; None if they depend on more than the state."""


def bin_of(key: Key, bins: int) -> Bin:
    """The bin of a key: a hash that is the same in every process.

    >>> bin_of(("a", 3), 16) == bin_of(("a", 3), 16) < 16
    True
    """
    return Bin(int.from_bytes(hashlib.blake2b(repr(key).encode(), digest_size=8).digest(), "big") % bins)


@dataclass(frozen=True)
class Totals:
    """Rows, sum, minimum and maximum of a column, for each key, or for each key and window of event time.

    Attributes:
        name: see `Flow`.
        key: the grouping column, text.
        value: the summed column, whole numbers; null is skipped.
        time: the event-time column, milliseconds; used with a window.
        window_ms: length of the windows; None to group by key alone.
        delay_ms: see `Flow`; requires a window.
        where: the rows that reach the operator; dropped rows still move the watermark. None means all.
        mode: emit changed groups in every epoch, closed ones once, or all in every epoch.
    """

    name: str = "totals"
    key: str = "key"
    value: str = "value"
    time: str = "time"
    window_ms: int | None = None
    delay_ms: int | None = None
    where: Callable[[Row], bool] | None = None
    mode: OutputMode = OutputMode.UPDATE
    holds_back_ms: ClassVar[int] = 0

    @property
    def key_schema(self) -> pa.Schema:
        """The grouping columns."""
        window = [] if self.window_ms is None else [("window", pa.int64())]
        return pa.schema([(self.key, pa.string()), *window])

    @property
    def buffer_schema(self) -> pa.Schema:
        """The state's columns, which are also the output's."""
        return pa.schema([(name, pa.int64()) for name in ("rows", "sum", "least", "greatest")])

    @property
    def expires(self) -> bool:
        """Whether groups expire."""
        return self.window_ms is not None and self.delay_ms is not None and self.mode is not OutputMode.COMPLETE

    @property
    def operator(self) -> Aggregate:
        """The real operator."""
        rules = zip((Merge.COUNT, Merge.SUM, Merge.MIN, Merge.MAX), self.buffer_schema.names, strict=True)
        merges = tuple(MergeSpec(merge, (name,)) for merge, name in rules)
        return Aggregate(self.key_schema, self.buffer_schema, merges, self.mode, self.expires)

    def key_of(self, row: Row) -> Key:
        """The group of a row."""
        if self.window_ms is None:
            return (row[self.key],)
        return row[self.key], row[self.time] // self.window_ms * self.window_ms

    def expiry_of(self, key: Key) -> int:
        """The end of a group in milliseconds: the end of its window."""
        return int(key[1] + self.window_ms)

    def arranged(self, inputs: Sequence[Sequence[Row]], bins: int) -> pa.RecordBatch:
        """One row per group, with partial aggregates."""
        rows = union(inputs)
        groups: dict[Key, list[Row]] = {}
        for row in filter(self.where, rows) if self.where else rows:
            groups.setdefault(self.key_of(row), []).append(row)
        columns: dict[str, Any] = {
            BIN_COLUMN: pa.array([bin_of(key, bins) for key in groups], pa.int32()),
            **columns_of(self.key_schema, groups),
            **self._partials(list(groups.values())),
            RECORDS_COLUMN: pa.array([len(group) for group in groups.values()], pa.int64()),
        }
        if self.expires:
            columns[EXPIRY_COLUMN] = pa.array([self.expiry_of(key) for key in groups], pa.int64())
        return pa.RecordBatch.from_pydict(columns)

    def _partials(self, groups: Sequence[Sequence[Row]]) -> dict[str, pa.Array]:
        values = [[row[self.value] for row in group if row[self.value] is not None] for group in groups]
        partials = (
            [len(group) for group in groups],
            [sum(some) if some else None for some in values],
            [min(some, default=None) for some in values],
            [max(some, default=None) for some in values],
        )
        return {
            name: pa.array(column, pa.int64()) for name, column in zip(self.buffer_schema.names, partials, strict=True)
        }

    def packed(self, state: State, bins: int) -> Packed:
        """State rows, and the expiry index if groups expire."""
        found = packed_rows(state, bins, self.key_schema, self.buffer_schema)
        if self.expires:
            codes = RowCodec(self.key_schema).pack(keys_batch(self.key_schema, state)).to_pylist()
            for key, code in zip(state, codes, strict=True):
                found[bin_of(key, bins)][EXPIRY_SPACE + expiry_bytes(self.expiry_of(key)) + code] = b""
        return found


def union(inputs: Sequence[Sequence[Row]]) -> list[Row]:
    """The rows of all inputs."""
    return [row for rows in inputs for row in rows]


def packed_rows(state: State, bins: int, key_schema: pa.Schema, value_schema: pa.Schema) -> Packed:
    """State rows: packed keys and values."""
    keys = RowCodec(key_schema).pack(keys_batch(key_schema, state)).to_pylist()
    rows = pa.RecordBatch.from_pylist([dict(row) for row in state.values()], schema=value_schema)
    values = RowCodec(value_schema).pack(rows).to_pylist()
    found: Packed = {}
    for key, code, value in zip(state, keys, values, strict=True):
        found.setdefault(bin_of(key, bins), {})[STATE_SPACE + code] = value
    return found


def columns_of(schema: pa.Schema, keys: Mapping[Key, object]) -> dict[str, pa.Array]:
    """The key columns of some keys."""
    return {name: pa.array([key[at] for key in keys], schema.field(name).type) for at, name in enumerate(schema.names)}


def keys_batch(schema: pa.Schema, keys: Mapping[Key, object]) -> pa.RecordBatch:
    """The same as a batch."""
    return pa.RecordBatch.from_pydict(columns_of(schema, keys), schema=schema)


def shares(batch: pa.RecordBatch, owners: np.ndarray, workers: Sequence[int]) -> dict[int, pa.RecordBatch]:
    """The exchange: each worker's rows of an epoch, in order."""
    owner = owners[batch.column(BIN_COLUMN).to_numpy()]
    return {worker: batch.filter(pa.array(owner == worker)) for worker in workers}
