"""The output rows of a join: the first columns of the left side, then the first columns of the right one.

Batches are bounded in rows, and in bytes as far as rows are of similar size.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa

from binshift.operators.join_pairs import LEFT, RIGHT, JoinType

BATCH_BYTES_MAX = 16 << 20
"""Bytes of one output batch, if rows are of average size."""


class Output:
    """Makes output rows.

    Args:
        schemas: the columns of both sides.
        counts: how many of them are in the output.
        type: the type of the join.
        rows_max: rows of a batch.
    """

    def __init__(
        self, schemas: tuple[pa.Schema, pa.Schema], counts: tuple[int, int], type: JoinType, rows_max: int
    ) -> None:
        self._rows_max = rows_max
        missing_of = (type.is_outer(RIGHT), type.is_outer(LEFT))
        self._shown = [
            [field.with_nullable(True) if missing else field for field in list(schema)[:count]]
            for schema, count, missing in zip(schemas, counts, missing_of, strict=True)
        ]
        self.schema = pa.schema([*self._shown[LEFT], *self._shown[RIGHT]])

    def rows(self, left: pa.RecordBatch | None, right: pa.RecordBatch | None) -> pa.RecordBatch:
        """Rows; without a side, its columns are null."""
        count = next(side.num_rows for side in (left, right) if side is not None)
        columns: list[pa.Array] = []
        for fields, side in zip(self._shown, (left, right), strict=True):
            columns += [pa.nulls(count, each.type) for each in fields] if side is None else side.columns[: len(fields)]
        # Through a struct, because a batch without columns still has a number of rows.
        found = pa.Array.from_buffers(pa.struct(list(self.schema)), count, [None], children=columns)
        return pa.RecordBatch.from_struct_array(found)

    def shown(self, side: int, columns: pa.RecordBatch) -> pa.RecordBatch:
        """The columns of a side that are in the output."""
        return columns.select(list(range(len(self._shown[side]))))

    def alone(self, side: int, columns: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Rows of one side without a partner."""
        shown = self.shown(side, columns)
        step = self.rows_max([shown])
        for at in range(0, columns.num_rows, step):
            some = shown.slice(at, step)
            yield self.rows(*((some, None) if side == LEFT else (None, some)))

    def rows_max(self, shown: Sequence[pa.RecordBatch]) -> int:
        """Rows of a batch of these columns."""
        row_bytes: int = sum(int(each.nbytes) // max(each.num_rows, 1) for each in shown)
        fitting: int = BATCH_BYTES_MAX // max(row_bytes, 1)
        return max(1, min(self._rows_max, fitting))
