"""The writer: PySpark's methods, the destination of each option, and what is rejected before anything runs."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from frame_world import Started, started_queries
from pyspark.errors import IllegalArgumentException, PySparkValueError
from pyspark.sql.streaming.readwriter import DataStreamWriter

from binshift.errors import InvalidQuery, InvalidSettings, Unsupported
from binshift.spark.checkpoint import check_location
from binshift.spark.frame import StatefulFrame, stateful
from binshift.spark.jvm import check_file_system
from binshift.spark.sinks import FileSink, ForeachBatchSink, ForeachSink, KafkaSink, MemorySink, NoopSink
from binshift.spark.writer import StatefulStreamWriter

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CHECKPOINT = "checkpointLocation"
PUBLIC = [name for name in dir(DataStreamWriter) if not name.startswith("_")]


@pytest.fixture(scope="module")
def counts(spark: SparkSession) -> StatefulFrame:
    """A counting query, in update mode only because it has no watermark."""
    stream = spark.readStream.format("rate").load().selectExpr("value % 10 AS user")
    return stateful(stream, batch_size=16, bins=64).groupBy("user").count()


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> Started:
    """The start arguments of queries; none is really started."""
    return started_queries(monkeypatch)


@pytest.fixture
def writer(counts: StatefulFrame, started: object, tmp_path: Path) -> StatefulStreamWriter:
    """A writer that could start."""
    return counts.writeStream.format("noop").outputMode("update").option(CHECKPOINT, str(tmp_path / "log"))


@pytest.mark.parametrize("name", PUBLIC)
def test_every_method_of_pysparks_writer_is_there(name: str) -> None:
    """No method is missing, and each takes PySpark's parameters by PySpark's names."""
    ours, theirs = (inspect.signature(getattr(owner, name)) for owner in (StatefulStreamWriter, DataStreamWriter))
    if name not in ("clusterBy", "toTable"):
        assert [(p.name, p.kind) for p in ours.parameters.values()] == [
            (p.name, p.kind) for p in theirs.parameters.values()
        ]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda w: w.trigger(continuous="1 second"), r"trigger\(continuous=...\) is not supported: .*micro-batches"),
        (lambda w: w.trigger(realTime="1 second"), r"trigger\(realTime=...\) is not supported: .*micro-batches"),
        (lambda w: w.clusterBy("user"), "clusterBy is not supported: use foreachBatch"),
        (lambda w: w.toTable("counts"), r"toTable is not supported: .*writeTo\('counts'\)"),
        (lambda w: w.outputMode("complete"), "use 'update'"),
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
        (lambda w: w.outputMode("often"), InvalidQuery),
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
        (lambda w: w.start(outputMode="append"), InvalidQuery),
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


def test_everything_reaches_the_query(counts: StatefulFrame, started: Started, tmp_path: Path) -> None:
    """Name, mode, trigger, checkpoint and the sink's options arrive; settings do not remain among the options."""
    writer = counts.writeStream.queryName("clicks").format("JSON").outputMode("Update")
    writer.trigger(processingTime="2 seconds").partitionBy(["user"]).options(compression="gzip", ignored=None)
    writer.option("binshift.preCopy", False).option("CHECKPOINTlocation", "/log").start(str(tmp_path))
    definition, options = started[0]
    assert (definition.settings.pre_copy, definition.settings.batch_size, definition.settings.bins) == (False, 16, 64)
    assert (options.query_name, options.output_mode, options.checkpoint_location) == ("clicks", "update", "/log")
    assert dict(options.trigger) == {"processingTime": "2 seconds"}
    assert dict(options.options) == {"compression": "gzip", "path": str(tmp_path)}
    assert isinstance(options.sink, FileSink)
    assert (options.sink.name, options.sink.path) == ("json", str(tmp_path))


def test_arguments_of_start_win(writer: StatefulStreamWriter, started: Started, tmp_path: Path) -> None:
    """As in PySpark, arguments of start replace earlier settings."""
    writer.format("memory").queryName("a").option("truncate", True)
    writer.start(str(tmp_path), format="csv", queryName="b", partitionBy=["user"], truncate="false")
    options = started[0][1]
    assert (options.query_name, options.sink.name, options.options["truncate"]) == ("b", "csv", "false")


def test_the_nearest_setting_wins(spark: SparkSession, counts: StatefulFrame, started: Started) -> None:
    """A writer's option takes precedence over the keyword of stateful, which takes precedence over Spark conf."""
    spark.conf.set("binshift.batchSize", "4")
    spark.conf.set("binshift.epochAttemptsMax", "5")
    try:
        writer = counts.writeStream.format("noop").outputMode("update").option(CHECKPOINT, "/log")
        writer.start()
        writer.option("binshift.batchsize", 32).start()
    finally:
        spark.conf.unset("binshift.batchSize")
        spark.conf.unset("binshift.epochAttemptsMax")
    assert [d.settings.batch_size for d, _ in started] == [16, 32]
    assert [d.settings.epoch_attempts_max for d, _ in started] == [5, 5]


