"""``transformWithStateInPandas``: users get frames, and return frames.

PySpark makes a frame of each key's rows from Python values, so that the types of its columns depend on these rows alone: a column of whole
numbers has floats in the frames in which a number is missing, and only there. Here the rows of many keys are converted at once, and
frames are slices; keys whose rows have such gaps are converted one by one.
"""

from __future__ import annotations

import collections
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, cast

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.errors import PySparkValueError
from pyspark.sql.conversion import ArrowBatchTransformer
from pyspark.sql.types import StructField, StructType

from binshift.spark.tasks.frame_parts import FrameConf, joined, rows_of

OUTPUT_ROWS_MAX = 32_768
"""Rows that are converted together."""

OUTPUT_FRAMES_MAX = 2_048
"""Frames that are converted together."""


@dataclass(frozen=True)
class FrameFormat:
    """See `binshift.spark.tasks.processor_format.Format`.

    Attributes:
        names: of the columns of the input.
        initial_names: of those of the initial state.
        schema: of the output.
        conf: the user's.
    """

    names: list[str]
    initial_names: list[str]
    schema: StructType
    conf: FrameConf

    def keys(self, batch: pa.RecordBatch) -> list[tuple[Any, ...]]:
        """Grouping keys as users get them."""
        columns = []
        for column in batch.columns:
            whole = _whole(column)
            values = _widened(self.conf.series_of(_batch([whole]))[0]).tolist()
            gaps = np.flatnonzero(column.is_null().to_numpy(zero_copy_only=False)) if whole is not column else ()
            missing = None if pa.types.is_boolean(column.type) else float("nan")
            for at in gaps:
                values[at] = missing
            columns.append(values)
        return list(zip(*columns, strict=True))

    def input(self, batch: pa.RecordBatch) -> FrameInput:
        """Rows of the input."""
        return FrameInput(batch, _field_names(self.names), self.conf)

    def initial(self, batch: pa.RecordBatch) -> FrameInput:
        """Rows of the initial state."""
        return FrameInput(batch, _field_names(self.initial_names), self.conf)

    def output(self) -> FrameOutput:
        """Converts what users return."""
        return FrameOutput(self.schema, self.conf)


class FrameInput:
    """Rows of a batch in frames.

    Args:
        batch: the rows, sorted by key.
        names: the column names.
        conf: the user's.
    """

    def __init__(self, batch: pa.RecordBatch, names: list[str], conf: FrameConf) -> None:
        self._batch = batch
        self._names = names
        self._conf = conf
        average = max(batch.nbytes / max(batch.num_rows, 1), 1.0)
        self._rows_max = max(min(conf.records_max, int(conf.bytes_max / average)), 1)
        whole = [_whole(column) for column in batch.columns]
        self._frame = self._to_pandas(_batch(whole))
        gapped = [at for at, column in enumerate(batch.columns) if whole[at] is not column]
        gaps = np.zeros(batch.num_rows, dtype=np.int64)
        for at in gapped:
            gaps |= batch.column(at).is_null().to_numpy(zero_copy_only=False)
        self._gaps = np.concatenate(([0], np.cumsum(gaps))).tolist() if gapped else None

    def between(self, start: int, stop: int) -> Iterator[pd.DataFrame]:
        """The rows of one key."""
        for at in range(start, stop, self._rows_max):
            yield self._slice(at, min(at + self._rows_max, stop))

    def _slice(self, start: int, stop: int) -> pd.DataFrame:
        if self._gaps is not None and self._gaps[start] != self._gaps[stop]:
            return self._to_pandas(self._batch.slice(start, stop - start))
        return rows_of(self._frame, start, stop)

    def _to_pandas(self, batch: pa.RecordBatch) -> pd.DataFrame:
        """A frame of the batch, with the column types that frames made of Python values have."""
        columns = map(_widened, self._conf.series_of(batch))
        return pd.DataFrame(dict(enumerate(columns))).set_axis(self._names, axis=1)


class FrameOutput:
    """Converts frames that users return: those with equal columns together.

    Args:
        schema: of the rows.
        conf: the user's.
    """

    def __init__(self, schema: StructType, conf: FrameConf) -> None:
        self._schema = schema
        self._conf = conf
        self._frames: list[pd.DataFrame] = []
        self._count = 0

    def add(self, returned: Iterable[Any]) -> None:
        """Take what a method returned."""
        for frame in returned:
            if not isinstance(frame, pd.DataFrame):
                raise PySparkValueError(
                    "Invalid return type. Please make sure that the UDF returns a "
                    "pandas.DataFrame when the specified return type is StructType."
                )
            self._frames.append(frame)
            self._count += len(frame)

    @property
    def is_full(self) -> bool:
        """Whether it is time to `take`."""
        return self._count >= OUTPUT_ROWS_MAX or len(self._frames) >= OUTPUT_FRAMES_MAX

    def take(self) -> Iterator[pa.RecordBatch]:
        """Everything added since the last call."""
        frames, self._frames, self._count = self._frames, [], 0
        yield from map(self._converted, joined(frames))

    @cached_property
    def _wrapped(self) -> StructType:
        return StructType([StructField("_0", self._schema)])

    def _converted(self, frame: pd.DataFrame) -> pa.RecordBatch:
        return ArrowBatchTransformer.flatten_struct(self._conf.to_arrow([frame], self._wrapped))


def _field_names(names: list[str]) -> list[str]:
    """The column names of a frame made of named tuples, which replace what is no name in Python."""
    named_tuple = cast(Any, collections).namedtuple
    return list(named_tuple("Row", names, rename=True)._fields)


def _widened(series: pd.Series) -> pd.Series:
    """The column with the type that pandas gives to its values as Python objects."""
    kind = getattr(series.dtype, "kind", "O")
    if isinstance(series.dtype, np.dtype) and kind in "iu" and series.dtype != np.int64:
        return series.astype(np.int64)
    return series.astype(np.float64) if series.dtype == np.float32 else series


def _whole(column: pa.Array) -> pa.Array:
    """The column itself, or without its gaps where they change the type of the whole column."""
    type = column.type
    if column.null_count and (pa.types.is_integer(type) or pa.types.is_boolean(type)):
        return pc.fill_null(column, False if pa.types.is_boolean(type) else 0)
    return column


def _batch(columns: list[pa.Array]) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays(columns, names=[f"c{at}" for at in range(len(columns))])
