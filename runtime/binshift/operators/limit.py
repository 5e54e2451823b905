"""`limit` on a stream: rows pass in the order in which they come, over all epochs, until the limit is reached.

The state is one counter, in `KEYLESS_BIN`, of rows that have passed. F sends all rows to that bin, in the order of the source,
which must be the same when an epoch runs again. As in Spark's ``StreamingGlobalLimitExec``, the counter is written only if rows
pass. Rows after the limit are read and dropped: a task that leaves its input unread costs Spark the Python worker.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from binshift.invariants import invariant
from binshift.operators.contract import BIN_COLUMN, KEYLESS_BIN, STATE_SPACE, EpochContext, EpochState
from binshift.operators.stored import NO_KEY, SINGLE_STORE, Form, StoredRows
from binshift.rows import RowCodec, of_type

COUNTER = RowCodec(pa.schema([("rows", pa.int64())]))
"""The form of the state."""


@dataclass(frozen=True)
class Limit:
    """Passes the first rows of a stream in append mode.

    The input columns are `BIN_COLUMN`, which is `KEYLESS_BIN` in every row, and the columns of ``rows`` under their names.

    Attributes:
        rows: the columns of the output; names are unique.
        limit: rows that pass in total, 0 or more.
    """

    rows: pa.Schema
    limit: int

    def __post_init__(self) -> None:
        invariant(self.limit >= 0, f"a limit of {self.limit} rows")

    @property
    def output_schema(self) -> pa.Schema:
        """The input columns."""
        return self.rows

    def stored(self) -> tuple[StoredRows, ...]:
        """The counter."""
        rows = StoredRows(SINGLE_STORE, Form.SINGLE, pa.schema([NO_KEY]), COUNTER.schema)
        return (rows.named(["key"], ["value"]),)

    def adopt(self, rows: pa.RecordBatch, state: EpochState) -> None:
        """Store the counter: ``rows`` has it as ``rows``, in at most one row."""
        if rows.num_rows:
            counter = COUNTER.pack_columns([of_type(rows.column("rows"), pa.int64())], rows.num_rows)
            state.put(rows.column(BIN_COLUMN), pa.array([STATE_SPACE], pa.binary()), counter)

    def run(
        self, batches: Iterator[pa.RecordBatch], state: EpochState, context: EpochContext
    ) -> Iterator[pa.RecordBatch]:
        """Pass rows as long as fewer than the limit have passed; count them."""
        before: int | None = None
        passed = 0
        for batch in batches:
            if not batch.num_rows:
                continue
            if before is None:
                before = _counted(state)
            elsewhere = pc.any(pc.not_equal(batch.column(BIN_COLUMN), KEYLESS_BIN)).as_py()
            invariant(not elsewhere, f"rows of a limit outside of bin {KEYLESS_BIN}")
            few = batch.slice(0, max(self.limit - before - passed, 0))
            if few.num_rows:
                passed += few.num_rows
                columns = [of_type(few.column(row.name), row.type) for row in self.rows]
                yield pa.RecordBatch.from_arrays(columns, schema=self.rows)
        if before is not None and passed:
            counter = COUNTER.pack_columns([pa.array([before + passed], pa.int64())], 1)
            state.put(np.array([KEYLESS_BIN], dtype=np.int32), pa.array([STATE_SPACE], pa.binary()), counter)


def _counted(state: EpochState) -> int:
    """Rows that have passed in earlier epochs."""
    stored = state.get(np.array([KEYLESS_BIN], dtype=np.int32), pa.array([STATE_SPACE], pa.binary()))
    return COUNTER.unpack(stored).column("rows")[0].as_py() or 0
