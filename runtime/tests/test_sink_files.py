"""Result files: which run's files are an epoch's result, and that they never change afterwards."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark.sql import functions as F

from binshift.errors import Fenced, InvalidQuery, TaskFailed
from binshift.log.records import outputs, terms
from binshift.log.storage.opening import open_storage
from binshift.model import Epoch, Term
from binshift.spark.session.jvm import Jvm
from binshift.spark.sinks import FileSink, sink_for
from binshift.spark.sinks.local_folders import LocalFolders
from binshift.spark.sinks.manifest import Manifest, parsed

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@pytest.fixture
def result(spark: SparkSession) -> Callable[..., DataFrame]:
    """Makes results: one row for each number, on two partitions."""

    def make(*numbers: int) -> DataFrame:
        return spark.createDataFrame([(n, f"user {n}") for n in numbers], "n bigint, user string").coalesce(2)

    return make


def put(sink: FileSink, result: DataFrame, epoch: int, log: str = "memory://sinks") -> None:
    """Write an epoch and publish it, with the log at ``log``."""
    sink.write(result, epoch)
    published(sink, result.sparkSession, epoch, log)


def published(sink: FileSink, spark: SparkSession, epoch: int, log: str) -> None:
    """Publish the staged files."""
    storage = open_storage(log)
    sink.publish(spark, epoch, lambda place, mine: outputs.choose(storage, Term(1), Epoch(epoch), place, mine))


@pytest.mark.parametrize("name", ["parquet", "json", "csv", "orc"])
def test_files_of_a_replayed_epoch_stay(
    spark: SparkSession, result: Callable[..., DataFrame], tmp_path: Path, name: str
) -> None:
    """Each epoch has its directory, which a later run does not change; Spark reads all of them as one table."""
    sink = sink_for(spark, name, result().schema, {"header": "true"}, path=f"{tmp_path}/", output_mode="update")
    assert isinstance(sink, FileSink)
    for epoch, numbers in ((0, (1,)), (1, (2, 3)), (1, (3, 2))):
        put(sink, result(*numbers), epoch, f"memory://{tmp_path}")
    read = (
        spark.read.schema("n bigint, user string, epoch int").option("header", "true").format(name).load(str(tmp_path))
    )
    assert sorted((r.epoch, r.n, r.user) for r in read.collect()) == [
        *((0, 1, "user 1"), (1, 2, "user 2"), (1, 3, "user 3"))
    ]
    listed = parsed((tmp_path / "epoch=1" / "_SUCCESS").read_text())
    assert listed is not None
    assert {each.name for each in (tmp_path / "epoch=1").glob("part-*")} == {name for _, name in listed.files}
    assert sorted(each.name for each in tmp_path.iterdir()) == ["epoch=0", "epoch=1"]


def test_partitions_are_directories_below_the_epoch(
    spark: SparkSession, result: Callable[..., DataFrame], tmp_path: Path
) -> None:
    """This does not depend on the session's overwrite settings; values that are invalid file names are quoted as in Spark."""
    sink = FileSink("json", str(tmp_path), ["n", "user"], ["user"])
    spark.conf.set("spark.sql.sources.partitionOverwriteMode", "dynamic")
    try:
        put(sink, result(2, 3).withColumn("user", F.concat("user", F.lit(": a/b\u2028\n"))), 4, f"memory://{tmp_path}")
    finally:
        spark.conf.unset("spark.sql.sources.partitionOverwriteMode")
    found = [(row.epoch, row.n, row.user) for row in spark.read.json(str(tmp_path)).collect()]
    assert sorted(found) == [(4, 2, "user 2: a/b\u2028\n"), (4, 3, "user 3: a/b\u2028\n")]


def test_a_driver_that_was_replaced_touches_no_files_of_the_other(
    spark: SparkSession, result: Callable[..., DataFrame], tmp_path: Path
) -> None:
    """Its files are never visible, and are deleted in the end."""
    log = f"memory://{tmp_path}"
    old, new = (FileSink("parquet", str(tmp_path), ["n", "user"]) for _ in range(2))
    put(old, result(1), 0, log)
    old.write(result(2), 1)
    put(new, result(2), 1, log)
    old.write(result(2), 1)
    published(old, spark, 1, log)
    read = sorted((row.epoch, row.n) for row in spark.read.parquet(str(tmp_path)).collect())
    assert read == [(0, 1), (1, 2)]
    put(FileSink("parquet", str(tmp_path), ["n", "user"]), result(4), 2, log)
    assert sorted(each.name for each in tmp_path.iterdir()) == ["epoch=0", "epoch=1", "epoch=2"]


