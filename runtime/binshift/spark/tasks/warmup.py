"""Warms an executor before its first bin: the JVM's code, and two Python workers with modules loaded and store open.

A cold executor delays its first epoch by a second or more, and its first background round by another half: classes are loaded,
Python is forked and imports its modules. Two simultaneous tasks make Spark fork two Python workers, which then wait in its
pool for the epoch and for the background work. To ensure that they are two, each waits (for a bounded time) until it sees the
other: a rendezvous by files in the store's directory.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DateType,
    MapType,
    NumericType,
    ShortType,
    StringType,
    StructType,
    TimestampType,
)

from binshift.spark.tasks.task import (
    Environment,
    Place,
    check_place,
    freeze_gc,
    operator_from,
    pinned_partition,
    storage_of,
    store_of,
    store_path,
    store_root,
)
from binshift.store.abandoned import remove_abandoned

MEETING = "warm"
RENDEZVOUS_SECONDS_MAX = 10.0
POLL_SECONDS = 0.01
TASKS_PER_WORKER = 2
MADE_UP_ROWS = 8192


class WarmFunction:
    """Runs in place of S: loads everything an epoch needs, takes no rows and returns none."""

    def __init__(
        self, places: tuple[Place, ...], environment: Environment, name: str, operator: bytes, token: str
    ) -> None:
        self._places = places
        self._name = name
        self._environment = environment
        self._operator = operator
        self._token = token

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Load and open everything, then wait for the other task of this worker."""
        context = TaskContext.get()
        partition = 0 if context is None else pinned_partition(context)
        place = self._places[partition]
        check_place(place)
        remove_abandoned(store_root(self._environment), self._environment.query, time.time())
        operator_from(self._operator)
        storage_of(self._environment.log)
        store_of(self._environment, self._name, place.worker).status()
        meeting = store_path(self._environment, f"{MEETING}.{self._token}", place.worker)
        remove_meetings(meeting.parent, f"{MEETING}.{self._token}-", time.time())
        rendezvous(meeting, os.getpid())
        for _ in batches:
            pass
        freeze_gc("warming up")
        return
        yield  # an empty generator


class NothingStored:
    """Runs in place of what reads the state: nothing is stored.

    Args:
        schema: the columns it returns: the ones of its rows, and then others.
    """

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Add columns of nulls."""
        for batch in batches:
            added = [pa.nulls(batch.num_rows, each.type) for each in list(self._schema)[batch.num_columns :]]
            yield pa.RecordBatch.from_arrays([*batch.columns, *added], names=self._schema.names)


def synthetic_rows(spark: SparkSession, schema: StructType) -> DataFrame:
    """Rows of a stream's schema with many different keys, for the JVM's part of an epoch; nested columns are null if they may be."""
    columns = [_made_up(field.dataType, field.nullable).alias(field.name) for field in schema]
    return spark.range(0, MADE_UP_ROWS, 1, 2).select(*columns)


def _made_up(type: DataType, nullable: bool) -> Column:
    small = F.pmod(F.col("id"), F.lit(100))
    if isinstance(type, ByteType | ShortType | BooleanType):
        return small.cast(type)
    if isinstance(type, NumericType | StringType | TimestampType):
        return F.col("id").try_cast(type)
    if nullable:
        return F.lit(None).cast(type)
    match type:
        case StructType():
            return F.struct(*(_made_up(field.dataType, field.nullable).alias(field.name) for field in type)).cast(type)
        case ArrayType():
            return F.array().cast(type)
        case MapType():
            return F.create_map().cast(type)
        case BinaryType():
            return F.lit("").cast(type)
        case DateType():
            return F.date_from_unix_date(small.cast("int")).cast(type)
        case _:
            return F.lit("1970-01-01 00:00:00").cast(type)


def runs_python(frame: DataFrame) -> bool:
    """Whether a batch frame calls the user's Python functions, which must never see made-up rows."""
    plan: Any = frame._jdf
    return "EvalPython" in plan.queryExecution().executedPlan().toString()


def rendezvous(directory: Path, process: int) -> bool:
    """Wait until `TASKS_PER_WORKER` processes have reached ``directory``; whether they did in time.

    More can come, also when the others have left: a plan may run the same operator twice, even in one task.
    """
    directory.mkdir(parents=True, exist_ok=True)
    (directory / str(process)).touch()
    deadline = time.monotonic() + RENDEZVOUS_SECONDS_MAX
    while time.monotonic() < deadline:
        if len(list(directory.iterdir())) >= TASKS_PER_WORKER:
            return True
        time.sleep(POLL_SECONDS)
    return False


def remove_meetings(stores: Path, keep: str, now: float) -> None:
    """Remove the folders of earlier rehearsals, in which no process waits any more.

    Args:
        stores: of the query.
        keep: the prefix of this rehearsal's.
        now: seconds since 1970.
    """
    for each in stores.glob(f"{MEETING}.*"):
        with suppress(OSError):  # removed by another task
            if not each.name.startswith(keep) and now - each.stat().st_mtime > 2 * RENDEZVOUS_SECONDS_MAX:
                shutil.rmtree(each, ignore_errors=True)
