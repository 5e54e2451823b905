"""Stream-stream equi joins: rows of two sides with equal keys are pairs, whichever of them comes first.

The result is that of Spark's ``StreamingSymmetricHashJoinExec``. The pairs of an epoch are its new left rows with the stored and
the new right rows, and the stored left rows with its new right rows, as far as all comparisons hold. Null matches null, as in
Spark's streams: where a row with a null has no match, Spark's optimiser filters it before. After all
input, each row whose expiry the watermark has reached leaves; on an outer side it comes out with nulls if it was never in a
pair that holds. In a left semi join each left row comes out once, when it first matches, and is not kept.

Output is by (bin, key, left row, right row) within a group of bins, a key being ordered by its first row in the input; the
rows without a partner follow in the order of keys, and after all groups the stored rows that end, by bin.

See `join_chunks` for the state and `join_lists` for the expiry index. It must never scan the state of a bin.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from binshift.invariants import invariant
from binshift.operators.aggregate import keys_of
from binshift.operators.contract import BIN_COLUMN, NO_TIME, EpochContext, EpochState
from binshift.operators.expiry import EXPIRY_COLUMN
from binshift.operators.grouping import bin_groups
from binshift.operators.join_chunks import NEVER, Rows
from binshift.operators.join_epoch import MATCHES_COLUMN, SIDE_COLUMN, JoinEpoch
from binshift.operators.join_lists import ListStore
from binshift.operators.join_output import Output
from binshift.operators.join_pairs import LEFT, RIGHT, Comparison, JoinType, Survivors
from binshift.operators.session_rows import Int64s
from binshift.operators.stored import SIDES, Form, StoredRows
from binshift.rows import RowCodec

__all__ = ["EXPIRY_COLUMN", "LATE_COLUMN", "MATCHES_COLUMN", "SIDE_COLUMN", "Comparison", "Join", "JoinType"]

MATCHED_COLUMN = "__matched"
"""Column of adopted rows: whether a row was in a pair that holds."""

LATE_COLUMN = "__late_ms"
"""Input column: the time (int64, milliseconds since 1970) by which a row can be late; null: never."""


@dataclass(frozen=True)
class Join:
    """A join of two streams.

    The input columns are `BIN_COLUMN`, `SIDE_COLUMN`, the keys, `LATE_COLUMN`, `EXPIRY_COLUMN` (int64, milliseconds since 1970;
    null: the row is kept forever), `MATCHES_COLUMN`, the columns of ``left`` and those of ``right``, which are null in rows of
    the other side. Rows ascend by bin; the rows of one key of one side are in source order.

    State of a row: see `join_chunks`. NaN equals NaN, and -0.0 equals 0.0, in keys and in comparisons.

    Attributes:
        keys: the columns that must be equal.
        left: the columns of the left side: first those of the output, then others that comparisons need.
        right: likewise.
        type: which rows come out.
        outputs: how many columns of the left and of the right side are in the output.
        comparisons: further conditions on pairs.
        group_bytes_max: the input is cut into groups of whole bins of about this many bytes.
        batch_rows_max: rows of an output batch.
    """

    keys: pa.Schema
    left: pa.Schema
    right: pa.Schema
    type: JoinType
    outputs: tuple[int, int]
    comparisons: tuple[Comparison, ...] = ()
    group_bytes_max: int = 16 << 20
    batch_rows_max: int = 1 << 16

    def __post_init__(self) -> None:
        for count, side in zip(self.outputs, (self.left, self.right), strict=True):
            invariant(0 <= count <= len(side), f"{count} output columns of {len(side)}")
        for comparison in self.comparisons:
            comparison.check(self.left, self.right)

    @property
    def left_outputs(self) -> int:
        """How many columns of the left side are in the output."""
        return self.outputs[LEFT]

    @property
    def right_outputs(self) -> int:
        """How many columns of the right side are in the output; none in a left semi join."""
        return 0 if self.type is JoinType.LEFT_SEMI else self.outputs[RIGHT]

    @property
    def output_schema(self) -> pa.Schema:
        """The output columns of the left side, then those of the right; nullable where rows come out without that side."""
        return self._output.schema

    def key_columns(self, rows: pa.RecordBatch) -> Sequence[pa.Array]:
        """See `Keyed`."""
        return [rows.column(name) for name in self.keys.names]

    def stored(self) -> tuple[StoredRows, ...]:
        """The rows of each side."""
        sides = (self.left, self.right)
        return tuple(
            StoredRows(name, Form.SIDE, self.keys, sides[side], len(sides[side]) - self.outputs[side])
            for name, side in SIDES.items()
        )

    @property
    def _output(self) -> Output:
        return Output((self.left, self.right), (self.left_outputs, self.right_outputs), self.type, self.batch_rows_max)

    def adopt(self, rows: pa.RecordBatch, state: EpochState) -> None:
        """Store rows of keys without state; ``rows`` is as the input of `run`, and has `MATCHED_COLUMN`: whether a row was in a pair."""
        outer = self.type.is_outer(LEFT), self.type.is_outer(RIGHT)
        sides = RowCodec(self.left, canonical=False), RowCodec(self.right, canonical=False)
        packed = RowCodec(self.keys).pack(keys_of(rows, self.keys))
        ListStore(outer, state, NO_TIME).append(rows.column(BIN_COLUMN).to_numpy(), packed, *_kept(rows, sides))

    def run(
        self, batches: Iterator[pa.RecordBatch], state: EpochState, context: EpochContext
    ) -> Iterator[pa.RecordBatch]:
        """Join the rows with each other and with stored ones; then end the rows that the watermark has reached."""
        groups = ((group, None) for group in bin_groups(batches, self.group_bytes_max))
        yield from self.run_groups(groups, state, context)

    def run_groups(
        self, groups: Iterable[tuple[pa.Table, Survivors | None]], state: EpochState, context: EpochContext
    ) -> Iterator[pa.RecordBatch]:
        """`run`, for rows in groups of whole bins, each with the pairs for which a further condition holds; None without one."""
        epoch = self.epoch(state, context)
        last = -1
        for group, survivors in groups:
            bins = group.column(BIN_COLUMN).to_numpy()
            invariant(last < bins[0] and bool((np.diff(bins) >= 0).all()), "rows are not sorted by bin")
            last = int(bins[-1])
            rows = on_time(group, context)
            state.rows_late += group.num_rows - rows.num_rows
            if rows.num_rows:
                yield from epoch.apply(rows, survivors)
        for chunks, out in epoch.store.evict():
            yield from epoch.ended(chunks, out)

    def epoch(self, state: EpochState, context: EpochContext) -> JoinEpoch:
        """What applies the rows of an epoch."""
        store = ListStore((self.type.is_outer(LEFT), self.type.is_outer(RIGHT)), state, context)
        sides = RowCodec(self.left, canonical=False), RowCodec(self.right, canonical=False)
        return JoinEpoch(RowCodec(self.keys), sides, self.type, self.comparisons, self._output, store, context)


def _kept(rows: pa.RecordBatch, sides: tuple[RowCodec, RowCodec]) -> tuple[Int64s, Rows]:
    """The side of each row, and what is stored of it."""
    side = rows.column(SIDE_COLUMN).to_numpy().astype(np.int64)
    expiry = rows.column(EXPIRY_COLUMN).fill_null(NEVER).to_numpy().astype(np.int64)
    matched = rows.column(MATCHED_COLUMN).to_numpy(zero_copy_only=False)
    both = [codec.pack(keys_of(rows, codec.schema)) for codec in sides]
    at = side * rows.num_rows + np.arange(rows.num_rows)
    return side, Rows(np.arange(rows.num_rows), expiry, matched, pa.concat_arrays(both).take(pa.array(at)))


def on_time(rows: pa.Table, context: EpochContext) -> pa.Table:
    """The rows that are not late."""
    late = pc.less_equal(rows.column(LATE_COLUMN), context.previous_watermark_ms).fill_null(False)
    return rows.filter(pc.invert(late))
