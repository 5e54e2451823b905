"""The writer: PySpark's methods, the destination of each option, and what is rejected before anything runs."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from plan_world import Started, started_queries
from pyspark.errors import AnalysisException, IllegalArgumentException, PySparkValueError
from pyspark.sql import DataFrame
from pyspark.sql.streaming.readwriter import DataStreamWriter

import binshift
from binshift.errors import InvalidQuery, InvalidSettings, Unsupported
from binshift.spark.frontend.writer import StatefulStreamWriter
from binshift.spark.sinks import ConsoleSink, FileSink, ForeachBatchSink, ForeachSink, KafkaSink, MemorySink, NoopSink

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CHECKPOINT = "checkpointLocation"
PUBLIC = [name for name in dir(DataStreamWriter) if not name.startswith("_")]


@pytest.fixture(scope="module")
def counts(spark: SparkSession) -> DataFrame:
    """A counting query, not in append mode because it has no watermark."""
    return spark.readStream.format("rate").load().selectExpr("value % 10 AS user").groupBy("user").count()


def written(counts: DataFrame) -> StatefulStreamWriter:
    """Its writer."""
    return binshift.writeStream(counts, batch_size=16, bins=64)


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> Started:
    """The start arguments of queries; none is really started."""
    return started_queries(monkeypatch)


@pytest.fixture
def writer(counts: DataFrame, started: object, tmp_path: Path) -> StatefulStreamWriter:
    """A writer that could start."""
    return written(counts).format("noop").outputMode("update").option(CHECKPOINT, str(tmp_path / "log"))


@pytest.mark.parametrize("name", PUBLIC)
def test_every_method_of_pysparks_writer_is_there(name: str) -> None:
    """No method is missing, and each takes PySpark's parameters by PySpark's names."""
    ours, theirs = (inspect.signature(getattr(owner, name)) for owner in (StatefulStreamWriter, DataStreamWriter))
    if name != "clusterBy":
        assert [(p.name, p.kind) for p in ours.parameters.values()] == [
            (p.name, p.kind) for p in theirs.parameters.values()
        ]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda w: w.trigger(continuous="1 second"), r"trigger\(continuous=...\) is not supported: .*micro-batches"),
        (lambda w: w.trigger(realTime="1 second"), r"trigger\(realTime=...\) is not supported: .*micro-batches"),
        (lambda w: w.clusterBy("user"), "clusterBy is not supported: use foreachBatch"),
    ],
)
def test_missing_features_have_a_remedy(
    writer: StatefulStreamWriter, call: Callable[[StatefulStreamWriter], object], message: str
) -> None:
    """Unsupported names the method and the alternative."""
    with pytest.raises(Unsupported, match=message):
        call(writer)


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda w: w.outputMode("often"), IllegalArgumentException),
        (lambda w: w.format(3), InvalidQuery),
        (lambda w: w.partitionBy(3), InvalidQuery),
        (lambda w: w.foreachBatch("f"), InvalidQuery),
        (lambda w: w.foreach(object()), InvalidQuery),
        (lambda w: w.queryName(" "), PySparkValueError),
        (lambda w: w.trigger(), PySparkValueError),
        (lambda w: w.trigger(once=True, availableNow=True), PySparkValueError),
        (lambda w: w.trigger(availableNow=False), PySparkValueError),
        (lambda w: w.trigger(processingTime="soon"), IllegalArgumentException),
        (lambda w: w.option("binshift.batchSizes", 3).start(), InvalidSettings),
        (lambda w: w.option("binshift.batchSize", "many").start(), InvalidSettings),
        (lambda w: w.start(partitionBy="user"), InvalidQuery),
        (lambda w: w.start(partitionBy="user", format="memory", queryName="q"), InvalidQuery),
        (lambda w: w.start(format="memory"), InvalidQuery),
        (lambda w: w.start(format="parquet"), InvalidQuery),
        (lambda w: w.start(format="kafka"), InvalidQuery),
        (lambda w: w.start(outputMode="append"), AnalysisException),
        (lambda w: w.foreachBatch(print).start(partitionBy="user"), InvalidQuery),
    ],
)
def test_arguments_that_do_not_fit_are_refused(
    writer: StatefulStreamWriter,
    started: Started,
    call: Callable[[StatefulStreamWriter], Any],
    error: type[Exception],
) -> None:
    """Arguments that cannot work are rejected before a query is started."""
    with pytest.raises(error):
        call(writer)
    assert started == []


def test_the_writer_is_one_of_pysparks(writer: StatefulStreamWriter) -> None:
    """A function that takes a `DataStreamWriter` takes it, and its methods return it."""
    assert isinstance(writer, DataStreamWriter)
    assert writer.trigger(once=True) is writer.outputMode("complete") is writer.queryName("q") is writer


def test_everything_reaches_the_query(counts: DataFrame, started: Started, tmp_path: Path) -> None:
    """Name, mode, trigger, checkpoint and the sink's options arrive; settings do not remain among the options."""
    writer = written(counts).queryName("clicks").format("JSON").outputMode("Update")
    writer.trigger(processingTime="2 seconds").partitionBy(["user"]).options(compression="gzip", ignored=None)
    writer.option("binshift.preCopy", False).option("CHECKPOINTlocation", "/log").start(str(tmp_path))
    [options] = started
    assert (options.settings.pre_copy, options.settings.batch_size, options.settings.bins) == (False, 16, 64)
    assert (options.query_name, options.output_mode, options.checkpoint_location) == ("clicks", "update", "/log")
    assert dict(options.trigger) == {"processingTime": "2 seconds"}
    assert isinstance(options.sink, FileSink)
    assert options.sink._options == {"compression": "gzip"}
    assert (options.sink.name, options.sink.path) == ("json", str(tmp_path))


