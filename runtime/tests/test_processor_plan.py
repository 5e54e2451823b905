"""Processors in Spark's plan: found, compiled, or rejected with an alternative."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from plan_world import clicks_stream, templates_of
from pyspark.errors import PySparkRuntimeError
from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from binshift.errors import InvalidQuery, Unsupported
from binshift.model import Worker
from binshift.operators.contract import BIN_COLUMN
from binshift.operators.expiry import EXPIRY_COLUMN
from binshift.operators.processor.operator import INITIAL_COLUMN
from binshift.operators.processor.variables import Kind
from binshift.routing import Route
from binshift.spark.plan.catalyst import analyzed, sequence
from binshift.spark.plan.eventtime import marked
from binshift.spark.plan.pipeline import CompiledStage, Pipeline
from binshift.spark.plan.stage import Due
from binshift.spark.stages.compiling import compile_program
from binshift.spark.stages.processors import NO_WATERMARK_MS, ProcessorStage

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

WORKERS = (Worker(0), Worker(1))
SCHEMA = "user long, n long"


class Processor(StatefulProcessor):
    """Defines variables.

    Args:
        ballast: makes it large.
        schema: of a value.
    """

    def __init__(self, ballast: bytes = b"", schema: str = "n long") -> None:
        self.ballast, self.schema = ballast, schema

    def init(self, handle: StatefulProcessorHandle) -> None:
        handle.getValueState("value", self.schema)
        handle.getListState("a list", "at timestamp, n int")
        handle.getMapState("map", "k string", "v double")

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Row]:
        yield Row(user=key[0], n=1)


@pytest.fixture(scope="module")
def clicks(spark: SparkSession) -> DataFrame:
    """A stream of (ts, user, amount)."""
    return clicks_stream(spark).withWatermark("ts", "10 seconds")


def compiled(frame: DataFrame) -> Pipeline:
    """The compiled query."""
    return compile_program(frame, templates_of(frame.sparkSession), "append", 16)


def stage_of(pipeline: Pipeline) -> ProcessorStage:
    """Its last stage."""
    stage = pipeline.stages[-1].stage
    assert isinstance(stage, ProcessorStage)
    return stage


def routed(stage: CompiledStage, *, first: bool = False) -> list[str]:
    """The columns that S gets."""
    return stage.routed(Route.initial(16, WORKERS), WORKERS, first=first).columns


def test_a_processor_is_compiled(clicks: DataFrame) -> None:
    """Variables are numbered by name; they and the keys are not part of the description, as they can change."""
    pipeline = compiled(clicks.groupBy("user").transformWithState(Processor(), SCHEMA, "Append", "None"))
    stage = stage_of(pipeline)
    assert pipeline.stages[0].name == "0.transformWithStateInPySparkExec"
    assert stage.description == "Append mode; None time"
    assert stage.named_keys == pa.schema([("user", pa.int64())])
    assert [(each.number, each.kind) for each in stage.operator.variables] == [
        (0, Kind.LIST),
        (1, Kind.MAP),
        (2, Kind.VALUE),
    ]
    assert {BIN_COLUMN, "k0", "c0", "c1", "c2"} < set(routed(pipeline.stages[0]))
    assert EXPIRY_COLUMN not in routed(pipeline.stages[0])
    assert stage.due is Due.WATERMARK
    assert stage.holds_back_ms == 0


def test_frames_and_processing_time(clicks: DataFrame) -> None:
    """The operator has Spark's name for frames; behind processing time there is no watermark."""
    applied = clicks.groupBy("user").transformWithStateInPandas(Processor(), SCHEMA, "Update", "ProcessingTime")
    pipeline = compiled(applied)
    assert pipeline.stages[0].name == "0.transformWithStateInPandasExec"
    assert stage_of(pipeline).due is Due.CLOCK
    assert stage_of(pipeline).holds_back_ms == NO_WATERMARK_MS


def test_event_time_of_input_and_output(clicks: DataFrame) -> None:
    """Rows are late by the input's event time, and the output has the one that the program names."""
    applied = clicks.groupBy("user").transformWithState(
        Processor(), "user long, at timestamp, n long", "Append", "EventTime", eventTimeColumnName="at"
    )
    pipeline = compiled(applied.select("at"))
    assert EXPIRY_COLUMN in routed(pipeline.stages[0])
    assert stage_of(pipeline).operator.event_time == "at"
    assert marked(sequence(analyzed(pipeline.result).output())) == [0]


def test_initial_state_is_an_input_of_the_first_epoch(spark: SparkSession, clicks: DataFrame) -> None:
    """Its rows are there in the first epoch only."""
    initial = spark.createDataFrame([(1, "x")], "who int, state string").groupBy("who")
    applied = clicks.groupBy("user").transformWithState(Processor(), SCHEMA, "Append", "None", initial)
    stage = compiled(applied).stages[0]
    assert {INITIAL_COLUMN, "i0", "i1"} < set(routed(stage, first=True))
    assert INITIAL_COLUMN not in routed(stage)


def test_large_processors_are_found(clicks: DataFrame) -> None:
    """PySpark makes a broadcast variable of what is larger than a megabyte."""
    applied = clicks.groupBy("user").transformWithState(Processor(bytes(3 << 20)), SCHEMA, "Append", "None")
    assert len(stage_of(compiled(applied)).operator.variables) == 3


def test_schemas_without_columns_are_refused(clicks: DataFrame) -> None:
    """A single type is no schema."""
    applied = clicks.groupBy("user").transformWithState(Processor(schema="long"), SCHEMA, "Append", "None")
    with pytest.raises(InvalidQuery, match="has the schema 'long', a single type"):
        compiled(applied)


def test_keys_that_cannot_be_stored_are_refused(clicks: DataFrame) -> None:
    """The message names the key and an alternative."""
    mapped = clicks.withColumn("m", F.collate(F.col("user").cast("string"), "UTF8_LCASE"))
    applied = mapped.groupBy("m").transformWithState(Processor(), SCHEMA, "Append", "None")
    with pytest.raises(Unsupported, match=r"groups by 'm', a key of type .*; group by a string"):
        compiled(applied)


class Twice(Processor):
    """Defines one variable twice."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        super().init(handle)
        handle.getListState("value", "n long")


def test_errors_of_init_are_sparks(clicks: DataFrame) -> None:
    """They are raised when the query starts."""
    applied = clicks.groupBy("user").transformWithState(Twice(), SCHEMA, "Append", "None")
    with pytest.raises(PySparkRuntimeError, match="STATEFUL_PROCESSOR_DUPLICATE_STATE_VARIABLE_DEFINED"):
        compiled(applied)
