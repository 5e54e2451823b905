"""Rows sorted by (bin, key), cut into tables of whole bins, and the columns of such tables in the types that are stored."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from binshift.model import IntArray
from binshift.operators.contract import BIN_COLUMN
from binshift.rows import of_type


def bin_groups(batches: Iterator[pa.RecordBatch], bytes_max: int) -> Iterator[pa.Table]:
    """Cut rows sorted by bin into tables of whole bins, each of about ``bytes_max`` bytes or a single bin."""
    held: list[pa.RecordBatch] = []
    size = 0
    for batch in batches:
        if not batch.num_rows:
            continue
        if size >= bytes_max:
            bins = batch.column(BIN_COLUMN).to_numpy()
            cut = int(np.searchsorted(bins, held[-1].column(BIN_COLUMN)[-1].as_py(), side="right"))
            if cut < batch.num_rows:
                yield pa.Table.from_batches([*held, batch.slice(0, cut)])
                held, size, batch = [], 0, batch.slice(cut)
        held.append(batch)
        size += batch.nbytes
    if held:
        yield pa.Table.from_batches(held)


def run_starts(packed: pa.BinaryArray) -> IntArray:
    """The positions where a run of equal values starts."""
    changed = pc.not_equal(packed[1:], packed[:-1]).to_numpy(zero_copy_only=False)
    return np.flatnonzero(np.concatenate(([True], changed))).astype(np.int32)


def number_runs(numbers: npt.NDArray[np.integer[Any]]) -> Iterator[tuple[int, int]]:
    """Where each run of equal numbers starts and stops."""
    return pairwise([0, *(np.flatnonzero(np.diff(numbers)) + 1).tolist(), len(numbers)])


def of_types(columns: Sequence[pa.ChunkedArray], schema: pa.Schema) -> pa.Table:
    """The columns with the names and types of ``schema``."""
    typed = [
        pa.chunked_array([of_type(chunk, field.type) for chunk in column.chunks], field.type)
        for column, field in zip(columns, schema, strict=True)
    ]
    return pa.Table.from_arrays(typed, schema=schema)


def one_batch(table: pa.Table, schema: pa.Schema) -> pa.RecordBatch:
    """The rows of a table in one batch."""
    combined = table.combine_chunks()
    columns = [c.chunk(0) if c.num_chunks else pa.array([], c.type) for c in combined.columns]
    return pa.RecordBatch.from_arrays(columns, schema=schema)
