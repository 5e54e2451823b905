"""A user function for `applyInPandasWithState`, total and count by name, over the counted stream; and its result."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from counted import NAMES, ROWS, stream
from pyspark import cloudpickle
from pyspark.sql import SparkSession

import binshift
from binshift.spark.frontend.writer import StatefulStreamWriter

# Executors do not have the tests' folder.
cloudpickle.register_pickle_by_value(sys.modules[__name__])  # type: ignore[no-untyped-call]

BINS = 32
NAME, STATE = "name string", "total long, seen long"
OUTPUT = f"{NAME}, {STATE}"

Tables = tuple[pa.Table, pa.Table]
Step = Callable[[pa.RecordBatch, pa.Table, pa.Table], Tables]
Totals = dict[str, tuple[int, int]]


def summed(keys: pa.RecordBatch, rows: pa.Table, state: pa.Table) -> Tables:
    """The correct function."""
    sums = rows.group_by("name", use_threads=False).aggregate([("value", "sum"), ("value", "count")])
    joined = sums.join(state, "name", join_type="left outer")
    total = pc.add(joined["value_sum"], pc.fill_null(joined["total"], 0))
    seen = pc.add(joined["value_count"], pc.fill_null(joined["seen"], 0))
    after = pa.table({"name": joined["name"], "total": total, "seen": seen})
    return after, after


def totalling(session: SparkSession, step: Step, state: str = STATE, **settings: Any) -> StatefulStreamWriter:
    """The writer of a query around a function."""
    groups = stream(session).where("name is not null").select("name", "value").groupBy("name")
    frame = groups.applyInPandasWithState(binshift.vectorised(step), OUTPUT, state, "update", "NoTimeout")
    return binshift.writeStream(frame, bins=BINS, workers=2, **settings).outputMode("update")


class Kept:
    """A sink that keeps each epoch's rows."""

    def __init__(self) -> None:
        self.epochs: dict[int, dict[str, Any]] = {}

    def __call__(self, frame: Any, epoch: int) -> None:
        """Keep the rows of one epoch."""
        self.epochs[epoch] = {row[0]: tuple(row[1:]) for row in frame.collect()}


def answers(epochs: int) -> Iterator[Totals]:
    """The expected output of each of the first epochs: the names it has changed, with their totals so far."""
    state: Totals = {}
    for epoch in range(epochs):
        touched: Totals = {}
        for value in range(epoch * ROWS, (epoch + 1) * ROWS):
            if value % NAMES:
                total, seen = state.get(f"u{value % NAMES}", (0, 0))
                state[f"u{value % NAMES}"] = touched[f"u{value % NAMES}"] = (total + value, seen + 1)
        yield touched
