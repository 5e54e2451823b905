"""Rows of state below the operators: opaque (bin, key, value) triples in Arrow batches.

This module owns their schema and the few operations that store and log share: make, sort, merge, restrict, cut.
A value of null means that the key is deleted. "Sorted" means by (bin, key), keys as unsigned bytes, which is also
the order of the store and of every file of the log. The first byte of a key is a *space* (0 = state row, 1 =
expiry index, ...), which this module ignores.

It must never interpret a key or a value, do I/O, or process rows one at a time: an epoch has a hundred thousand rows, and
all of these operations together must be a small part of it.

It uses Arrow instead of lists of tuples because a batch moves between the JVM, the store and the log unchanged, and comparing,
sorting and filtering run in C++ over its buffers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from binshift import binary
from binshift.errors import StateTooLarge
from binshift.invariants import invariant
from binshift.model import BinSet, IntArray

Entries: TypeAlias = pa.RecordBatch
"""A batch with `ENTRY_SCHEMA`; bin and key are never null."""

ENTRY_SCHEMA = pa.schema([("bin", pa.int32()), ("key", pa.binary()), ("value", pa.binary())])

WORDS_MIN = 1 << 14
"""So many rows and more are sorted by numbers, if keys are short: 19 instead of 48 ms for 200,000, but not faster for few."""

EMPTY: Entries = pa.RecordBatch.from_pylist([], schema=ENTRY_SCHEMA)
"""No rows."""


def make(
    bins: IntArray | Sequence[int] | pa.Array,
    keys: pa.BinaryArray | Sequence[bytes],
    values: pa.BinaryArray | Sequence[bytes | None],
) -> Entries:
    """A batch of the given, equally long columns, rows in the given order.

    Raises:
        InvariantViolated: a bin or key is null, or the columns differ in length or type.

    >>> make([1, 0], [b"a", b"b"], [b"x", None]).num_rows
    2
    """
    columns = [
        bins if isinstance(bins, pa.Array) else pa.array(np.asarray(bins, dtype=np.int32)),
        keys if isinstance(keys, pa.Array) else pa.array(keys, pa.binary()),
        values if isinstance(values, pa.Array) else pa.array(values, pa.binary()),
    ]
    invariant(len({len(column) for column in columns}) == 1, "entries need equally long columns")
    types = [column.type for column in columns]
    invariant(types == ENTRY_SCHEMA.types, f"entries have columns {types}, not {ENTRY_SCHEMA.types}")
    invariant(not columns[0].null_count and not columns[1].null_count, "an entry without bin or key")
    return pa.RecordBatch.from_arrays(columns, schema=ENTRY_SCHEMA)


def bins_array(entries: Entries) -> IntArray:
    """The bin column as NumPy, without a copy."""
    bins: IntArray = entries.column(0).to_numpy(zero_copy_only=True)
    return bins


def bin_set(entries: Entries) -> BinSet:
    """Every bin that has at least one row here."""
    bins = bins_array(entries)
    return BinSet(bins[np.flatnonzero(np.diff(bins, prepend=-1))])  # rows of a bin are usually together


def is_sorted(entries: Entries, *, strictly: bool = False) -> bool:
    """Whether rows ascend by (bin, key); ``strictly``: and no (bin, key) occurs twice."""
    if entries.num_rows < 2:
        return True
    steps = np.diff(bins_array(entries))
    if steps.min() < 0:
        return False
    keys = entries.column(1)
    ascending = (pc.less if strictly else pc.less_equal)(keys[:-1], keys[1:]).to_numpy(zero_copy_only=False)
    return bool((ascending | (steps > 0)).all())


def sort(entries: Entries) -> Entries:
    """The same rows by (bin, key); rows with the same (bin, key) keep their order."""
    order = order_of(bins_array(entries), entries.column(1))
    return entries if order is None else entries.take(order)


def order_of(bins: IntArray, keys: pa.BinaryArray) -> pa.UInt64Array | None:
    """The positions of these rows by (bin, key), of equal ones in their order; None if they are in that order."""
    rows = pa.RecordBatch.from_arrays([pa.array(bins), keys], names=["bin", "key"])
    if is_sorted(rows):
        return None
    order = _order_by_words(bins, keys) if len(bins) >= WORDS_MIN else None
    return pc.sort_indices(rows, sort_keys=[("bin", "ascending"), ("key", "ascending")]) if order is None else order


def _order_by_words(bins: IntArray, keys: pa.BinaryArray) -> pa.UInt64Array | None:
    """The same by numbers, which NumPy sorts faster; None if keys differ in too many bytes, bins have large numbers, or rows are equal."""
    words = binary.words(keys)
    if words is None or int(bins.max()) > np.iinfo(np.uint16).max:
        return None
    order = np.argsort(words)
    order = order[np.argsort(bins[order].astype(np.uint16), kind="stable")]
    words, bins = words[order], bins[order]
    equal = (words[1:] == words[:-1]) & (bins[1:] == bins[:-1])
    return None if equal.any() else pa.array(order.astype(np.uint64))


def merge_last_wins(batches: Sequence[Entries]) -> Entries:
    """One sorted batch in which each (bin, key) occurs once, with the value of its last occurrence.

    Later batches take precedence over earlier ones, and later rows over earlier ones. Deletions are kept (as nulls).

    Raises:
        StateTooLarge: together the batches hold more than 2 GiB of keys or of values.

    >>> old, new = make([3, 3], [b"a", b"b"], [b"1", b"2"]), make([3], [b"a"], [None])
    >>> merge_last_wins([old, new]).column("value").to_pylist()
    [None, b'2']
    """
    merged = sort(concat(batches))
    if merged.num_rows < 2:
        return merged
    last = np.ones(merged.num_rows, dtype=np.bool_)
    keys = merged.column(1)
    same_key = pc.equal(keys[:-1], keys[1:]).to_numpy(zero_copy_only=False)
    last[:-1] = ~same_key | (np.diff(bins_array(merged)) != 0)
    return merged if last.all() else merged.filter(pa.array(last))


def concat(batches: Sequence[Entries]) -> Entries:
    """The batches concatenated to one.

    Raises:
        StateTooLarge: together they hold more than 2 GiB of keys or of values (Arrow's 32-bit offsets).
    """
    filled = [batch for batch in batches if batch.num_rows]
    if len(filled) < 2:
        return filled[0] if filled else EMPTY
    size = sum(size_bytes(batch) for batch in filled)
    try:
        return pa.concat_batches(filled)
    except pa.ArrowInvalid as error:
        raise StateTooLarge(
            f"{size} bytes of state in {len(filled)} batches exceed the 2 GiB one Arrow column can hold: "
            "use smaller batches (Spark's maxOffsetsPerTrigger or maxFilesPerTrigger) or more workers"
        ) from error


def restrict(entries: Entries, bins: BinSet) -> Entries:
    """Only the rows of ``bins``, in their order."""
    if not entries.num_rows:
        return entries
    wanted = np.isin(bins_array(entries), bins.array)
    return entries if wanted.all() else entries.filter(pa.array(wanted))


def size_bytes(entries: Entries) -> int:
    """Bytes of bins, keys and values, without Arrow's overhead; exact for slices too."""
    if not entries.num_rows:
        return 0
    return int(row_bytes(entries).sum())


def row_bytes(entries: Entries) -> npt.NDArray[np.int64]:
    """Bytes of each row: 4 for the bin, its key and its value."""
    keys, values = binary.lengths(entries.column(1)), binary.lengths(entries.column(2))
    total: npt.NDArray[np.int64] = keys.astype(np.int64) + values + 4
    return total


def cut(entries: Entries, bytes_max: int, rows_max: int | None = None) -> Iterator[Entries]:
    """The batch as slices of at most ``bytes_max`` bytes and ``rows_max`` rows, in order; at least one row each."""
    start, rows = 0, entries.num_rows
    # Buffers are at least as large as their rows, and their sizes are known without a scan.
    if rows and (rows_max is None or rows <= rows_max) and entries.get_total_buffer_size() <= bytes_max:
        yield entries
        return
    ends = np.cumsum(row_bytes(entries)) if rows else np.empty(0, dtype=np.int64)
    while start < rows:
        done = int(ends[start - 1]) if start else 0
        stop = max(int(np.searchsorted(ends, done + bytes_max, side="right")), start + 1)
        if rows_max is not None:
            stop = min(stop, start + rows_max)
        yield entries.slice(start, stop - start)
        start = stop
