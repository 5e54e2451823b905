"""Rows as the frames of pandas that PySpark would give a function, and the frames that it returns as rows again.

PySpark's own code converts in both directions, so that types are Spark's. It converts the rows of one key; here all keys of a
call are converted together and cut apart. A column of whole numbers or booleans has another type in pandas if it has nulls, so
the rows of a key with such nulls are converted by themselves.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from pyspark.sql.types import StructType

from binshift.rows import of_type
from binshift.spark.tasks.frame_parts import FrameConf, joined, rows_of


class Frames:
    """The rows of some keys as frames.

    Args:
        rows: all input columns.
        conf: of the user's session.
    """

    def __init__(self, rows: pa.RecordBatch, conf: FrameConf) -> None:
        self._rows, self._conf = rows, conf
        self._types_vary = np.zeros(rows.num_rows + 1, dtype=np.int64)
        filled: list[pa.Array] = []
        for column in rows.columns:
            if column.null_count and (pa.types.is_integer(column.type) or pa.types.is_boolean(column.type)):
                self._types_vary[1:] += np.cumsum(column.is_null().to_numpy(zero_copy_only=False))
                column = column.fill_null(0 if pa.types.is_integer(column.type) else False)
            filled.append(column)
        self._whole = self._frame(pa.RecordBatch.from_arrays(filled, schema=rows.schema))

    def of(self, start: int, end: int) -> Iterator[pd.DataFrame]:
        """The rows from ``start`` to before ``end``, in frames of at most `FrameConf.records_max` rows, each counted from 0."""
        for begin in range(start, end, self._conf.records_max):
            stop = min(end, begin + self._conf.records_max)
            if self._types_vary[stop] > self._types_vary[begin]:
                yield self._frame(self._rows.slice(begin, stop - begin))
            else:
                yield rows_of(self._whole, begin, stop)

    def none(self) -> pd.DataFrame:
        """A frame with all columns and no rows."""
        return pd.DataFrame(columns=self._whole.columns)

    def _frame(self, rows: pa.RecordBatch) -> pd.DataFrame:
        return pd.concat(self._conf.series_of(rows), axis=1)


def keys_of(keys: pa.RecordBatch, conf: FrameConf) -> list[tuple[Any, ...]]:
    """Each key as PySpark gives it to functions: a tuple of NumPy's or pandas' values."""
    return list(zip(*(_scalars(keys, at, conf) for at in range(keys.num_columns)), strict=True))


def _scalars(keys: pa.RecordBatch, at: int, conf: FrameConf) -> list[Any]:
    column, schema = keys.column(at), pa.schema([keys.schema.field(at)])
    if column.null_count and (pa.types.is_integer(column.type) or pa.types.is_boolean(column.type)):
        null = conf.series_of(pa.RecordBatch.from_arrays([column.filter(column.is_null()).slice(0, 1)], schema=schema))
        known = iter(_elements(conf.series_of(pa.RecordBatch.from_arrays([column.drop_null()], schema=schema))[0]))
        return [next(known) if valid else null[0][0] for valid in column.is_valid().to_pylist()]
    return _elements(conf.series_of(pa.RecordBatch.from_arrays([column], schema=schema))[0])


def _elements(series: Any) -> list[Any]:
    """The elements as ``series[i]`` has them: values of NumPy where a loop over the series would have Python's."""
    return (
        list(series.to_numpy()) if series.dtype.kind in "biufc" and isinstance(series.dtype, np.dtype) else list(series)
    )


class ReturnedFrames:
    """Collects the frames that a function returns.

    Args:
        schema: declared for them.
        output: the same in Arrow.
        conf: of the user's session.
    """

    def __init__(self, schema: StructType, output: pa.Schema, conf: FrameConf) -> None:
        self._schema, self._output, self._conf = schema, output, conf
        self._frames: list[pd.DataFrame] = []
        self._rows = 0
        self.batches: list[pa.RecordBatch] = []

    def add(self, frame: pd.DataFrame) -> None:
        """Collect one; as in Spark, those without rows are ignored."""
        if len(frame):
            self._frames.append(frame)
            self._rows += len(frame)
            if self._rows > self._conf.records_max:
                self.flush()

    def flush(self) -> None:
        """Convert what has been collected."""
        if self._frames:
            converted = self._conf.to_arrow(self._concatenated(self._frames), self._schema)
            typed = [of_type(each, field.type) for each, field in zip(converted.columns, self._output, strict=True)]
            self.batches.append(pa.RecordBatch.from_arrays(typed, schema=self._output))
            self._frames, self._rows = [], 0

    def _concatenated(self, frames: Sequence[pd.DataFrame]) -> pd.DataFrame:
        """All frames in one, as PySpark does it: it adds a frame of the declared columns, so columns without names are null."""
        declared = pd.DataFrame(dict.fromkeys(self._schema.names), index=[])
        with warnings.catch_warnings():
            warnings.simplefilter(
                "ignore", FutureWarning
            )  # pandas: of the types of empty frames, which have no effect here
            return pd.concat([*joined(frames), declared], ignore_index=True)
