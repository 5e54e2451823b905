"""A small stream, and the start arguments of a query over it; for the tests of frame and writer."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from pyspark.sql import DataFrame, SparkSession

from binshift.spark.definition import Definition, WriterOptions
from binshift.spark.frame import StatefulFrame

Started = list[tuple[Definition, WriterOptions]]


def clicks_stream(spark: SparkSession) -> DataFrame:
    """A stream of (ts, user, amount)."""
    return spark.readStream.format("rate").load().selectExpr("timestamp AS ts", "value % 10 AS user", "value AS amount")


def started_queries(monkeypatch: pytest.MonkeyPatch) -> Started:
    """The start arguments of queries from now on; none is really started."""
    seen: Started = []
    monkeypatch.setattr(
        "binshift.spark.query.start", lambda definition, options, host: seen.append((definition, options))
    )
    return seen


def definitions(monkeypatch: pytest.MonkeyPatch) -> Callable[[StatefulFrame], Definition]:
    """Returns the definition of a frame as its query would get it."""
    seen = started_queries(monkeypatch)

    def get(frame: StatefulFrame) -> Definition:
        frame.writeStream.format("noop").outputMode("update").start(checkpointLocation="/nowhere")
        return seen[-1][0]

    return get
