"""Programs in plain PySpark, in forms that only Spark's analysed plan has in common: on both engines, batch by batch."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from engines import TIMES, Sink, installed_in, ours, put, run, source, sparks, taken
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.readwriter import DataStreamWriter

pytestmark = pytest.mark.cluster


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Some files, each a batch."""
    into = tmp_path_factory.mktemp("plain") / "in"
    for batch, seconds in enumerate(TIMES[:4]):
        put(into, batch, seconds)
    return into


def in_sql(frame: DataFrame) -> DataFrame:
    """A view, a window, HAVING, and a subquery over a table."""
    frame.createOrReplaceTempView("events")
    return frame.sparkSession.sql(
        "SELECT window.end AS end, k, count(*) AS n, (SELECT max(id) FROM range(3)) AS most FROM events "
        "GROUP BY window(ts, '10 seconds'), k HAVING count(*) > 1"
    )


def twice_the_same_name(frame: DataFrame) -> DataFrame:
    """Two columns named k, each known by its frame."""
    other = frame.sparkSession.range(20).select((F.col("id") % 2).alias("k"), F.col("id"))
    joined = frame.join(other, frame.k == other.k)
    return joined.groupBy(frame.k).agg(F.sum(frame.k), F.max(other.k), F.sum("id"))


PROGRAMS: dict[str, tuple[str, Callable[[DataFrame], DataFrame]]] = {
    "SQL": ("update", in_sql),
    "SELECT DISTINCT": ("update", lambda f: f.sparkSession.sql("SELECT DISTINCT k, size(items) FROM {f}", f=f)),
    "two columns of one name": ("update", twice_the_same_name),
    "generator": (
        "update",
        lambda f: f.groupBy("k").agg(F.explode(F.array(F.count("*"), F.sum("k"))).alias("each")),
    ),
    "complete": ("complete", lambda f: f.groupBy("k").agg(F.count("*").alias("n"), F.max("ts"))),
    "complete, windows": (
        "complete",
        lambda f: (
            f.withWatermark("ts", "5 seconds").groupBy(F.window("ts", "10 seconds")).count().select("window.*", "*")
        ),
    ),
    "complete, top": ("complete", lambda f: f.groupBy("k").count().orderBy(F.desc("count"), "k").limit(2)),
    "complete, of all rows": ("complete", lambda f: f.groupBy().agg(F.count("*"), F.min("ts"))),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_every_form_of_a_program(name: str, session: SparkSession, folder: Path, tmp_path: Path) -> None:
    """Each batch has Spark's rows."""
    mode, program = PROGRAMS[name]
    frame = program(source(session, folder))
    found = taken(ours(frame), tmp_path / "ours", mode)
    assert found == taken(sparks(frame), tmp_path / "sparks", mode)
    assert any(found.values())


@pytest.fixture
def installed(session: SparkSession) -> Iterator[None]:
    """Installed and enabled for the test."""
    with installed_in(session):
        yield


@pytest.mark.usefixtures("installed")
def test_an_unmodified_program_is_rescaled(session: SparkSession, folder: Path, tmp_path: Path) -> None:
    """It names neither binshift nor a setting; a query without state next to it is Spark's."""
    frame = source(session, folder)
    sink, plain = Sink(), Sink()
    writer = frame.groupBy("k").agg(F.count("*").alias("n")).writeStream.outputMode("update").foreachBatch(sink)
    query: Any = writer.option("binshift.workers", 2).option("checkpointLocation", str(tmp_path / "counts")).start()
    try:
        query.processAllAvailable()
        assert query.rescale(3).wait(120).value == "settled"
        run(frame.select("k").writeStream, tmp_path / "plain", plain, "append")
    finally:
        query.stop()
    assert query.workers == (0, 1, 2)
    assert sum((Counter(rows) for rows in plain.epochs.values()), Counter()).total() == sum(map(len, TIMES[:4]))
    assert not (tmp_path / "plain" / "binshift").exists()


def test_metrics_are_observed_as_in_spark(session: SparkSession, folder: Path, tmp_path: Path) -> None:
    """Before an operator, between two, and behind them: in every batch what Spark observes."""
    rows = (
        source(session, folder)
        .observe("before", F.count("*").alias("rows"), F.max("k"))
        .withWatermark("ts", "1 second")
    )
    once = rows.dropDuplicates(["k", "ts"]).observe("between", F.count("*").alias("rows"), F.min("ts").alias("first"))
    counts = once.groupBy(F.window("ts", "10 seconds")).agg(F.count("*").alias("n"))
    frame = counts.observe("behind", F.sum("n").alias("n"), F.max("window.end"))
    found = {engine: _observed(engine(frame), tmp_path / engine.__name__) for engine in (ours, sparks)}
    assert found[ours] == found[sparks]
    assert any(each["behind"].n for each in found[ours].values())


def _observed(writer: DataStreamWriter, checkpoint: Path) -> dict[int, dict[str, Row]]:
    writer = writer.outputMode("append").option("checkpointLocation", str(checkpoint)).format("noop")
    query = writer.trigger(availableNow=True).start()
    assert query.awaitTermination(240)
    return {each.batchId: each.observedMetrics for each in query.recentProgress if "addBatch" in each.durationMs}


def test_a_temporary_checkpoint_is_removed(
    session: SparkSession, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It lasts as long as its query."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    writer = ours(source(session, folder).groupBy("k").count()).outputMode("update").format("noop")
    query = writer.start()
    query.processAllAvailable()
    [checkpoint] = tmp_path.glob("binshift-checkpoint-*")
    assert (checkpoint / "binshift").is_dir()
    query.stop()
    assert not checkpoint.exists()
