"""Sinks: the result of an epoch that runs twice, compared with the documentation."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import Row

from binshift.errors import InvalidQuery
from binshift.spark import sinks
from binshift.spark.sinks import (
    ConsoleSink,
    FileSink,
    ForeachBatchSink,
    ForeachSink,
    FormatSink,
    Guarantee,
    KafkaSink,
    MemorySink,
    NoopSink,
    Sink,
    TableSink,
    sink_for,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FORMATS = ("console", "kafka", "memory", "noop", "any", *sinks.files.FILE_FORMATS)


@pytest.fixture
def result(spark: SparkSession) -> Callable[..., DataFrame]:
    """Makes results: one row for each number, on two partitions."""

    def make(*numbers: int) -> DataFrame:
        return spark.createDataFrame([(n, f"user {n}") for n in numbers], "n bigint, user string").coalesce(2)

    return make


def _documented() -> dict[str, tuple[str, str]]:
    rows = re.findall(r"^\| (.*) \| (.*) \| (yes|no) \| .* \|$", sinks.__doc__ or "", re.MULTILINE)
    return {
        name: (guarantee, drained) for names, guarantee, drained in rows for name in names.replace("`", "").split(", ")
    }


def _all(spark: SparkSession, result: Callable[..., DataFrame]) -> dict[str, Sink]:
    schema = result(1).withColumnRenamed("user", "value").schema
    options = {"topic": "t", "kafka.bootstrap.servers": "s:1"}
    made = {name: sink_for(spark, name, schema, options, query_name="documented", path="/nowhere") for name in FORMATS}
    made["files in update or complete mode"] = sink_for(
        spark, "json", schema, {}, path="/nowhere", output_mode="update"
    )
    made["toTable"] = TableSink("documented", None, {})
    return made | {"foreachBatch": ForeachBatchSink(print), "foreach": ForeachSink(print)}


def test_the_documentation_matches_the_sinks(spark: SparkSession, result: Callable[..., DataFrame]) -> None:
    """The table in the package's documentation has every sink, with its guarantee and draining."""
    actual = {name: (str(s.guarantee), "yes" if s.drains else "no") for name, s in _all(spark, result).items()}
    actual["any other format"] = actual.pop("any")
    assert actual == _documented()


def test_every_sink_has_a_guarantee_and_can_be_closed(spark: SparkSession, result: Callable[..., DataFrame]) -> None:
    """A guarantee is one of four, and closing a sink that wrote nothing is harmless."""
    for sink in _all(spark, result).values():
        assert sink.guarantee in set(Guarantee)
        sink.close()


def test_memory_replaces_a_replayed_epoch(spark: SparkSession, result: Callable[..., DataFrame]) -> None:
    """The rows of a later run replace the earlier ones, in the view as well."""
    sink = sink_for(spark, "memory", result().schema, {}, query_name="collected")
    assert isinstance(sink, MemorySink)
    assert spark.table("collected").columns == ["n", "user"]
    assert (sink.rows(), sink.table().column_names) == ([], ["n", "user"])
    sink.write(result(1), 0)
    sink.write(result(2, 3), 1)
    sink.write(result(7), 1)
    assert sink.epochs() == [0, 1]
    assert sink.rows() == [Row(n=1, user="user 1"), Row(n=7, user="user 7")]
    assert sink.rows(1) == [Row(n=7, user="user 7")]
    assert sorted(spark.table("collected").collect()) == sink.rows()
    sink.write(result(), 1)
    assert spark.table("collected").count() == 1