def test_no_directory_is_listed_to_know_what_was_written(
    spark: SparkSession, result: Callable[..., DataFrame], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A disk that shows directories as empty, because it cannot read them, loses no rows."""
    monkeypatch.setattr(os, "listdir", lambda path: [])
    monkeypatch.setattr(os, "scandir", lambda path: (_ for _ in ()).throw(AssertionError(path)))
    sink = FileSink("parquet", str(tmp_path), ["n", "user"])
    put(sink, result(1, 2), 0, f"memory://{tmp_path}")
    monkeypatch.undo()
    assert spark.read.parquet(str(tmp_path)).count() == 2


def test_files_that_were_cut_off_are_not_published(
    spark: SparkSession, result: Callable[..., DataFrame], tmp_path: Path
) -> None:
    """A file that is shorter than its task's report is found before the epoch is recorded."""
    (tmp_path / "_staged-0-x").mkdir()
    (tmp_path / "_staged-0-x" / ".part-0").write_bytes(b"1234")
    with pytest.raises(TaskFailed, match="4 bytes of the 5"):
        LocalFolders(tmp_path).seal(Manifest("_staged-0-x", ((5, "part-0"),)))


def test_an_epoch_of_which_no_job_told_is_not_one_without_files(
    spark: SparkSession, result: Callable[..., DataFrame], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If Spark does not use the expected commit protocol, and leaves no report, the run fails."""
    unmarked = {"mapreduce.fileoutputcommitter.marksuccessfuljobs": "false"}
    sink = FileSink("parquet", str(tmp_path), ["n", "user"], options=unmarked)
    monkeypatch.setattr(Jvm, "staged_files", lambda self, session: contextlib.nullcontext())
    with pytest.raises(TaskFailed, match="no job has reported its files in _staged-0-"):
        sink.write(result(1, 2), 0)


def test_what_no_task_names_stays_hidden(spark: SparkSession, result: Callable[..., DataFrame], tmp_path: Path) -> None:
    """Readers never see a file that a lost task has left."""
    sink = FileSink("json", str(tmp_path), ["n", "user"])
    sink.write(result(1), 0)
    next(tmp_path.glob("_staged-*")).joinpath(".part-00000-lost.json").write_text('{"n": 9}')
    published(sink, spark, 0, f"memory://{tmp_path}")
    assert [row.n for row in spark.read.json(str(tmp_path)).collect()] == [1]


def test_an_epoch_that_cannot_be_published_has_a_reason(
    spark: SparkSession, result: Callable[..., DataFrame], tmp_path: Path
) -> None:
    """If staged files were removed, nothing is published; other files are left unchanged."""
    sink = FileSink("parquet", str(tmp_path), ["n", "user"])
    sink.write(result(1), 0)
    shutil.rmtree(next(tmp_path.glob("_staged-*")))
    with pytest.raises(TaskFailed, match=r"_staged-.* is gone"):
        published(sink, spark, 0, f"memory://{tmp_path}")
    assert not (tmp_path / "epoch=0").exists()
    (tmp_path / "epoch=1").mkdir()
    (tmp_path / "epoch=1" / "theirs").touch()
    with pytest.raises(InvalidQuery, match="epoch=1 holds files that this query did not write"):
        put(sink, result(1), 1, f"memory://{tmp_path}")


def test_an_epoch_that_was_taken_away_is_published_by_its_replay(
    spark: SparkSession, result: Callable[..., DataFrame], tmp_path: Path
) -> None:
    """If a consumer moved the directory before Spark's commit, the epoch is published again with the same number."""
    log = f"memory://{tmp_path}"
    put(FileSink("parquet", str(tmp_path), ["n", "user"]), result(1), 0, log)
    shutil.rmtree(tmp_path / "epoch=0")
    for _ in range(2):
        put(FileSink("parquet", str(tmp_path), ["n", "user"]), result(1), 0, log)
        assert [(row.epoch, row.n) for row in spark.read.parquet(str(tmp_path)).collect()] == [(0, 1)]


def test_a_driver_that_wakes_after_retention_is_fenced(
    spark: SparkSession, result: Callable[..., DataFrame], tmp_path: Path
) -> None:
    """If the file that should have fenced it is missing, it finds the newer term before it publishes anything."""
    log, sink = tmp_path / "log", FileSink("parquet", str(tmp_path / "out"), ["n", "user"])
    for name in "ab":
        terms.take_term(open_storage(str(log)), name, name)
    sink.write(result(1), 0)
    with pytest.raises(Fenced):
        published(sink, spark, 0, str(log))
    assert not (tmp_path / "out" / "epoch=0").exists()
