"""The form of sessions in the state and in batches.

This module owns the columns of a session's times, the names and values of state rows, and their conversion to output rows. A
session is *named* by its packed key and 8 bytes of its start, so that the sessions of a bin are sorted by key and start.

It must never convert sessions one at a time.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from binshift import binary
from binshift.invariants import invariant
from binshift.operators.expiry import time_bytes
from binshift.operators.first_times import TIME_BYTES, times_of
from binshift.operators.session_rows import Int64s
from binshift.rows import RowCodec

SESSION_START_COLUMN = "__session_start_us"
"""Input and output column: the start of a session, microseconds since 1970."""

SESSION_END_COLUMN = "__session_end_us"
"""Input and output column: the end of a session, exclusive, microseconds since 1970."""

DIRECTORY_SPACE = b"\x02"
"""First byte of the keys of directories: then the packed key."""


class SessionCodec:
    """Packs sessions of one operator."""

    def __init__(self, keys: pa.Schema, buffers: pa.Schema, output: pa.Schema) -> None:
        self.output = output
        self.buffers = buffers
        self.keys = RowCodec(keys)
        self._values = RowCodec(pa.schema([(SESSION_END_COLUMN, pa.int64()), *buffers]), canonical=False)

    def values(self, end: Int64s, buffers: pa.RecordBatch) -> pa.BinaryArray:
        """The values of sessions."""
        return self._values.pack_columns([pa.array(end, pa.int64()), *buffers.columns], len(end))

    def unpacked(self, values: pa.BinaryArray) -> tuple[Int64s, pa.RecordBatch]:
        """Ends and buffers of stored sessions."""
        invariant(not values.null_count, "a session of a directory or of the expiry index has no state")
        batch = self._values.unpack(values)
        end: Int64s = batch.column(0).to_numpy()
        return end, batch.select(self.buffers.names)

    def emitted(self, sessions: pa.BinaryArray, values: pa.BinaryArray) -> pa.RecordBatch:
        """The output rows of stored sessions: packed key and start, and value."""
        end, buffers = self.unpacked(values)
        return self.rows(key_of(sessions), start_of(sessions), end, buffers)

    def rows(self, packed: pa.BinaryArray, start: Int64s, end: Int64s, buffers: pa.RecordBatch) -> pa.RecordBatch:
        """Output rows."""
        times = [pa.array(start, pa.int64()), pa.array(end, pa.int64())]
        columns: Sequence[pa.Array] = [*self.keys.unpack(packed).columns, *times, *buffers.columns]
        return pa.RecordBatch.from_arrays(columns, schema=self.output)


def named(packed: pa.BinaryArray, start: Int64s) -> pa.BinaryArray:
    """Packed keys, each with the start of a session."""
    return binary.join([packed, time_bytes(pa.array(start, pa.int64()))])


def key_of(names: pa.BinaryArray) -> pa.BinaryArray:
    """The packed keys of `named`."""
    return pc.binary_slice(names, 0, -TIME_BYTES)


def start_of(names: pa.BinaryArray) -> Int64s:
    """The starts of `named`."""
    longest = pc.max(pc.binary_length(names)).as_py() or TIME_BYTES
    return times_of(binary.contiguous(pc.binary_slice(names, -TIME_BYTES, longest)))


def ms_of(micros: Int64s) -> pa.Int64Array:
    """Milliseconds, rounded up: the first watermark that reaches the time."""
    return pa.array(-(-micros // 1000), pa.int64())
