"""Algebraic aggregation: stored buffers merged with the epoch's partial ones.

The JVM has already aggregated the epoch's rows to one row per key (Spark's own functions and generated code). This module
merges each row's buffers with the stored ones, batch by batch, and returns the merged buffers to the JVM, where Catalyst
computes the final expressions. Memory is therefore bounded by one Arrow batch plus the changes.

With a watermark, groups have an expiry. A group that expires is removed from the state; in append mode it is emitted only then
(Spark's rule: a group is closed when its expiry is at or before the watermark). Rows of that same epoch still count; later rows
are late. The expiry index lists the groups of a bin in order of time, so that finding them costs one seek per bin instead of a
scan.

An aggregation without keys has one group, in `KEYLESS_BIN`, that always exists. As in Spark, every epoch emits it, even one
without rows or before the first row, with the aggregates' results over no rows.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from binshift.model import Bin, IntArray
from binshift.operators.contract import BIN_COLUMN, EXPIRY_SPACE, STATE_SPACE, EpochContext, EpochState
from binshift.operators.merge import MergeSpec, merge
from binshift.rows import RowCodec, of_type

EXPIRY_COLUMN = "__expiry_ms"
"""Input column, present with a watermark: the expiry of the row's group (milliseconds since 1970); null means never."""

EXPIRY_BYTES = 8
EXPIRY_OFFSET = 1 << 63
"""Added to signed milliseconds so that their big-endian bytes sort by time."""


KEYLESS_BIN = Bin(0)
"""The bin of the one group of an aggregation without keys; its key, which F delivers, is the number of this bin."""


class OutputMode(enum.Enum):
    """The output of an aggregation: changed groups in every epoch, or closed groups once."""

    UPDATE = "update"
    APPEND = "append"


@dataclass(frozen=True)
class Aggregate:
    """Keyed aggregation.

    Attributes:
        keys: the grouping columns, as F delivers them.
        buffers: the partial aggregates, as F delivers them; also the layout of the stored value.
        merges: how each buffer is merged with the stored one.
        mode: the output mode.
        expires: whether groups expire: the input has `EXPIRY_COLUMN`.
        keyless: whether there is only one group, which every epoch emits; ``keys`` is then the constant key alone.
    """

    keys: pa.Schema
    buffers: pa.Schema
    merges: tuple[MergeSpec, ...]
    mode: OutputMode
    expires: bool = False
    keyless: bool = False

    @property
    def output_schema(self) -> pa.Schema:
        """Keys, then merged buffers."""
        return pa.schema([*self.keys, *self.buffers])

    def run(
        self, batches: Iterator[pa.RecordBatch], state: EpochState, context: EpochContext
    ) -> Iterator[pa.RecordBatch]:
        """Merge every batch into the state; emit changed groups (update) or expired ones (append)."""
        key_codec, value_codec = RowCodec(self.keys), RowCodec(self.buffers, canonical=False)
        quiet, ended = True, _Ended()
        for rows in batches:
            batch = _on_time(rows, state, context) if self.expires else rows
            if not batch.num_rows:
                continue
            quiet = False
            over = _over(batch, context) if self.expires else None
            merged = self._merge(batch, over, key_codec, value_codec, state, ended)
            if self.mode is OutputMode.UPDATE:
                yield merged
            elif over is not None:
                yield merged.filter(over)
        if self.keyless and quiet and KEYLESS_BIN in context.owned:
            yield self._unchanged(state, key_codec, value_codec)
        if self.expires and context.watermark_moved:
            yield from self._expire(state, context, key_codec, value_codec, ended)

    def _merge(
        self,
        batch: pa.RecordBatch,
        over: pa.BooleanArray | None,
        key_codec: RowCodec,
        value_codec: RowCodec,
        state: EpochState,
        ended: _Ended,
    ) -> pa.RecordBatch:
        """The output rows of a batch's groups; their new state is stored, except for the ones that are ``over``."""
        bins: IntArray = batch.column(BIN_COLUMN).to_numpy()
        keys = self._keys_of(batch)
        packed = key_codec.pack(keys)
        state_keys = prefixed(STATE_SPACE, packed)
        stored = state.get(bins, state_keys)
        merged = merge(self.merges, value_codec.unpack(stored), batch.select(self.buffers.names))
        output = pa.RecordBatch.from_arrays([*keys.columns, *merged.columns], schema=self.output_schema)
        if over is not None:
            ended.keys.append(packed.filter(over))
            left = pc.invert(over)
            batch, packed, stored, state_keys, merged = (
                each.filter(left) for each in (batch, packed, stored, state_keys, merged)
            )
            bins = bins[left.to_numpy(zero_copy_only=False)]
        state.put(bins, state_keys, value_codec.pack(merged))
        if self.expires:
            self._index_expiry(batch, bins, packed, stored, state)
        return output

    def _keys_of(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        columns = [of_type(batch.column(key.name), key.type) for key in self.keys]
        return pa.RecordBatch.from_arrays(columns, schema=self.keys)

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
        self, state: EpochState, context: EpochContext, key_codec: RowCodec, value_codec: RowCodec, ended: _Ended
    ) -> Iterator[pa.RecordBatch]:
        stop = EXPIRY_SPACE + expiry_bytes(context.watermark_ms + 1)
        for bin in context.owned:
            for found in state.scan(bin, EXPIRY_SPACE, stop):
                yield from self._expire_batch(bin, found.column("key"), state, key_codec, value_codec, ended)

    def _expire_batch(
        self,
        bin: Bin,
        index_keys: pa.BinaryArray,
        state: EpochState,
        key_codec: RowCodec,
        value_codec: RowCodec,
        ended: _Ended,
    ) -> Iterator[pa.RecordBatch]:
        # With an open end, Arrow reserves the largest possible number of bytes, which overflows above a few rows.
        longest = pc.max(pc.binary_length(index_keys)).as_py()
        packed = pc.binary_slice(index_keys, len(EXPIRY_SPACE) + EXPIRY_BYTES, longest)
        bins = np.full(len(packed), bin, dtype=np.int32)
        state_keys = prefixed(STATE_SPACE, packed)
        values = state.get(bins, state_keys)
        gone = pa.nulls(len(packed), pa.binary())
        state.put(bins, index_keys, gone)
        state.put(bins, state_keys, gone)
        if self.mode is OutputMode.APPEND:
            others = ended.others(packed)
            packed, values = packed.filter(others), values.filter(others)
            columns: Sequence[pa.Array] = [*key_codec.unpack(packed).columns, *value_codec.unpack(values).columns]
            yield pa.RecordBatch.from_arrays(columns, schema=self.output_schema)


