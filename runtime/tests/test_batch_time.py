"""The current time in the frames of an epoch is the batch's, and keys may be constant because of it."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from typing import Any

import pytest
from compiled import Compiled, compiled
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from binshift.model import Worker
from binshift.operators.aggregate import OutputMode
from binshift.operators.contract import BIN_COLUMN
from binshift.routing import Route
from binshift.spark.plan.catalyst import analyzed
from binshift.spark.plan.routing_columns import Exchange
from binshift.spark.plan.template import Templates
from binshift.spark.session.jvm import install
from binshift.spark.stages.aggregation import AggregationStage

BINS, WORKERS = 8, (Worker(0), Worker(1), Worker(2))
AT = dt.datetime(1970, 1, 2, 20, 0, 1, 234_000, tzinfo=dt.UTC)
AT_MS = round(AT.timestamp() * 1000)


@pytest.fixture(params=["UTC", "Asia/Tokyo"])
def zone(request: pytest.FixtureRequest, spark: SparkSession) -> Iterator[int]:
    """Set the session's time zone temporarily; its distance to UTC in hours."""
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", request.param)
    yield 0 if request.param == "UTC" else 9
    spark.conf.set("spark.sql.session.timeZone", str(before))


def at(frame: DataFrame) -> DataFrame:
    """The frame as of a batch's time."""
    templates = Templates(frame.sparkSession, install(frame.sparkSession))
    return templates.fill(frame, {templates.hole_of(frame.schema): frame}, AT_MS)


def test_every_form_of_the_current_time_is_the_batch_s(spark: SparkSession, zone: int) -> None:
    """This includes functions, SQL keywords and subqueries; dates and local times are those of the session's zone."""
    local = (AT + dt.timedelta(hours=zone)).replace(tzinfo=None)
    wanted = {
        "unix_millis(current_timestamp())": AT_MS,
        "unix_millis(CURRENT_TIMESTAMP)": AT_MS,
        "unix_millis(now())": AT_MS,
        "unix_timestamp()": AT_MS // 1000,
        "unix_timestamp(now())": AT_MS // 1000,
        "(SELECT max(unix_timestamp()) FROM range(2))": AT_MS // 1000,
        "current_date()": local.date(),
        "curdate()": local.date(),
        "CURRENT_DATE": local.date(),
        "localtimestamp()": local,
        "current_time()": local.time(),
        "current_time(2)": local.time().replace(microsecond=230_000),
    }
    frame = spark.range(1).select(*(F.expr(text).alias(f"c{at}") for at, text in enumerate(wanted)))
    assert list(at(frame).first() or ()) == list(wanted.values())


def test_a_frame_without_the_current_time_stays_as_it_is(spark: SparkSession) -> None:
    """Such a frame keeps its plan."""
    frame = spark.range(3).where("id > 0")
    assert analyzed(at(frame)).equals(analyzed(frame))


@pytest.mark.parametrize("key", ["current_date()", "date_trunc('day', now())", "'constant'", "id"])
def test_the_exchange_by_worker_stays_whatever_the_key(key: str, spark: SparkSession) -> None:
    """Spark folds constant keys away, and with them an exchange by a value derived from them: rows would go to any worker."""
    frame, route = spark.range(0, 40, 1, 4), Route.initial(BINS, WORKERS)
    made = Compiled(frame, [F.expr(key)], [F.count("*")])
    stage = AggregationStage(made.plan, OutputMode.UPDATE, BINS)
    routed = made.templates.fill(stage.route([made.rows], Exchange.by_owner(route, WORKERS)), {made.hole: frame}, AT_MS)
    rows = routed.select(F.spark_partition_id().alias("partition"), BIN_COLUMN, "p0").collect()
    assert sum(row["p0"] for row in rows) == 40
    assert all(route.owners[row[BIN_COLUMN]] == WORKERS[row["partition"]] for row in rows)
    assert exchanges(routed) == 1


def exchanges(frame: DataFrame) -> int:
    """The number of exchanges in the physical plan."""
    plan: Any = frame._jdf
    return str(plan.queryExecution().executedPlan().toString()).count("Exchange ")


@pytest.mark.parametrize(
    "text",
    [
        "max(current_timestamp())",
        "1 + count(current_date())",
        "sum(unix_timestamp()) - sum(id)",
        "max(localtimestamp())",
    ],
)
def test_a_time_within_an_aggregate_is_refused_as_in_spark(text: str, spark: SparkSession) -> None:
    """Spark rejects it in a stream's first batch, where it is a value of the batch and not deterministic."""
    with pytest.raises(AnalysisException, match="current_batch_timestamp") as refused:
        compiled(spark.range(1), ["id"], [F.expr(text)])
    assert refused.value.getCondition() == "AGGREGATE_FUNCTION_WITH_NONDETERMINISTIC_EXPRESSION"


@pytest.mark.parametrize(
    "text", ["count(*) FILTER (WHERE current_timestamp() > id)", "count(*) + unix_timestamp()", "max(now())"]
)
def test_what_spark_takes_of_the_time_is_taken(text: str, spark: SparkSession) -> None:
    """It is accepted next to an aggregate, in its filter, and in a form that Spark does not replace by the batch's time."""
    assert compiled(spark.range(1), ["id"], [F.expr(text.replace("> id", "> timestamp_seconds(id)"))])
