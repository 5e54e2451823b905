"""Algebraic aggregation: stored buffers merged with the epoch's partial ones.

The JVM has already aggregated the epoch's rows to one row per key (Spark's own functions and generated code). This module
merges each row's buffers with the stored ones, many rows at a time, and returns the merged buffers to the JVM, where Catalyst
computes the final expressions. Memory is therefore bounded by `GATHERED_BYTES_MAX` or one Arrow batch, plus the changes.

With a watermark, groups have an expiry. A group that expires is removed from the state; in append mode it is emitted only then
(Spark's rule: a group is closed when its expiry is at or before the watermark). Rows of that same epoch still count; later rows
are late.

In complete mode every epoch emits every group, by (bin, key): all of the state is read and sent. Nothing ends, and nothing is
late.

An aggregation without keys has one group, in `KEYLESS_BIN`, that always exists. As in Spark, every epoch emits it, even one
without rows or before the first row, with the aggregates' results over no rows.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from binshift import entries
from binshift.invariants import invariant
from binshift.model import IntArray
from binshift.operators.contract import (
    BIN_COLUMN,
    KEYLESS_BIN,
    STATE_SPACE,
    EpochContext,
    EpochState,
    prefixed,
    without_space,
)
from binshift.operators.current import current
from binshift.operators.expiry import EXPIRY_COLUMN, due, expiry_keys, indexed, on_time, over
from binshift.operators.merge import MergeSpec, merge
from binshift.operators.stored import SINGLE_STORE, Form, StoredRows
from binshift.rows import RowCodec, of_type

GATHERED_BYTES_MAX = 32 << 20
"""Rows of an epoch are merged so many bytes at a time: few large batches are sorted and read from the store faster than many small ones."""


class OutputMode(enum.Enum):
    """The output of an aggregation: changed groups in every epoch, closed groups once, or all groups in every epoch."""

    UPDATE = "update"
    APPEND = "append"
    COMPLETE = "complete"


@dataclass(frozen=True)
class Aggregate:
    """Keyed aggregation.

    Attributes:
        keys: the grouping columns, as F delivers them.
        buffers: the partial aggregates, as F delivers them; also the layout of the stored value.
        merges: how each buffer is merged with the stored one.
        mode: the output mode.
        expires: whether groups expire: the input has `EXPIRY_COLUMN`. Never in complete mode.
        keyless: whether there is only one group, which every epoch emits; ``keys`` is then the constant key alone.
    """

    keys: pa.Schema
    buffers: pa.Schema
    merges: tuple[MergeSpec, ...]
    mode: OutputMode
    expires: bool = False
    keyless: bool = False

    def __post_init__(self) -> None:
        complete = self.mode is OutputMode.COMPLETE
        invariant(not (complete and self.expires), "groups expire in complete mode, which keeps all of them")

    @property
    def output_schema(self) -> pa.Schema:
        """Keys, then merged buffers."""
        return pa.schema([*self.keys, *self.buffers])

    def key_columns(self, rows: pa.RecordBatch) -> Sequence[pa.Array]:
        """See `Keyed`."""
        return [rows.column(name) for name in (() if self.keyless else self.keys.names)]

    def stored(self) -> tuple[StoredRows, ...]:
        """A row for each group."""
        if self.keyless:
            return (StoredRows(SINGLE_STORE, Form.SINGLE, pa.schema([]), self.buffers),)
        return (StoredRows(SINGLE_STORE, Form.PACKED, self.keys, self.buffers),)

    def adopt(self, rows: pa.RecordBatch, state: EpochState) -> None:
        """Store groups without state; ``rows`` is as the input of `run`."""
        bins: IntArray = rows.column(BIN_COLUMN).to_numpy()
        packed = RowCodec(self.keys).pack(keys_of(rows, self.keys))
        values = RowCodec(self.buffers, canonical=False).pack(keys_of(rows, self.buffers))
        state.put(bins, prefixed(STATE_SPACE, packed), values)
        if self.expires:
            self._index_expiry(rows, bins, packed, pa.nulls(len(packed), pa.binary()), state)

    def run(
        self, batches: Iterator[pa.RecordBatch], state: EpochState, context: EpochContext
    ) -> Iterator[pa.RecordBatch]:
        """Merge every batch into the state; emit changed groups (update), expired ones (append) or all (complete)."""
        key_codec, value_codec = RowCodec(self.keys), RowCodec(self.buffers, canonical=False)
        quiet, ended = True, _Ended()
        for rows in _gathered(batches):
            timely = on_time(rows, state, context) if self.expires else rows
            if not timely.num_rows:
                continue
            quiet = False
            batch, packed = self._ordered(timely, key_codec)
            ends = over(batch.column(EXPIRY_COLUMN), context) if self.expires else None
            merged = self._merge(batch, packed, ends, value_codec, state, ended)
            if self.mode is OutputMode.UPDATE:
                yield merged
            elif ends is not None:
                yield merged.filter(ends)
        if self.mode is OutputMode.COMPLETE:
            for found in current(state, context.owned, STATE_SPACE):
                quiet = False
                yield self._emitted(without_space(found.column("key")), found.column("value"), key_codec, value_codec)
        if self.keyless and quiet and KEYLESS_BIN in context.owned:
            yield self._unchanged(state, key_codec, value_codec)
        if self.expires:
            for bins, index_keys in due(state, context):
                yield from self._expire(bins, index_keys, state, key_codec, value_codec, ended)

    def _merge(
        self,
        batch: pa.RecordBatch,
        packed: pa.BinaryArray,
        ends: pa.BooleanArray | None,
        value_codec: RowCodec,
        state: EpochState,
        ended: _Ended,
    ) -> pa.RecordBatch:
        """The output rows of a batch's groups; their new state is stored, except for the ones that this epoch ``ends``."""
        bins: IntArray = batch.column(BIN_COLUMN).to_numpy()
        keys = keys_of(batch, self.keys)
        state_keys = prefixed(STATE_SPACE, packed)
        stored = state.get(bins, state_keys)
        merged = merge(self.merges, value_codec.unpack(stored), batch.select(self.buffers.names))
        output = pa.RecordBatch.from_arrays([*keys.columns, *merged.columns], schema=self.output_schema)
        if ends is not None:
            ended.keys.append(packed.filter(ends))
            left = pc.invert(ends)
            batch, packed, stored, state_keys, merged = (
                each.filter(left) for each in (batch, packed, stored, state_keys, merged)
            )
            bins = bins[left.to_numpy(zero_copy_only=False)]
        state.put(bins, state_keys, value_codec.pack(merged))
        if self.expires:
            self._index_expiry(batch, bins, packed, stored, state)
        return output

    def _ordered(self, batch: pa.RecordBatch, key_codec: RowCodec) -> tuple[pa.RecordBatch, pa.BinaryArray]:
        """The rows, and their packed keys, by bin and key: the order of the store and of deltas, read fastest and not sorted again."""
        packed = key_codec.pack(keys_of(batch, self.keys))
        order = entries.order_of(batch.column(BIN_COLUMN).to_numpy(), packed)
        return (batch, packed) if order is None else (batch.take(order), packed.take(order))

    def _unchanged(self, state: EpochState, key_codec: RowCodec, value_codec: RowCodec) -> pa.RecordBatch:
        """The one group unchanged; before the first row, its aggregates over no rows."""
        key = pa.RecordBatch.from_arrays([pa.array([KEYLESS_BIN], self.keys.types[0])], schema=self.keys)
        stored = state.get(np.array([KEYLESS_BIN], dtype=np.int32), prefixed(STATE_SPACE, key_codec.pack(key)))
        buffers = value_codec.unpack(stored)
        if stored.null_count:
            buffers = merge(self.merges, buffers, buffers)  # every rule merges two nulls to "nothing seen"
        return pa.RecordBatch.from_arrays([*key.columns, *buffers.columns], schema=self.output_schema)

    def _index_expiry(
        self, batch: pa.RecordBatch, bins: IntArray, packed: pa.BinaryArray, stored: pa.BinaryArray, state: EpochState
    ) -> None:
        expiry = batch.column(EXPIRY_COLUMN)
        new = pc.and_(stored.is_null(), expiry.is_valid())
        if not pc.any(new).as_py():
            return
        index_keys = expiry_keys(expiry.filter(new), packed.filter(new))
        nothing = pa.array([b""] * len(index_keys), pa.binary())
        state.put(bins[new.to_numpy(zero_copy_only=False)], index_keys, nothing)

    def _expire(
        self,
        bins: IntArray,
        index_keys: pa.BinaryArray,
        state: EpochState,
        key_codec: RowCodec,
        value_codec: RowCodec,
        ended: _Ended,
    ) -> Iterator[pa.RecordBatch]:
        packed = indexed(index_keys)
        state_keys = prefixed(STATE_SPACE, packed)
        values = state.get(bins, state_keys)
        gone = pa.nulls(len(packed), pa.binary())
        state.put(bins, index_keys, gone)
        state.put(bins, state_keys, gone)
        if self.mode is OutputMode.APPEND:
            others = ended.others(packed)
            packed, values = packed.filter(others), values.filter(others)
            yield self._emitted(packed, values, key_codec, value_codec)

    def _emitted(
        self, packed: pa.BinaryArray, values: pa.BinaryArray, key_codec: RowCodec, value_codec: RowCodec
    ) -> pa.RecordBatch:
        """The output rows of stored groups."""
        columns: Sequence[pa.Array] = [*key_codec.unpack(packed).columns, *value_codec.unpack(values).columns]
        return pa.RecordBatch.from_arrays(columns, schema=self.output_schema)


def keys_of(batch: pa.RecordBatch, keys: pa.Schema) -> pa.RecordBatch:
    """Some columns of a batch, such as its keys, in the types that are stored."""
    return pa.RecordBatch.from_arrays([of_type(batch.column(key.name), key.type) for key in keys], schema=keys)


def _gathered(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The same rows in batches of up to `GATHERED_BYTES_MAX`; a larger one stays as it is."""
    held: list[pa.RecordBatch] = []
    size = 0
    for batch in batches:
        if held and size + batch.nbytes > GATHERED_BYTES_MAX:
            yield pa.concat_batches(held)
            held, size = [], 0
        held.append(batch)
        size += batch.nbytes
    if held:
        yield pa.concat_batches(held)


class _Ended:
    """Groups that are closed and had rows in this epoch: they have been emitted with those rows."""

    def __init__(self) -> None:
        self.keys: list[pa.BinaryArray] = []

    def others(self, packed: pa.BinaryArray) -> pa.BooleanArray:
        """Which of these keys belong to other groups."""
        return pc.invert(pc.is_in(packed, value_set=pa.chunked_array(self.keys, pa.binary()).combine_chunks()))
