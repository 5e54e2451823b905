"""Merges collected lists and sets by arithmetic on Arrow's offsets.

This module owns the buffers of collect_list and collect_set. The order of the result depends only on the two sides (stored
elements first), so that a replay gives the same result. It must never visit a row in Python.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from binshift.errors import StateTooLarge

ELEMENTS_MAX = 2**31 - 1
"""Elements of all lists in one batch together: the most that Arrow's 32-bit offsets can count."""

Int64s = npt.NDArray[np.int64]


def concat(old: pa.ListArray, new: pa.ListArray) -> pa.ListArray:
    """Each row's old elements, followed by its new ones; a null list counts as empty.

    Raises:
        StateTooLarge: more than `ELEMENTS_MAX` elements.
    """
    rows, values = _elements(old, new)
    return _lists(rows, values, len(old), old.type)


def union(old: pa.ListArray, new: pa.ListArray) -> pa.ListArray:
    """As `concat`, but each distinct element once, at its first position. NaN equals NaN, and -0.0 equals 0.0.

    Raises:
        StateTooLarge: as `concat`.
    """
    rows, values = _elements(old, new)
    if pa.types.is_floating(values.type):
        values = pc.add(values, pa.scalar(0.0, values.type))  # -0.0 becomes 0.0: the dictionary would distinguish them
    codes = pc.fill_null(values.dictionary_encode().indices.cast(pa.int64()), -1).to_numpy()
    pairs = rows * (int(codes.max(initial=0)) + 2) + codes + 1
    first = np.sort(np.unique(pairs, return_index=True)[1])
    return _lists(rows[first], values.take(pa.array(first)), len(old), old.type)


def _elements(old: pa.ListArray, new: pa.ListArray) -> tuple[Int64s, pa.Array]:
    """All elements ordered by (row, old before new), and the row of each."""
    old_rows, new_rows = _rows(old), _rows(new)
    rows = np.concatenate((old_rows, new_rows))
    if rows.size > ELEMENTS_MAX:
        raise StateTooLarge(
            f"collected lists hold {rows.size} elements in one batch, more than {ELEMENTS_MAX}. Aggregate to something "
            "smaller than all values (max_by, first, a count), or group by a time window."
        )
    order = np.argsort(rows, kind="stable")
    return rows[order], pa.concat_arrays([old.flatten(), new.flatten()]).take(pa.array(order))


def _rows(lists: pa.ListArray) -> Int64s:
    lengths = pc.fill_null(pc.list_value_length(lists), 0).to_numpy()
    return np.repeat(np.arange(len(lists), dtype=np.int64), lengths)


def _lists(rows: Int64s, values: pa.Array, length: int, type: pa.ListType) -> pa.ListArray:
    offsets = np.searchsorted(rows, np.arange(length + 1)).astype(np.int32)
    return pa.ListArray.from_arrays(pa.array(offsets), values, type=type)
