"""The expiry index: the states of a bin that end, in the order of the time at which they do.

This module owns the form of the index rows (`EXPIRY_SPACE`, 8 bytes of time, the state's packed key; an empty value), the test
for late rows, and the search for states that end. An operator writes an index row with each state that can expire, and
deletes both together. Only bins whose first index row is due are read (`FirstTimes`).

It must never scan states. A state ends in the first epoch whose watermark reaches its expiry; rows of that epoch still
count, and later ones are late (Spark's rule).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from binshift.entries import bins_array
from binshift.model import BinSet, IntArray
from binshift.operators.contract import EXPIRY_SPACE, EpochContext, EpochState, without_space
from binshift.operators.first_times import TIME_BYTES, TIME_OFFSET

EXPIRY_COLUMN = "__expiry_ms"
"""Input column, present with a watermark: the expiry of the row's group (milliseconds since 1970); null means never."""


IndexRows = tuple[IntArray, pa.BinaryArray]
"""Rows of the index: their bins, ascending, and their keys."""


def expiry_bytes(ms: int) -> bytes:
    """Milliseconds as bytes that sort by time.

    >>> expiry_bytes(-1) < expiry_bytes(0) < expiry_bytes(1)
    True
    """
    return (ms + TIME_OFFSET).to_bytes(TIME_BYTES, "big")


def time_bytes(times: pa.Int64Array) -> pa.BinaryArray:
    """Each time, in any unit and never null, as 8 bytes that sort by time."""
    ordered = (times.to_numpy().astype(np.int64).view(np.uint64) ^ np.uint64(TIME_OFFSET)).astype(">u8")
    return pa.FixedSizeBinaryArray.from_buffers(
        pa.binary(TIME_BYTES), len(ordered), [None, pa.py_buffer(ordered.tobytes())]
    ).cast(pa.binary())


def expiry_keys(expiry_ms: pa.Int64Array, packed: pa.BinaryArray) -> pa.BinaryArray:
    """Keys of the expiry index for states with the packed keys ``packed`` that expire at ``expiry_ms``, never null."""
    space, nothing = pa.scalar(EXPIRY_SPACE, pa.binary()), pa.scalar(b"", pa.binary())
    return pc.binary_join_element_wise(space, time_bytes(expiry_ms), packed, nothing)


def indexed(index_keys: pa.BinaryArray) -> pa.BinaryArray:
    """The packed keys of the states that these index rows stand for."""
    return without_space(index_keys, TIME_BYTES)


def due(state: EpochState, context: EpochContext) -> Iterator[IndexRows]:
    """The index rows of the stored states that this epoch ends, by bin and time; none if the watermark has not moved."""
    if context.watermark_moved:
        yield from due_before(state, context.owned, context.watermark_ms + 1)


def due_before(state: EpochState, owned: BinSet, time_ms: int) -> Iterator[IndexRows]:
    """The index rows with times before ``time_ms`` as stored before this epoch, by bin and time."""
    stop = EXPIRY_SPACE + expiry_bytes(time_ms)
    opened = state.times.expiries.before(state.reader, owned, time_ms)
    for found in state.scan_bins(opened, EXPIRY_SPACE, stop):
        yield bins_array(found), found.column("key")


def whole_bins(found: Iterator[IndexRows], rows_max: int) -> Iterator[IndexRows]:
    """Rows by bin in batches of whole bins: each ends with the bin of its ``rows_max``-th row."""
    held: list[IndexRows] = []
    size = 0
    for bins, keys in found:
        while size + len(bins) >= rows_max:
            last = held[-1][0][-1] if size >= rows_max else bins[rows_max - size - 1]
            cut = int(np.searchsorted(bins, last, side="right"))
            if cut == len(bins):  # the bin may have more rows
                break
            yield _joined([*held, (bins[:cut], keys[:cut])])
            held, size, bins, keys = [], 0, bins[cut:], keys[cut:]
        held.append((bins, keys))
        size += len(bins)
    if held:
        yield _joined(held)


def _joined(parts: Sequence[IndexRows]) -> IndexRows:
    return np.concatenate([bins for bins, _ in parts]), pa.concat_arrays([keys for _, keys in parts])


def on_time(batch: pa.RecordBatch, state: EpochState, context: EpochContext) -> pa.RecordBatch:
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


def over(expiry_ms: pa.Int64Array, context: EpochContext) -> pa.BooleanArray | None:
    """Which states with these expiries this epoch ends; None if it ends none of them."""
    if not context.watermark_moved:
        return None
    ends = pc.less_equal(expiry_ms, context.watermark_ms).fill_null(False)
    return ends if ends.true_count else None
