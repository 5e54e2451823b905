"""A small stream, queries that are not really started, and templates; for the tests of the front end."""

from __future__ import annotations

import pytest
from pyspark.sql import DataFrame, SparkSession

from binshift.spark.frontend.definition import Definition
from binshift.spark.plan.template import Templates
from binshift.spark.session.jvm import install

Started = list[Definition]


def clicks_stream(spark: SparkSession) -> DataFrame:
    """A stream of (ts, user, amount)."""
    return spark.readStream.format("rate").load().selectExpr("timestamp AS ts", "value % 10 AS user", "value AS amount")


def started_queries(monkeypatch: pytest.MonkeyPatch) -> Started:
    """The definitions of queries from now on; none is really started."""
    seen: Started = []
    monkeypatch.setattr("binshift.spark.frontend.query.start", lambda definition, host: seen.append(definition))
    return seen


def templates_of(spark: SparkSession) -> Templates:
    """Those of a session."""
    return Templates(spark, install(spark))