def test_memory_returns_strings_that_are_not_utf_8(spark: SparkSession, result: Callable[..., DataFrame]) -> None:
    """Such strings, nested ones too, come back as `collect` returns them, and other rows are unchanged."""
    odd = result(1, 2).selectExpr(
        "n", "if(n = 1, cast(x'66ff' as string), user) AS user", "array(struct(cast(x'fe' as string) AS s)) AS nested"
    )
    sink = MemorySink(odd.schema)
    sink.write(odd, 0)
    assert sorted(sink.rows()) == sorted(odd.collect())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((None, ["n"]), "needs a directory"),
        (("/out", ["n", "Epoch"]), "column 'epoch'"),
        (("/out", ["n"], ["m"]), r"partitionBy\('m'\)"),
    ],
)
def test_files_that_no_epoch_could_write_are_refused(arguments: tuple[Any, ...], message: str) -> None:
    """Missing paths and conflicting columns are found before the first epoch."""
    with pytest.raises(InvalidQuery, match=message):
        FileSink("parquet", *arguments)


def test_noop_takes_every_row(spark: SparkSession, result: Callable[..., DataFrame]) -> None:
    """Each run of an epoch takes all rows, in one job, and nothing is kept."""
    seen = spark.sparkContext.accumulator(0)

    def count(batches: Any) -> Any:
        for each in batches:
            seen.add(each.num_rows)
            yield each

    frame = result(1, 2, 3).mapInArrow(count, "n bigint, user string")
    NoopSink().write(frame, 0)
    NoopSink().write(frame, 0)
    assert seen.value == 6


def test_console_prints_a_replayed_epoch_again(
    result: Callable[..., DataFrame], capsys: pytest.CaptureFixture[str]
) -> None:
    """Each run is printed with the epoch's number; options are Spark's."""
    sink = ConsoleSink({"numRows": "1"})
    sink.write(result(1, 2), 5)
    sink.write(result(1, 2), 5)
    printed = capsys.readouterr().out
    assert printed.count("Batch: 5") == 2
    assert printed.count("only showing top 1 row") == 2
    for wrong in ({"numRows": "all"}, {"truncate": "perhaps"}):
        with pytest.raises(InvalidQuery):
            ConsoleSink(wrong)


def test_other_formats_append_a_replayed_epoch(
    spark: SparkSession, result: Callable[..., DataFrame], tmp_path: Path
) -> None:
    """An unknown format gets path and options unchanged, and appends each run."""
    name = "org.apache.spark.sql.execution.datasources.json.JsonFileFormat"
    sink = sink_for(spark, name, result().schema, {"compression": "gzip"}, path=str(tmp_path), partition_by=["user"])
    assert isinstance(sink, FormatSink)
    sink.write(result(1), 0)
    sink.write(result(1), 0)
    assert [r.n for r in spark.read.json(str(tmp_path)).collect()] == [1, 1]
    assert len(list(tmp_path.glob("user=user 1/*.json.gz"))) == 2


def test_kafka_is_sparks_own_writer(result: Callable[..., DataFrame]) -> None:
    """Without Spark's Kafka package the epoch fails with Spark's own error, which names the package's format."""
    sink = KafkaSink({"topic": "t", "kafka.bootstrap.servers": "s:1"}, ["value"])
    with pytest.raises(Exception, match=r"(?i)kafka"):
        sink.write(result(1).selectExpr("user AS value"), 0)


def test_kafka_records_have_their_epoch(result: Callable[..., DataFrame]) -> None:
    """The epoch is added after the user's own headers, or alone if there are none."""
    own = "CASE WHEN n = 1 THEN array(struct('a' AS key, CAST('b' AS binary) AS value)) END AS headers"
    options = {"topic": "t", "kafka.bootstrap.servers": "s:1"}
    bare = KafkaSink(options, ["value"]).stamped(result(1).selectExpr("user AS value"), 7)
    with_own = KafkaSink(options, ["value", "HEADERS"]).stamped(result(1, 2).selectExpr("user AS value", own), 7)
    found = {row.value: [(h.key, bytes(h.value)) for h in row[1]] for row in with_own.collect()}
    epoch = ("binshift-epoch", b"7")
    assert [[(h.key, bytes(h.value)) for h in row[1]] for row in bare.collect()] == [[epoch]]
    assert found == {"user 1": [("a", b"b"), epoch], "user 2": [epoch]}
