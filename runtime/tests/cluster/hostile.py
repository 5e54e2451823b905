"""Programs that go wrong on purpose, and what must be left when they have: for tests of user functions and checkpoints."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from counted import stream
from log_drivers import snapshot
from pyspark import cloudpickle
from pyspark.sql import SparkSession

import binshift
from binshift.log.inspect import verify

cloudpickle.register_pickle_by_value(sys.modules[__name__])  # executors do not have the tests' folder

BINS = 32
NAME, STATE = "name string", "total long, seen long"
OUTPUT = f"{NAME}, {STATE}"
MESSAGE_LINES_MAX = 20
JAVA = ("org.apache.spark", "java.lang", "scala.", "\tat ", "py4j")
"""What a user must not have to read."""

Tables = tuple[pa.Table, pa.Table]
Step = Callable[[pa.RecordBatch, pa.Table, pa.Table], Tables]


def summed(keys: pa.RecordBatch, rows: pa.Table, state: pa.Table) -> Tables:
    """The function as it should be: total and count by name."""
    sums = rows.group_by("name", use_threads=False).aggregate([("value", "sum"), ("value", "count")])
    joined = sums.join(state, "name", join_type="left outer")
    total = pc.add(joined["value_sum"], pc.fill_null(joined["total"], 0))
    seen = pc.add(joined["value_count"], pc.fill_null(joined["seen"], 0))
    after = pa.table({"name": joined["name"], "total": total, "seen": seen})
    return after, after


def framed(session: SparkSession, step: Step, state: str = STATE, **settings: Any) -> Any:
    """A query around a function."""
    events = stream(session).where("name is not null").select("name", "value")
    frame = binshift.stateful(events, bins=BINS, workers=2, **settings).groupBy("name")
    return frame.applyInArrowWithState(step, OUTPUT, state, "update", "NoTimeout")


class Kept:
    """A sink that keeps each epoch's rows."""

    def __init__(self) -> None:
        self.epochs: dict[int, dict[str, Any]] = {}

    def __call__(self, frame: Any, epoch: int) -> None:
        """Keep the rows of one epoch."""
        self.epochs[epoch] = {row[0]: tuple(row[1:]) for row in frame.collect()}


def writer(frame: Any, checkpoint: Path, sink: Any = None) -> Any:
    """A writer that only has to be started."""
    made = frame.writeStream.outputMode("update").option("checkpointLocation", str(checkpoint))
    return made.foreachBatch(sink) if sink else made.format("noop")


def check_told(message: str, *wanted: str) -> None:
    """A message that names what is wanted in a few lines, without a wall of Java."""
    assert len(message.splitlines()) < MESSAGE_LINES_MAX, message
    assert [each for each in wanted if each not in message] == [], message
    assert [each for each in JAVA if each in message] == [], message


def check_log(checkpoint: Path) -> None:
    """Every bin can be rebuilt from what the log has."""
    assert verify(str(checkpoint / "binshift")) == []


def bytes_of(checkpoint: Path) -> dict[str, bytes]:
    """Every file of a checkpoint, to compare it with itself later on."""
    return snapshot(checkpoint)
