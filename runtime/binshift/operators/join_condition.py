"""Conditions on the pairs of a join that only Spark can evaluate, if a row without a match matters (outer and semi joins).

Before the join, `FindPairs` finds the same pairs as the join will, and returns them after the rows of their group, with the columns
that the condition reads. Spark drops those for which it does not hold. The join gets the numbers of the others.

Both must use the same groups, and for that the numbers of the groups are sent along.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from binshift.operators.contract import BIN_COLUMN, RECORDS_COLUMN, EpochContext, EpochState
from binshift.operators.grouping import bin_groups, number_runs
from binshift.operators.join import Join, on_time
from binshift.operators.join_pairs import LEFT, RIGHT, Survivors

GROUP_COLUMN = "__group"
"""The number of the group of a row or a pair (int64)."""

PAIR_COLUMN = "__pair"
"""The number of a pair within its group (int64); null in rows."""

PAIR_PREFIX = "pair_"
"""Begins the name of a column that has, in pairs, what the condition reads."""


@dataclass(frozen=True)
class FindPairs:
    """See the module. It changes nothing.

    Attributes:
        join: the join.
        columns: the columns of both sides that the condition reads.
    """

    join: Join
    columns: Sequence[str]

    def run(
        self, batches: Iterator[pa.RecordBatch], state: EpochState, context: EpochContext
    ) -> Iterator[pa.RecordBatch]:
        """The rows, each group followed by its pairs."""
        epoch = self.join.epoch(state, context)
        for number, group in enumerate(bin_groups(batches, self.join.group_bytes_max)):
            for batch in group.to_batches():
                yield self._row_batch(batch, number)
            rows = on_time(group, context)
            made = _PairBatches(group, number)
            for part in epoch.parts(rows) if rows.num_rows else ():
                read = [self._read(side.candidates.columns) for side in part.sides]
                for left, right in part.pairs(self.join.comparisons, epoch.output.rows_max(read)):
                    columns = [*read[LEFT].take(pa.array(left)).columns, *read[RIGHT].take(pa.array(right)).columns]
                    names = [*read[LEFT].schema.names, *read[RIGHT].schema.names]
                    yield made.next(len(left), dict(zip(names, columns, strict=True)), self.columns)

    def _read(self, side: pa.RecordBatch) -> pa.RecordBatch:
        """The columns of a side that the condition reads."""
        return side.select([name for name in side.schema.names if name in self.columns])

    def _row_batch(self, batch: pa.RecordBatch, group: int) -> pa.RecordBatch:
        count = batch.num_rows
        schemas = self.join.left, self.join.right
        types = {each.name: each.type for schema in schemas for each in schema}
        added = {
            RECORDS_COLUMN: pa.repeat(pa.scalar(1, pa.int64()), count),
            GROUP_COLUMN: pa.repeat(pa.scalar(group, pa.int64()), count),
            PAIR_COLUMN: pa.nulls(count, pa.int64()),
            **{f"{PAIR_PREFIX}{name}": pa.nulls(count, types[name]) for name in self.columns},
        }
        return pa.RecordBatch.from_arrays([*batch.columns, *added.values()], names=[*batch.schema.names, *added])


@dataclass
class _PairBatches:
    """Makes the batches of the pairs of a group, numbered from 0."""

    group: pa.Table
    number: int
    count: int = 0
    _bin: int = field(init=False)

    def __post_init__(self) -> None:
        self._bin = self.group.column(BIN_COLUMN)[0].as_py()

    def next(self, count: int, read: dict[str, pa.Array], columns: Sequence[str]) -> pa.RecordBatch:
        """The next pairs, with what the condition reads; the columns of rows are null."""
        first, self.count = self.count, self.count + count
        of_rows = {each.name: pa.nulls(count, each.type) for each in self.group.schema}
        of_rows[BIN_COLUMN] = pa.repeat(pa.scalar(self._bin, self.group.schema.field(BIN_COLUMN).type), count)
        added = {
            RECORDS_COLUMN: pa.repeat(pa.scalar(0, pa.int64()), count),
            GROUP_COLUMN: pa.repeat(pa.scalar(self.number, pa.int64()), count),
            PAIR_COLUMN: pa.array(np.arange(first, self.count)),
            **{f"{PAIR_PREFIX}{name}": read[name] for name in columns},
        }
        return pa.RecordBatch.from_arrays([*of_rows.values(), *added.values()], names=[*of_rows, *added])


@dataclass(frozen=True)
class ConditionedJoin:
    """The join, behind `FindPairs` and Spark.

    Attributes:
        join: the join without the condition.
    """

    join: Join

    @property
    def output_schema(self) -> pa.Schema:
        """The join's."""
        return self.join.output_schema

    def key_columns(self, rows: pa.RecordBatch) -> Sequence[pa.Array]:
        """The join's."""
        return self.join.key_columns(rows)

    def adopt(self, rows: pa.RecordBatch, state: EpochState) -> None:
        """See `Join.adopt`."""
        self.join.adopt(rows, state)

    def run(
        self, batches: Iterator[pa.RecordBatch], state: EpochState, context: EpochContext
    ) -> Iterator[pa.RecordBatch]:
        """Join the rows of each group, as far as its pairs have been left."""
        yield from self.join.run_groups(_groups(batches), state, context)


def _groups(batches: Iterator[pa.RecordBatch]) -> Iterator[tuple[pa.Table, Survivors]]:
    """The rows of each group and its pairs."""
    held: list[pa.RecordBatch] = []
    for batch in batches:
        if not batch.num_rows:
            continue
        group = batch.column(GROUP_COLUMN).to_numpy()
        for start, stop in number_runs(group):
            if held and held[-1].column(GROUP_COLUMN)[0].as_py() != int(group[start]):
                yield _group(held)
                held = []
            held.append(batch.slice(start, stop - start))
    if held:
        yield _group(held)


def _group(batches: Sequence[pa.RecordBatch]) -> tuple[pa.Table, Survivors]:
    table = pa.Table.from_batches(batches)
    pair = table.column(PAIR_COLUMN)
    numbers = pair.drop_null().combine_chunks()
    return table.filter(pc.is_null(pair)), Survivors(numbers.to_numpy())
