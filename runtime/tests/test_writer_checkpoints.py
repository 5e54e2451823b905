"""Where a query's checkpoint is: given, assigned, or temporary; and which places are refused."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from plan_world import Started, started_queries
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

import binshift
from binshift.errors import InvalidQuery, InvalidSettings, Unsupported
from binshift.log.storage.locations import check_location
from binshift.spark.frontend.writer import StatefulStreamWriter
from binshift.spark.session.jvm import check_file_system
from binshift.spark.sinks import FileSink, Guarantee
from binshift.spark.sinks.spark_log import SparkLog

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CHECKPOINT = "checkpointLocation"


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


def test_a_checkpoint_location_is_needed(
    spark: SparkSession, counts: DataFrame, started: Started, tmp_path: Path
) -> None:
    """It comes from the option, or from Spark conf and the query's name, as in Spark; otherwise the query is rejected."""
    writer = written(counts).format("parquet").outputMode("update").option("path", str(tmp_path / "out"))
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
    assert [each.checkpoint_location for each in started] == ["/logs/clicks", "/own"]


@pytest.mark.parametrize("name", ["console", "foreach", "foreachBatch", "memory", "noop"])
def test_sinks_that_hold_nothing_get_a_temporary_checkpoint(
    name: str, counts: DataFrame, started: Started, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in Spark; it is the query's to delete, and deleted at once if the query does not start."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    writer = written(counts).outputMode("update").queryName("kept")
    writer = getattr(writer, name)(print) if name.startswith("foreach") else writer.format(name)
    writer.start()
    assert started[0].temporary
    assert [str(each) for each in tmp_path.iterdir()] == [started[0].checkpoint_location]
    Path(started[0].checkpoint_location).rmdir()

    def fail(*given: object) -> None:
        raise Unsupported("not today")

    monkeypatch.setattr("binshift.spark.frontend.query.start", fail)
    with pytest.raises(Unsupported, match="not today"):
        writer.start()
    assert list(tmp_path.iterdir()) == []


def test_an_assigned_checkpoint_is_the_one(spark: SparkSession, counts: DataFrame, started: Started) -> None:
    """The launcher of the program may set the location: the program need not set it, and cannot set another."""
    spark.conf.set("spark.binshift.checkpoint", "/mnt/log/clicks")
    try:
        writer = written(counts).format("noop").outputMode("update")
        writer.start()
        writer.option(CHECKPOINT, "file:///mnt/log/clicks/").start()
        with pytest.raises(InvalidQuery, match=r"'/elsewhere', but was started with '/mnt/log/clicks'"):
            writer.option(CHECKPOINT, "/elsewhere").start()
    finally:
        spark.conf.unset("spark.binshift.checkpoint")
    assert [each.checkpoint_location for each in started] == ["/mnt/log/clicks"] * 2


def test_files_of_another_query_are_not_overwritten(counts: DataFrame, started: Started, tmp_path: Path) -> None:
    """A new query would begin at epoch 0 again: it must not do so where an older one has written."""
    out, log = tmp_path / "out", tmp_path / "log"
    (out / "epoch=0").mkdir(parents=True)
    writer = written(counts).format("parquet").outputMode("update").option(CHECKPOINT, str(log))
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


def test_files_are_not_written_where_spark_does_not_read_them(
    counts: DataFrame, started: Started, tmp_path: Path
) -> None:
    """Epochs in directories of their own are refused where the log of Spark's file sink hides them."""
    (tmp_path / "out" / "_spark_metadata").mkdir(parents=True)
    writer = written(counts).format("parquet").outputMode("update").option(CHECKPOINT, str(tmp_path / "log"))
    with pytest.raises(InvalidQuery, match="has the log of Spark's file sink"):
        writer.start(str(tmp_path / "out"))
    assert started == []


def test_a_directory_that_spark_writes_is_continued_by_an_adopted_query_alone(
    spark: SparkSession, started: Started, tmp_path: Path
) -> None:
    """In append mode the layout is Spark's; a new query, whose batches begin at 0, does not write among those of another."""
    out, log = tmp_path / "out", tmp_path / "log"
    SparkLog(spark, str(out)).add(4, ())
    events = spark.readStream.format("rate").load().withWatermark("timestamp", "1 minute")
    windows = events.groupBy(F.window("timestamp", "1 minute")).count()
    writer = binshift.writeStream(windows).format("parquet").option(CHECKPOINT, str(log))
    with pytest.raises(InvalidQuery, match="holds 5 epochs of another query"):
        writer.start(str(out))
    adopting = binshift.writeStream(windows, adopt=str(tmp_path / "old")).format("parquet").option(CHECKPOINT, str(log))
    adopting.start(str(out))
    log.mkdir()
    (log / "metadata").write_text("{}")
    adopting.start(str(out))
    found = [definition.sink for definition in started if isinstance(definition.sink, FileSink)]
    assert [(sink.guarantee, sink.listed_by_spark) for sink in found] == [(Guarantee.FILES, 4), (Guarantee.FILES, -1)]
