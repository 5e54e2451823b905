"""Rows as the frames of pandas that PySpark would give a function, and the frames that it returns as rows again.

PySpark's own code converts in both directions, so that types are Spark's. It converts the rows of one key; here all keys of a
call are converted together and cut apart. A column of whole numbers or booleans has another type in pandas if it has nulls, so
the rows of a key with such nulls are converted by themselves.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from pyspark.sql.conversion import ArrowBatchTransformer, PandasToArrowConversion
from pyspark.sql.types import StructType

from binshift.rows import of_type
from binshift.spark.tasks.frame_parts import joined, rows_of


@dataclass(frozen=True)
class PandasConf:
    """The conf of the user's session by which Spark converts.

    Attributes:
        timezone: of the session.
        by_name: whether returned columns with names are found by them.
        safe: whether values that do not fit the declared type are errors.
        int_to_decimal: whether whole numbers may become decimals.
        int_extension: whether whole numbers have pandas' extension types.
        frame_rows_max: rows in one frame.
    """

    timezone: str
    by_name: bool = True
    safe: bool = False
    int_to_decimal: bool = False
    int_extension: bool = False
    frame_rows_max: int = 10_000


class Frames:
    """The rows of some keys as frames.

    Args:
        rows: all input columns.
        conf: of the user's session.
    """

    def __init__(self, rows: pa.RecordBatch, conf: PandasConf) -> None:
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
        """The rows from ``start`` to before ``end``, in frames of at most `PandasConf.frame_rows_max` rows, each counted from 0."""
        for begin in range(start, end, self._conf.frame_rows_max):
            stop = min(end, begin + self._conf.frame_rows_max)
            if self._types_vary[stop] > self._types_vary[begin]:
                yield self._frame(self._rows.slice(begin, stop - begin))
            else:
                yield rows_of(self._whole, begin, stop)

    def none(self) -> pd.DataFrame:
        """A frame with all columns and no rows."""
        return pd.DataFrame(columns=self._whole.columns)

    def _frame(self, rows: pa.RecordBatch) -> pd.DataFrame:
        return pd.concat(series_of(rows, self._conf), axis=1)


def series_of(rows: pa.RecordBatch, conf: PandasConf) -> list[Any]:
    """The columns as PySpark gives them to functions."""
    return ArrowBatchTransformer.to_pandas(rows, timezone=conf.timezone, prefer_int_ext_dtype=conf.int_extension)


def keys_of(keys: pa.RecordBatch, conf: PandasConf) -> list[tuple[Any, ...]]:
    """Each key as PySpark gives it to functions: a tuple of NumPy's or pandas' values."""
    return list(zip(*(_scalars(keys, at, conf) for at in range(keys.num_columns)), strict=True))


def _scalars(keys: pa.RecordBatch, at: int, conf: PandasConf) -> list[Any]:
    column, schema = keys.column(at), pa.schema([keys.schema.field(at)])
    if column.null_count and (pa.types.is_integer(column.type) or pa.types.is_boolean(column.type)):
        null = series_of(pa.RecordBatch.from_arrays([column.filter(column.is_null()).slice(0, 1)], schema=schema), conf)
        known = iter(_elements(series_of(pa.RecordBatch.from_arrays([column.drop_null()], schema=schema), conf)[0]))
        return [next(known) if valid else null[0][0] for valid in column.is_valid().to_pylist()]
    return _elements(series_of(pa.RecordBatch.from_arrays([column], schema=schema), conf)[0])


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

    def __init__(self, schema: StructType, output: pa.Schema, conf: PandasConf) -> None:
        self._schema, self._output, self._conf = schema, output, conf
        self._frames: list[pd.DataFrame] = []
        self._rows = 0
        self.batches: list[pa.RecordBatch] = []

    def add(self, frame: pd.DataFrame) -> None:
        """Collect one; as in Spark, those without rows are ignored."""
        if len(frame):
            self._frames.append(frame)
            self._rows += len(frame)
            if self._rows > self._conf.frame_rows_max:
                self.flush()

    def flush(self) -> None:
        """Convert what has been collected."""
        if self._frames:
            converted = PandasToArrowConversion.convert(
                self._concatenated(self._frames),
                self._schema,
                timezone=self._conf.timezone,
                safecheck=self._conf.safe,
                arrow_cast=True,
                assign_cols_by_name=self._conf.by_name,
                int_to_decimal_coercion_enabled=self._conf.int_to_decimal,
            )
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
