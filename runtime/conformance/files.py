"""The input of a program as files: one Parquet file for each stream and step, visible to all streams at once.

A step's files are written under another name, and one rename of their folder makes them visible; each stream reads one
file name in all folders of steps. Spark lists its sources one after the other, so a batch could still begin between two listings:
`visible_at_once` prevents it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.types import StructType

from conformance.program import START, Program, Rows, Stream


def read(session: SparkSession, folder: Path, number: int, source: Stream) -> DataFrame:
    """A stream of one file per batch: file ``number`` in each folder of a step."""
    reader = session.readStream.schema(source.schema).option("maxFilesPerTrigger", 1)
    return reader.parquet(str(folder / "step-*" / f"{number}.parquet"))


def put(program: Program, folder: Path, step: int, query: StreamingQuery) -> None:
    """Make the files of a step visible to a running query."""
    hidden = folder / f"hidden-{step}"
    hidden.mkdir(parents=True)
    for number, source in enumerate(program.inputs):
        if source.steps[step]:
            pq.write_table(table(source.schema, source.steps[step]), hidden / f"{number}.parquet")
    with visible_at_once(query):
        hidden.rename(folder / f"step-{step}")


def table(schema: str, rows: Rows) -> pa.Table:
    """The rows as Arrow; numbers in timestamp columns are seconds after `START`."""
    parsed = StructType.fromDDL(schema)
    assert isinstance(parsed, StructType)
    arrow = to_arrow_schema(parsed, timezone="UTC")
    columns = []
    for at, field in enumerate(arrow):
        values = [_time(row[at]) if pa.types.is_timestamp(field.type) else row[at] for row in rows]
        columns.append(pa.array(values, field.type))
    return pa.Table.from_arrays(columns, schema=arrow)


def _time(value: Any) -> Any:
    return START + timedelta(seconds=value) if isinstance(value, int | float) else value


@contextmanager
def visible_at_once(query: StreamingQuery) -> Iterator[None]:
    """Hold the lock under which Spark lists the sources of a batch, as Spark's own `StreamTest` does to add data to several streams.

    PySpark runs all Java calls of one Python thread in one Java thread, so the lock is released by its owner.
    """
    lock = query._jsq.streamingQuery().awaitProgressLock()
    lock.lock()
    try:
        yield
    finally:
        lock.unlock()
