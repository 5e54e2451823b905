"""How queries reach binshift: explicitly, or because it is installed and enabled; and which stay Spark's."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from plan_world import clicks_stream, started_queries
from pyspark.sql import DataFrame
from pyspark.sql.classic.dataframe import DataFrame as ClassicDataFrame
from pyspark.sql.streaming.listener import StreamingQueryListener
from pyspark.sql.streaming.query import StreamingQueryManager
from pyspark.sql.streaming.readwriter import DataStreamWriter

import binshift
from binshift.errors import InvalidQuery, InvalidSettings, Unsupported
from binshift.settings import ENABLED_CONF
from binshift.spark.frontend import listening
from binshift.spark.frontend.writer import StatefulStreamWriter

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

anything: Any = binshift.writeStream
"""For calls that a type checker rejects as well."""


@pytest.fixture(scope="module")
def clicks(spark: SparkSession) -> DataFrame:
    """A stream of (ts, user, amount)."""
    return clicks_stream(spark)


@pytest.fixture
def installed(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Installed for the test, and enabled in its session."""
    monkeypatch.setattr(ClassicDataFrame, "writeStream", ClassicDataFrame.writeStream)
    for name in ("addListener", "removeListener"):
        monkeypatch.setattr(StreamingQueryManager, name, getattr(StreamingQueryManager, name))
    binshift.install(spark)
    yield
    spark.conf.unset(ENABLED_CONF)


def test_an_explicit_writer(clicks: DataFrame) -> None:
    """It is PySpark's kind of writer, and needs no conf."""
    writer = binshift.writeStream(clicks.groupBy("user").count(), bins=64)
    assert isinstance(writer, DataStreamWriter)
    assert type(clicks.groupBy("user").count().writeStream) is DataStreamWriter


@pytest.mark.usefixtures("installed")
def test_frames_with_state_are_binshifts(clicks: DataFrame, spark: SparkSession) -> None:
    """What has no state, or is no stream, stays Spark's."""
    assert type(clicks.groupBy("user").count().where("count > 1").writeStream) is StatefulStreamWriter
    for frame in (clicks, clicks.where("user > 1"), clicks.join(spark.range(3).groupBy("id").count())):
        assert type(frame.writeStream) is DataStreamWriter
    with pytest.raises(Exception, match="WRITE_STREAM_NOT_ALLOWED"):
        _ = spark.range(3).groupBy("id").count().writeStream


@pytest.mark.usefixtures("installed")
def test_each_session_enables_it_for_itself(clicks: DataFrame, spark: SparkSession) -> None:
    """It is a conf, which can be changed at any time; the conf counts when the writer is made."""
    counts = clicks.groupBy("user").count()
    other = clicks_stream(spark.newSession()).groupBy("user").count()
    assert type(other.writeStream) is DataStreamWriter
    other.sparkSession.conf.set(ENABLED_CONF, "TRUE")
    spark.conf.set(ENABLED_CONF, "false")
    assert type(other.writeStream) is StatefulStreamWriter
    assert type(counts.writeStream) is DataStreamWriter
    assert type(binshift.writeStream(counts)) is StatefulStreamWriter


@pytest.mark.usefixtures("installed")
def test_an_unchanged_program_is_started_with_its_options(
    clicks: DataFrame, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Settings are conf or options; the conf that enables binshift is not taken for a setting."""
    started = started_queries(monkeypatch)
    spark.conf.set("spark.binshift.workers", "3")
    try:
        writer = clicks.groupBy("user").count().writeStream.format("noop").outputMode("complete")
        writer.option("binshift.bins", 32).option("checkpointLocation", "/log").start(queryName="plain")
    finally:
        spark.conf.unset("spark.binshift.workers")
    [definition] = started
    assert (definition.settings.bins, definition.settings.workers) == (32, 3)
    assert (definition.output_mode, definition.query_name) == ("complete", "plain")


def test_installing_alone_enables_nothing(clicks: DataFrame, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a session it is the conf's affair."""
    monkeypatch.setattr(ClassicDataFrame, "writeStream", ClassicDataFrame.writeStream)
    for name in ("addListener", "removeListener"):
        monkeypatch.setattr(StreamingQueryManager, name, getattr(StreamingQueryManager, name))
    binshift.install()
    assert type(clicks.groupBy("user").count().writeStream) is DataStreamWriter


def test_what_cannot_be_run_is_refused_when_written(clicks: DataFrame, spark: SparkSession) -> None:
    """The message has the alternative."""
    with pytest.raises(InvalidQuery, match="got a str"):
        anything("clicks")
    with pytest.raises(Unsupported, match=r"not a stream; use spark.readStream"):
        anything(spark.range(3))
    with pytest.raises(Unsupported, match=r"no state.*use frame.writeStream"):
        anything(clicks.where("user > 1"))


def test_frames_of_spark_connect_are_refused() -> None:
    """They have no scheduler at hand that could pin tasks."""

    class Connected(DataFrame):
        sparkSession = SimpleNamespace()  # type: ignore[assignment]  # noqa: N815 (PySpark's name)

    with pytest.raises(Unsupported, match="Spark Connect has no access"):
        anything(object.__new__(Connected))


def test_settings_are_checked_at_once(clicks: DataFrame) -> None:
    """A mistyped keyword fails where it is written."""
    counts = clicks.groupBy("user").count()
    with pytest.raises(InvalidSettings, match="did you mean 'batch_size'"):
        binshift.writeStream(counts, batchsize=3)
    with pytest.raises(InvalidSettings, match="a whole number"):
        binshift.writeStream(counts, bins="many")


class Nothing(StreamingQueryListener):
    """Ignores all events."""

    def onQueryStarted(self, event: Any) -> None:  # noqa: N802 (PySpark's name)
        """Nothing."""

    def onQueryProgress(self, event: Any) -> None:  # noqa: N802 (PySpark's name)
        """Nothing."""

    def onQueryTerminated(self, event: Any) -> None:  # noqa: N802 (PySpark's name)
        """Nothing."""


@pytest.mark.usefixtures("installed")
def test_listeners_of_a_program_see_the_state(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """A listener is wrapped when it is added, once, and removed by the program's own object; a wrapped one is not wrapped again."""
    known: list[StreamingQueryListener] = []
    monkeypatch.setattr(listening, "_add", lambda manager, listener: known.append(listener))
    monkeypatch.setattr(listening, "_remove", lambda manager, listener: known.remove(listener))
    mine, wrapped = Nothing(), binshift.state_listener(Nothing())
    spark.streams.addListener(mine)
    spark.streams.addListener(wrapped)
    assert [type(each) for each in known] == [type(wrapped)] * 2
    spark.streams.removeListener(wrapped)
    spark.streams.removeListener(mine)
    assert known == []
