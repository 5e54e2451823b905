# ruff: noqa: N802 (the name is PySpark's)
"""How a program's queries reach binshift: `writeStream`, or `install` for programs that stay as they are.

PySpark has no hook for the start of a query, so `install` replaces the property ``DataFrame.writeStream``. Frames without
state, frames that are no streams, and sessions in which binshift is not enabled get PySpark's own writer. It also lets the
program's listeners see the state of these queries (see `listening`).
"""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.classic.dataframe import DataFrame as ClassicDataFrame
from pyspark.sql.streaming.readwriter import DataStreamWriter

from binshift.errors import InvalidQuery, Unsupported
from binshift.settings import ENABLED_CONF, resolve
from binshift.spark.frontend import host, listening
from binshift.spark.frontend.writer import StatefulStreamWriter
from binshift.spark.plan.catalyst import analyzed
from binshift.spark.plan.stateful import has_state
from binshift.spark.reading.sources import register_state_sources


def writeStream(frame: DataFrame, **settings: object) -> StatefulStreamWriter:
    """As `DataFrame.writeStream`, for a query that binshift runs.

    Args:
        frame: a streaming DataFrame of a classic session, with a stateful operator.
        settings: of `binshift.settings.Settings`, snake_case; options of the writer take precedence.

    Raises:
        Unsupported: ``frame`` is a Spark Connect frame, is not a stream, or has no state.
        InvalidSettings: an unknown setting, or one of the wrong type.
    """
    if not isinstance(frame, DataFrame):
        raise InvalidQuery(f"writeStream got a {type(frame).__name__}; it takes a streaming pyspark.sql.DataFrame")
    if not hasattr(frame.sparkSession, "_jsparkSession"):
        raise Unsupported("Spark Connect has no access to the scheduler that pins tasks; use a classic SparkSession")
    if not frame.isStreaming:
        raise Unsupported("writeStream got a DataFrame that is not a stream; use spark.readStream, or frame.write")
    if not has_state(analyzed(frame)):
        raise Unsupported("the query has no state, so there is nothing to move: use frame.writeStream")
    resolve(keywords=settings)
    return StatefulStreamWriter(frame, settings)


def install(spark: SparkSession | None = None) -> None:
    """Let binshift run every stateful query that this process starts with ``DataFrame.writeStream``; register its sources of state.

    Args:
        spark: a session in which it is enabled. Others are by the conf ``spark.binshift.enabled``.
    """
    ClassicDataFrame.writeStream = property(_writer)  # type: ignore[assignment,method-assign]
    listening.install()
    if spark is not None:
        spark.conf.set(ENABLED_CONF, "true")
        register_state_sources(spark)


def _writer(frame: ClassicDataFrame) -> DataStreamWriter:
    enabled = str(frame.sparkSession.conf.get(ENABLED_CONF, "false")).lower()
    if enabled == "true" and frame.isStreaming and has_state(analyzed(frame)):
        return StatefulStreamWriter(frame, {})
    if frame.isStreaming:
        # A standby driver must not start a query of Spark's either: two drivers would write one checkpoint.
        host.current().admitted(frame.sparkSession.sparkContext.applicationId or "", None)
    return DataStreamWriter(frame)
