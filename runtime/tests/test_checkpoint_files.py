"""The class that writes Spark's files into a checkpoint, also those of sources."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from binshift.spark.jobs.batches import with_nudge_source
from binshift.spark.session import checkpoint_files
from binshift.spark.session.checkpoint_files import FILE_MANAGER
from binshift.spark.session.jvm import install

SPARKS = "org.apache.spark.sql.execution.streaming.checkpointing.FileContextBasedCheckpointFileManager"


class Started:
    """A stream of text files that binshift's own start has begun."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        (folder / "in").mkdir()
        (folder / "in" / "one.txt").write_text("a\n")
        self.sources = folder / "checkpoint" / "sources"
        self._spark, self._name, self._folder = spark, folder.name, folder

    def run(self) -> None:
        """To the end of its input."""
        source = with_nudge_source(self._spark.readStream.text(str(self._folder / "in")), self._spark, self._name)
        location = str(self._folder / "checkpoint")
        writer = source.writeStream.format("noop").option("checkpointLocation", location)
        query = checkpoint_files.start(install(self._spark), self._spark, writer, location, self._name)
        try:
            query.processAllAvailable()
        finally:
            query.stop()

    def hadoops(self) -> list[str]:
        """Names of files with checksums, which only Hadoop writes."""
        return [each.name for each in self.sources.rglob(".*.crc")]


def test_sources_keep_their_files_with_ours_too(spark: SparkSession, tmp_path: Path) -> None:
    """A source is made by the stream's own thread, after Spark's `start` has returned."""
    started = Started(spark, tmp_path)
    started.run()
    assert list(started.sources.rglob("0"))
    assert not started.hadoops()
    assert spark.conf.get(FILE_MANAGER, None) is None


def test_the_users_choice_is_respected(spark: SparkSession, tmp_path: Path) -> None:
    """A manager that the user has set writes everything, and stays set."""
    spark.conf.set(FILE_MANAGER, SPARKS)
    try:
        started = Started(spark, tmp_path)
        started.run()
        assert spark.conf.get(FILE_MANAGER) == SPARKS
    finally:
        spark.conf.unset(FILE_MANAGER)
    assert started.hadoops()


def test_a_stream_that_cannot_make_its_sources_ends(spark: SparkSession, tmp_path: Path) -> None:
    """Its start returns, and the query has the reason."""
    started = Started(spark, tmp_path)
    (started.sources / "0").mkdir(parents=True)
    (started.sources / "0" / "0").write_text("no version\n")
    with pytest.raises(StreamingQueryException, match="no version"):
        started.run()
    assert spark.conf.get(FILE_MANAGER, None) is None