def test_an_option_may_be_given_twice_in_any_case(writer: StatefulStreamWriter, started: Started) -> None:
    """Options are case-insensitive, and the last one counts."""
    writer.option("numRows", 3).option("NUMROWS", 4).start(format="console")
    assert dict(started[0][1].options) == {"NUMROWS": "4"}


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
    assert isinstance(started[0][1].sink, kind)


def test_a_sink_of_ones_own(writer: StatefulStreamWriter, started: Started) -> None:
    """An object that is a sink is used unchanged."""
    sink = NoopSink()
    writer.format(sink).start()
    assert started[0][1].sink is sink


def test_kafka_is_checked_against_the_result(counts: StatefulFrame, started: Started) -> None:
    """A Kafka sink needs a value column, a topic and servers before the first epoch."""
    frame = counts.selectExpr("cast(user AS string) AS key", "cast(count AS string) AS value")
    writer = frame.writeStream.format("kafka").outputMode("update").option(CHECKPOINT, "/log")
    with pytest.raises(InvalidQuery, match="topic"):
        writer.start()
    with pytest.raises(InvalidQuery, match="servers"):
        writer.option("topic", "counts").start()
    writer.option("kafka.bootstrap.servers", "localhost:9092").start()
    assert isinstance(started[0][1].sink, KafkaSink)


def test_a_checkpoint_location_is_needed(spark: SparkSession, counts: StatefulFrame, started: Started) -> None:
    """It comes from the option, or from Spark conf and the query's name, as in Spark; otherwise the query is rejected."""
    writer = counts.writeStream.format("noop").outputMode("update")
    with pytest.raises(InvalidQuery, match=r"option\('checkpointLocation'"):
        writer.start()
    spark.conf.set("spark.sql.streaming.checkpointLocation", "/logs/")
    try:
        with pytest.raises(InvalidQuery, match="queryName"):
            writer.start()
        writer.start(queryName="clicks")
        writer.option(CHECKPOINT, "/own").start()
    finally:
        spark.conf.unset("spark.sql.streaming.checkpointLocation")
    assert [options.checkpoint_location for _, options in started] == ["/logs/clicks", "/own"]


def test_an_assigned_checkpoint_is_the_one(spark: SparkSession, counts: StatefulFrame, started: Started) -> None:
    """The launcher of the program may set the location: the program need not set it, and cannot set another."""
    spark.conf.set("spark.binshift.checkpoint", "/mnt/log/clicks")
    try:
        writer = counts.writeStream.format("noop").outputMode("update")
        writer.start()
        writer.option(CHECKPOINT, "file:///mnt/log/clicks/").start()
        with pytest.raises(InvalidQuery, match=r"'/elsewhere', but was started with '/mnt/log/clicks'"):
            writer.option(CHECKPOINT, "/elsewhere").start()
    finally:
        spark.conf.unset("spark.binshift.checkpoint")
    assert [options.checkpoint_location for _, options in started] == ["/mnt/log/clicks"] * 2


def test_the_default_format_is_sparks(counts: StatefulFrame, started: Started, tmp_path: Path) -> None:
    """Without a format the session's default source is written."""
    counts.writeStream.outputMode("update").option(CHECKPOINT, str(tmp_path / "log")).start(str(tmp_path / "out"))
    assert started[0][1].sink.name == "parquet"


def test_files_of_another_query_are_not_overwritten(counts: StatefulFrame, started: Started, tmp_path: Path) -> None:
    """A new query would begin at epoch 0 again: it must not do so where an older one has written."""
    out, log = tmp_path / "out", tmp_path / "log"
    (out / "epoch=0").mkdir(parents=True)
    writer = counts.writeStream.format("parquet").outputMode("update").option(CHECKPOINT, str(log))
    with pytest.raises(InvalidQuery, match="holds 1 epochs of another query"):
        writer.start(str(out))
    log.mkdir()
    (log / "metadata").write_text("{}")
    writer.start(str(out))
    assert len(started) == 1


def test_a_checkpoint_on_s3_needs_a_file_system(spark: SparkSession) -> None:
    """Spark has none by default; the message has the instructions, before anything is written."""
    with pytest.raises(InvalidSettings, match=r"s3a://bucket/clicks.*scripts/s3-jars.sh"):
        check_file_system(spark, check_location("s3://bucket/clicks"))
