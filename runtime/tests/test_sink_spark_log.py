"""Files in the layout of Spark's own sink: Spark's readers see each epoch once, also where Spark has written the batches before."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from binshift.errors import InvalidQuery, TaskFailed
from binshift.log.records import outputs
from binshift.log.storage.opening import open_storage
from binshift.model import Epoch, Term
from binshift.spark.sinks import FileSink, sink_for
from binshift.spark.sinks.manifest import parsed
from binshift.spark.sinks.spark_log import SPARK_LOG, SparkLog

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@pytest.fixture(autouse=True)
def short_log(spark: SparkSession) -> Iterator[None]:
    """Spark compacts its log every third batch."""
    name = "spark.sql.streaming.fileSink.log.compactInterval"
    spark.conf.set(name, "3")
    yield
    spark.conf.unset(name)


def rows_of(spark: SparkSession, *numbers: int) -> DataFrame:
    """A result: one row for each number, on two partitions."""
    return spark.createDataFrame([(n, f"user {n}") for n in numbers], "n bigint, epoch string").coalesce(2)


def sink_of(spark: SparkSession, out: Path, name: str = "parquet", **more: str) -> FileSink:
    """In append mode; a column ``epoch`` is like any other."""
    sink = sink_for(spark, name, rows_of(spark).schema, more, path=str(out))
    assert isinstance(sink, FileSink)
    return sink


def put(sink: FileSink, result: DataFrame, epoch: int) -> None:
    """Write an epoch and publish it."""
    sink.write(result, epoch)
    published(sink, result.sparkSession, epoch)


def published(sink: FileSink, spark: SparkSession, epoch: int, log: str = "") -> None:
    """Publish the staged files, with a log of the query's own."""
    storage = open_storage(f"memory://{sink.path}{log}")
    sink.publish(spark, epoch, lambda place, mine: outputs.choose(storage, Term(1), Epoch(epoch), place, mine))


def read(spark: SparkSession, out: Path, name: str = "parquet") -> list[int]:
    """The numbers that Spark reads."""
    return sorted(row.n for row in spark.read.schema("n bigint, epoch string").format(name).load(str(out)).collect())


@pytest.mark.parametrize("name", ["parquet", "json", "csv", "orc"])
def test_spark_reads_what_its_own_sink_would_have_written(spark: SparkSession, tmp_path: Path, name: str) -> None:
    """The rows of each epoch once, and no column more, over several compactions and with an epoch without rows."""
    out = tmp_path / "out put"
    sink = sink_of(spark, out, name)
    for epoch in range(8):
        put(sink, rows_of(spark, *range(epoch)), epoch)
        assert read(spark, out, name) == sorted(n for each in range(epoch + 1) for n in range(each))
    assert sorted(each.name for each in out.iterdir() if each.is_dir()) == [SPARK_LOG]
    if name == "parquet":
        assert spark.read.parquet(str(out)).columns == ["n", "epoch"]


def test_an_epoch_that_runs_again_leaves_its_files(spark: SparkSession, tmp_path: Path) -> None:
    """By the same driver, by another one, and after the log was compacted with it."""
    for epoch in (0, 1, 1, 2, 2):
        put(sink_of(spark, tmp_path), rows_of(spark, epoch, epoch + 10), epoch)
        assert read(spark, tmp_path) == sorted(n for each in range(epoch + 1) for n in (each, each + 10))
    assert not list(tmp_path.glob("_staged-*"))


def test_partitions_are_directories_as_in_spark(spark: SparkSession, tmp_path: Path) -> None:
    """Their column is read from their names, quoted as in Spark."""
    sink = sink_for(spark, "json", rows_of(spark).schema, {}, path=str(tmp_path), partition_by=["epoch"])
    assert isinstance(sink, FileSink)
    put(sink, rows_of(spark, 1, 2), 0)
    found = spark.read.json(str(tmp_path)).collect()
    assert sorted((row.n, row.epoch) for row in found) == [(1, "user 1"), (2, "user 2")]


@pytest.mark.parametrize("first", [1, 2, 3, 5, 9])
def test_a_directory_can_begin_at_any_epoch(spark: SparkSession, tmp_path: Path, first: int) -> None:
    """As for an adopted or restored query: Spark compacts and reads the log nevertheless."""
    sink = sink_of(spark, tmp_path)
    for epoch in range(first, first + 5):
        put(sink, rows_of(spark, epoch), epoch)
        assert read(spark, tmp_path) == list(range(first, epoch + 1))


