"""Processors before and behind other operators, and what Spark refuses."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from conformance.program import Kind
from conformance.programs.aggregation import WORDS
from conformance.programs.processor_times import EVENTS, HOUR_MS
from conformance.programs.processors import ROCKSDB, Count

case = Kind("processors in chains")

COUNTED = "k string, n long, known boolean, times string"


class Passing(StatefulProcessor):
    """Passes rows, with their number."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self.count = handle.getValueState("count", "n long")

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:
        for row in rows:
            number = (self.count.get() or (0,))[0] + 1
            self.count.update((number,))
            yield Row(k=key[0], ts=row.ts, n=number)


@case(EVENTS, conf=ROCKSDB, source="TransformWithStateChainingSuite: followed by an aggregation")
def before_an_aggregate(events: DataFrame) -> DataFrame:
    """The output's own event time closes the windows behind."""
    timed = events.withWatermark("ts", "10 seconds").groupBy("k")
    passed = timed.transformWithState(
        Passing(), "k string, ts timestamp, n long", "Append", "EventTime", eventTimeColumnName="ts"
    )
    return passed.groupBy(F.window("ts", "10 seconds")).agg(F.sum("n").alias("sum")).select("window.start", "sum")


@case(EVENTS, conf=ROCKSDB, source="TransformWithStateChainingSuite: two processors")
def two_processors(events: DataFrame) -> DataFrame:
    """A processor behind a processor."""
    timed = events.withWatermark("ts", "10 seconds").groupBy("k")
    schema = "k string, ts timestamp, n long"
    passed = timed.transformWithState(Passing(), schema, "Append", "EventTime", eventTimeColumnName="ts")
    return passed.groupBy("n").transformWithState(Second(), "k long, ts timestamp, n long", "Append", "EventTime")


class Second(Passing):
    """The same, over the output of the first, which comes from several tasks in any order."""

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:
        return super().handleInputRows(key, iter(sorted(rows, key=lambda row: row.ts)), timerValues)


@case(EVENTS, conf=ROCKSDB, source="TransformWithStateChainingSuite: behind deduplication")
def behind_deduplication(events: DataFrame) -> DataFrame:
    """A processor of distinct rows, and a filter behind it."""
    distinct = events.withWatermark("ts", "10 seconds").dropDuplicates(["k", "ts"])
    counted = distinct.groupBy("k").transformWithState(Count(), COUNTED, "Append", "None")
    return counted.where("n > 1").select("k", "n")


class Older(Passing):
    """Returns rows that are older than the watermark."""

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:
        for row in super().handleInputRows(key, rows, timerValues):
            yield Row(k=row.k, ts=datetime(2000, 1, 1, tzinfo=UTC), n=row.n)


@case(EVENTS, conf=ROCKSDB, fails=True, source="TransformWithStateChainingSuite: rows older than the watermark")
def older_than_watermark(events: DataFrame) -> DataFrame:
    """A late row in the output fails the query."""
    timed = events.withWatermark("ts", "10 seconds").groupBy("k")
    schema = "k string, ts timestamp, n long"
    return timed.transformWithState(Older(), schema, "Append", "EventTime", eventTimeColumnName="ts").select("k", "n")


@case(WORDS, mode="update", conf=ROCKSDB, source="TransformWithStateSuite: complete mode")
def mode_of_the_processor(words: DataFrame) -> DataFrame:
    """The processor's mode may be any."""
    return words.groupBy("k").transformWithState(Count(), COUNTED, "Complete", "None")


@case(WORDS, mode="append", conf=ROCKSDB, source="python: test_transform_with_state_query_restarts")
def mode_of_the_writer(words: DataFrame) -> DataFrame:
    """The writer's mode need not be the processor's."""
    return words.groupBy("k").transformWithState(Count(), COUNTED, "Update", "None")


class Failing(StatefulProcessor):
    """Does one thing that Spark refuses, when the word "c" comes.

    Args:
        what: one of them.
    """

    def __init__(self, what: str) -> None:
        self.what = what

    def init(self, handle: StatefulProcessorHandle) -> None:
        self.handle = handle
        self.list = handle.getListState("list", "n long")
        match self.what:
            case "twice":
                handle.getListState("list", "n long")
            case "ttl":
                handle.getValueState("ttl", "n long", HOUR_MS)

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:
        if key[0] == "c":
            match self.what:
                case "empty":
                    self.list.put([])
                case "late definition":
                    self.handle.getValueState("late", "n long")
                case "timer":
                    self.handle.registerTimer(1)
        yield Row(k=key[0])


def failing(what: str, words: DataFrame) -> DataFrame:
    """A query with it."""
    return words.groupBy("k").transformWithState(Failing(what), "k string", "Append", "None")


@case(WORDS, conf=ROCKSDB, fails=True, source="StateServer: the same name twice")
def variable_defined_twice(words: DataFrame) -> DataFrame:
    """Two variables of one name and kind."""
    return failing("twice", words)


@case(WORDS, conf=ROCKSDB, fails=True, source="TransformWithValueStateTTLSuite: ttl without processing time")
def ttl_without_processing_time(words: DataFrame) -> DataFrame:
    """A time to live needs processing time."""
    return failing("ttl", words)


@case(WORDS, conf=ROCKSDB, fails=True, source="TransformWithStateSuite: timers without a time mode")
def timer_without_time(words: DataFrame) -> DataFrame:
    """A timer needs a time mode."""
    return failing("timer", words)


@case(WORDS, conf=ROCKSDB, fails=True, source="TransformWithListStateSuite: empty lists")
def empty_list(words: DataFrame) -> DataFrame:
    """A list cannot be set to nothing."""
    return failing("empty", words)


@case(WORDS, conf=ROCKSDB, fails=True, source="StatefulProcessorHandleSuite: invalid handle state")
def variable_defined_late(words: DataFrame) -> DataFrame:
    """Variables are defined in init."""
    return failing("late definition", words)