def _on_time(batch: pa.RecordBatch, state: EpochState, context: EpochContext) -> pa.RecordBatch:
    """The rows whose groups are not closed, by the rule of Spark's ``StateStoreSaveExec``; the others are counted.

    A group is closed by the first epoch whose watermark reaches it, and the rows of that epoch still count. The previous
    watermark therefore decides whether the group still exists.
    """
    if not batch.num_rows:
        return batch
    late = pc.less_equal(batch.column(EXPIRY_COLUMN), context.previous_watermark_ms).fill_null(False)
    count = late.true_count
    state.rows_late += count
    return batch.filter(pc.invert(late)) if count else batch


class _Ended:
    """Groups that are closed and had rows in this epoch: they have been emitted with those rows."""

    def __init__(self) -> None:
        self.keys: list[pa.BinaryArray] = []

    def others(self, packed: pa.BinaryArray) -> pa.BooleanArray:
        """Which of these keys belong to other groups."""
        return pc.invert(pc.is_in(packed, value_set=pa.chunked_array(self.keys, pa.binary()).combine_chunks()))


def _over(batch: pa.RecordBatch, context: EpochContext) -> pa.BooleanArray | None:
    """Which rows belong to groups that this epoch closes; None if none can."""
    if not context.watermark_moved:
        return None
    over = pc.less_equal(batch.column(EXPIRY_COLUMN), context.watermark_ms).fill_null(False)
    return over if over.true_count else None


def prefixed(space: bytes, packed: pa.BinaryArray) -> pa.BinaryArray:
    """Store keys: the packed keys within a space."""
    return pc.binary_join_element_wise(pa.scalar(space, pa.binary()), packed, pa.scalar(b"", pa.binary()))


def expiry_bytes(ms: int) -> bytes:
    """Milliseconds as bytes that sort by time.

    >>> expiry_bytes(-1) < expiry_bytes(0) < expiry_bytes(1)
    True
    """
    return (ms + EXPIRY_OFFSET).to_bytes(EXPIRY_BYTES, "big")


def expiry_keys(expiry_ms: pa.Int64Array, packed: pa.BinaryArray) -> pa.BinaryArray:
    """Keys of the expiry index for groups that expire at ``expiry_ms``."""
    ordered = (expiry_ms.to_numpy().astype(np.int64).view(np.uint64) ^ np.uint64(EXPIRY_OFFSET)).astype(">u8")
    times = pa.FixedSizeBinaryArray.from_buffers(
        pa.binary(EXPIRY_BYTES), len(ordered), [None, pa.py_buffer(ordered.tobytes())]
    ).cast(pa.binary())
    return pc.binary_join_element_wise(pa.scalar(EXPIRY_SPACE, pa.binary()), times, packed, pa.scalar(b"", pa.binary()))
