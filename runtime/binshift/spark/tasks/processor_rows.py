"""``transformWithState``: users get rows, and return rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_type
from pyspark.sql.types import Row, StructType

from binshift.spark.tasks.user_rows import row_maker, values_of

OUTPUT_ROWS_MAX = 32_768
"""Rows that are converted together."""


@dataclass(frozen=True)
class RowFormat:
    """See `binshift.spark.tasks.processor_format.Format`.

    Attributes:
        names: of the columns of the input.
        initial_names: of those of the initial state.
        schema: of the output.
    """

    names: list[str]
    initial_names: list[str]
    schema: StructType

    def keys(self, batch: pa.RecordBatch) -> list[tuple[Any, ...]]:
        """Grouping keys as users get them."""
        return list(zip(*map(values_of, batch.columns), strict=True))

    def input(self, batch: pa.RecordBatch) -> RowInput:
        """Rows of the input."""
        return RowInput(batch, self.names)

    def initial(self, batch: pa.RecordBatch) -> RowInput:
        """Rows of the initial state."""
        return RowInput(batch, self.initial_names)

    def output(self) -> RowOutput:
        """Converts what users return."""
        return RowOutput(self.schema)


class RowInput:
    """Rows of a batch as PySpark's worker gives them: values as Arrow converts them, in `Row`s with the column names.

    Args:
        batch: the rows, sorted by key.
        names: the column names.
    """

    def __init__(self, batch: pa.RecordBatch, names: list[str]) -> None:
        self._rows = list(map(row_maker(names), zip(*map(values_of, batch.columns), strict=True)))

    def between(self, start: int, stop: int) -> Iterator[Row]:
        """The rows of one key."""
        return iter(self._rows[start:stop])


class RowOutput:
    """Converts rows that users return.

    Args:
        schema: of the rows.
    """

    def __init__(self, schema: StructType) -> None:
        # As in PySpark's worker, which has UTC here whatever the session's time zone is.
        type = to_arrow_type(schema, timezone="UTC", prefers_large_types=False)
        self._schema = pa.schema(list(type))
        self._plain = not any(map(pa.types.is_nested, self._schema.types))
        self._names = tuple(schema.names)
        self._rows: list[Row] = []

    def add(self, returned: Iterable[Any]) -> None:
        """Take what a method returned."""
        self._rows.extend(returned)

    @property
    def is_full(self) -> bool:
        """Whether it is time to `take`."""
        return len(self._rows) >= OUTPUT_ROWS_MAX

    def take(self) -> Iterator[pa.RecordBatch]:
        """Everything added since the last call."""
        rows, self._rows = self._rows, []
        if not rows:
            return
        if self._plain and self._are_whole(rows):
            columns = [
                pa.array(values, field.type)
                for values, field in zip(zip(*rows, strict=True), self._schema, strict=True)
            ]
            yield pa.RecordBatch.from_arrays(columns, schema=self._schema)
        else:
            yield pa.RecordBatch.from_pylist([row.asDict(True) for row in rows], schema=self._schema)

    def _are_whole(self, rows: list[Row]) -> bool:
        """Whether every row has a value for each column, in the columns' order."""
        try:
            fields = list(map(attrgetter("__fields__"), rows))
        except AttributeError:  # a tuple has none
            return False
        different = {id(each): each for each in fields}.values()  # rows of one maker share their names
        return all(tuple(each) == self._names for each in different) and set(map(len, rows)) == {len(self._names)}
