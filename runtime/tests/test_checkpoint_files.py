"""The class that writes Spark's files into a checkpoint, also those of sources."""

from __future__ import annotations

from pathlib import Path

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from binshift.spark.jobs.batches import with_nudge_source
from binshift.spark.session import checkpoint_files
from binshift.spark.session.checkpoint_files import FILE_MANAGER, LOCAL_FILES
from binshift.spark.session.jvm import install

SPARKS = "org.apache.spark.sql.execution.streaming.checkpointing.FileContextBasedCheckpointFileManager"


class Started:
    """A stream of text files that binshift's own start has begun."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self._java = install(spark)
        (folder / "in").mkdir()
        (folder / "in" / "one.txt").write_text("a\n")
        self.sources = folder / "checkpoint" / "sources"
        self._spark, self._name, self._folder = spark, folder.name, folder

    def run(self) -> None:
        """To the end of its input."""
        source = with_nudge_source(self._spark.readStream.text(str(self._folder / "in")), self._spark, self._name)
        location = str(self._folder / "checkpoint")
        writer = source.writeStream.format("noop").option("checkpointLocation", location)
        query = checkpoint_files.start(self._java, self._spark, writer, location, self._name)
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


def test_other_file_systems_are_refused(spark: SparkSession) -> None:
    """A plain Spark query that starts in another thread meanwhile would keep its checkpoint on this machine."""
    install(spark)
    jvm, gateway = spark._jvm, spark.sparkContext._gateway
    arguments = gateway.new_array(jvm.java.lang.Object, 2)  # type: ignore[union-attr]
    arguments[0] = jvm.org.apache.hadoop.fs.Path("s3a://bucket/clicks")  # type: ignore[union-attr]
    arguments[1] = spark._jsparkSession.sessionState().newHadoopConf()
    kind = jvm.org.apache.spark.util.Utils.classForName(LOCAL_FILES, True, False)  # type: ignore[union-attr]
    with pytest.raises(Py4JJavaError, match="Start the query again"):
        kind.getConstructors()[0].newInstance(arguments)


def test_a_stream_that_cannot_make_its_sources_ends(spark: SparkSession, tmp_path: Path) -> None:
    """Its start returns, and the query has the reason."""
    started = Started(spark, tmp_path)
    (started.sources / "0").mkdir(parents=True)
    (started.sources / "0" / "0").write_text("no version\n")
    with pytest.raises(StreamingQueryException, match="no version"):
        started.run()
    assert spark.conf.get(FILE_MANAGER, None) is None