def test_arguments_of_start_win(writer: StatefulStreamWriter, started: Started, tmp_path: Path) -> None:
    """As in PySpark, arguments of start replace earlier settings."""
    writer.format("memory").queryName("a").option("truncate", True)
    writer.start(str(tmp_path), format="csv", queryName="b", partitionBy=["user"], truncate="false")
    options = started[0]
    assert isinstance(options.sink, FileSink)
    assert (options.query_name, options.sink.name, options.sink._options["truncate"]) == ("b", "csv", "false")


def test_the_nearest_setting_wins(spark: SparkSession, counts: DataFrame, started: Started) -> None:
    """A writer's option takes precedence over a keyword of writeStream, which takes precedence over Spark conf."""
    spark.conf.set("binshift.batchSize", "4")
    spark.conf.set("binshift.epochAttemptsMax", "5")
    try:
        writer = written(counts).format("noop").outputMode("update").option(CHECKPOINT, "/log")
        writer.start()
        writer.option("binshift.batchsize", 32).start()
    finally:
        spark.conf.unset("binshift.batchSize")
        spark.conf.unset("binshift.epochAttemptsMax")
    assert [each.settings.batch_size for each in started] == [16, 32]
    assert [each.settings.epoch_attempts_max for each in started] == [5, 5]


def test_an_option_may_be_given_twice_in_any_case(writer: StatefulStreamWriter, started: Started) -> None:
    """Options are case-insensitive, and the last one counts."""
    writer.option("numRows", 3).option("NUMROWS", 4).start(format="console")
    sink = started[0].sink
    assert isinstance(sink, ConsoleSink)
    assert sink._rows == 4


@pytest.mark.parametrize(
    ("name", "given", "kind"),
    [
        ("foreachBatch", lambda df, epoch: None, ForeachBatchSink),
        ("foreach", lambda row: None, ForeachSink),
        ("format", "noop", NoopSink),
        ("format", "memory", MemorySink),
    ],
)
def test_the_last_target_counts(
    writer: StatefulStreamWriter, started: Started, name: str, given: Any, kind: type
) -> None:
    """Functions and formats replace each other."""
    writer.foreach(print).format("console")
    getattr(writer, name)(given).start(queryName="last_target")
    assert isinstance(started[0].sink, kind)


def test_a_sink_of_ones_own(writer: StatefulStreamWriter, started: Started) -> None:
    """An object that is a sink is used unchanged."""
    sink = NoopSink()
    writer.format(sink).start()
    assert started[0].sink is sink


def test_kafka_is_checked_against_the_result(counts: DataFrame, started: Started) -> None:
    """A Kafka sink needs a value column, a topic and servers before the first epoch."""
    frame = counts.selectExpr("cast(user AS string) AS key", "cast(count AS string) AS value")
    writer = written(frame).format("kafka").outputMode("update").option(CHECKPOINT, "/log")
    with pytest.raises(InvalidQuery, match="topic"):
        writer.start()
    with pytest.raises(InvalidQuery, match="servers"):
        writer.option("topic", "counts").start()
    writer.option("kafka.bootstrap.servers", "localhost:9092").start()
    assert isinstance(started[0].sink, KafkaSink)


def test_the_default_format_is_sparks(counts: DataFrame, started: Started, tmp_path: Path) -> None:
    """Without a format the session's default source is written."""
    written(counts).outputMode("update").option(CHECKPOINT, str(tmp_path / "log")).start(str(tmp_path / "out"))
    assert started[0].sink.name == "parquet"