def test_a_query_continues_a_directory_of_sparks_sink(spark: SparkSession, tmp_path: Path) -> None:
    """Spark has written batches, and binshift writes the next ones."""
    out, given, checkpoint = tmp_path / "out", tmp_path / "given", tmp_path / "checkpoint"

    def by_spark(*numbers: int) -> None:
        rows_of(spark, *numbers).write.mode("append").parquet(str(given))
        query = (
            spark.readStream.schema("n bigint, epoch string")
            .parquet(str(given))
            .writeStream.format("parquet")
            .option("checkpointLocation", str(checkpoint))
            .trigger(availableNow=True)
            .start(str(out))
        )
        query.awaitTermination()

    for number in range(4):
        by_spark(number)
    for epoch in (4, 5):
        put(sink_of(spark, out), rows_of(spark, epoch), epoch)
    assert read(spark, out) == list(range(6))


def test_other_files_of_an_epoch_are_found(spark: SparkSession, tmp_path: Path) -> None:
    """A query that goes back to an older epoch does not lose its new results silently: the message has what to move away."""
    put(sink_of(spark, tmp_path), rows_of(spark, 1), 0)
    sink = sink_of(spark, tmp_path)
    sink.write(rows_of(spark, 2), 0)
    with pytest.raises(InvalidQuery, match=f"{SPARK_LOG}/0 holds files that this query did not write"):
        published(sink, spark, 0, " restored")
    assert read(spark, tmp_path) == [1]
    (tmp_path / SPARK_LOG / "0").unlink()
    (tmp_path / SPARK_LOG / ".0.crc").unlink()
    published(sink, spark, 0, " restored")
    assert read(spark, tmp_path) == [2]


def test_a_batch_that_spark_has_written_is_not_written_again(spark: SparkSession, tmp_path: Path) -> None:
    """Spark may stop between the entry in its log and its commit: the adopted query runs that batch once more, with the same input."""
    put(sink_of(spark, tmp_path), rows_of(spark, 1), 0)
    sink = sink_of(spark, tmp_path)
    sink.listed_by_spark = 0
    for epoch in (0, 1):
        sink.write(rows_of(spark, epoch + 1), epoch)
        published(sink, spark, epoch, " adopted")
    assert read(spark, tmp_path) == [1, 2]
    assert not list(tmp_path.glob("_staged-*"))


def test_a_directory_with_epochs_keeps_its_layout(spark: SparkSession, tmp_path: Path) -> None:
    """A query that had directories for epochs in append mode continues with them."""
    out, checkpoint = tmp_path / "out", tmp_path / "checkpoint"
    put(FileSink("parquet", str(out), ["n"]), spark.range(1).toDF("n"), 0)
    sink = sink_for(spark, "parquet", spark.range(1).toDF("n").schema, {}, path=str(out))
    assert isinstance(sink, FileSink)
    checkpoint.mkdir()
    (checkpoint / "metadata").write_text("{}")
    sink.open(spark, str(checkpoint), None, None)
    put(sink, spark.range(1).toDF("n"), 1)
    assert sorted(row.epoch for row in spark.read.parquet(str(out)).collect()) == [0, 1]


def test_files_that_were_cut_off_are_not_listed(spark: SparkSession, tmp_path: Path) -> None:
    """A file that lost its end before it was moved ends the publishing; the log has no entry then."""
    sink = sink_of(spark, tmp_path)
    sink.write(rows_of(spark, 1), 0)
    folder = next(tmp_path.glob("_staged-*"))
    manifest = parsed((folder / "_SUCCESS").read_text())
    assert manifest is not None
    (folder / manifest.files[0][1]).write_bytes(b"")
    with pytest.raises(TaskFailed, match="has 0 bytes of the"):
        published(sink, spark, 0)
    assert SparkLog(spark, str(tmp_path)).last() == -1


def test_a_log_that_cannot_be_written_is_tried_again(spark: SparkSession, tmp_path: Path) -> None:
    """The error is one that the engine retries, and the files are listed then."""
    sink = sink_of(spark, tmp_path)
    put(sink, rows_of(spark, 0), 0)
    (tmp_path / SPARK_LOG).rename(tmp_path / "away")
    (tmp_path / SPARK_LOG).touch()
    sink.write(rows_of(spark, 1), 1)
    with pytest.raises(TaskFailed, match=f"{SPARK_LOG} could not be written or published"):
        published(sink, spark, 1)
    (tmp_path / SPARK_LOG).unlink()
    (tmp_path / "away").rename(tmp_path / SPARK_LOG)
    published(sink, spark, 1)
    assert read(spark, tmp_path) == [0, 1]


def test_sparks_option_of_retention_holds(spark: SparkSession, tmp_path: Path) -> None:
    """Files older than that are no longer listed after the next compaction, as in Spark."""
    sink = sink_of(spark, tmp_path, retention="1ms")
    for epoch in range(4):
        put(sink, rows_of(spark, epoch), epoch)
    assert read(spark, tmp_path) == [3]
