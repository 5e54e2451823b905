"""The current time of a batch, as in Spark: the same in every run, in keys, aggregates and after the operator."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, timedelta
from pathlib import Path

import pytest
from engines import TIMES, Sink, having, ours, put, run, source, sparks, taken, times, uncommit
from pyspark.errors import AnalysisException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

pytestmark = pytest.mark.cluster

CLOCKS = (
    "year(current_timestamp()) div 1000",
    "year(CURRENT_DATE) div 1000",
    "year(localtimestamp()) div 1000",
    "unix_timestamp() div 10000000000",
)
"""Keys derived from the time that do not change while the test runs, at any time."""


def clocked(frame: DataFrame) -> DataFrame:
    """Times in keys, in a filter of an aggregate, and after the operator; one in each of Spark's forms."""
    keys = [F.expr(text).alias(f"at{number}") for number, text in enumerate(CLOCKS)]
    counted = frame.groupBy(F.window(F.current_timestamp(), "365000 days"), "k", *keys).agg(
        F.expr("count(*) FILTER (WHERE ts < current_timestamp())").alias("n")
    )
    return counted.withColumns(
        {
            "now": F.current_timestamp(),
            "local": F.localtimestamp(),
            "day": F.current_date(),
            "unix": F.unix_timestamp(),
            "zone": F.current_timezone(),
            "older": F.expr("current_timestamp() > timestamp'2020-01-01'"),
        }
    ).where("now > timestamp'2020-01-01'")


def test_the_current_time_is_the_batch_s(session: SparkSession, tmp_path: Path) -> None:
    """This holds in keys, in aggregates and after the operator, in every run and replay of an epoch; in the session's time zone."""
    folder, checkpoint = tmp_path / "in", tmp_path / "ours"
    for batch, seconds in enumerate(TIMES[:2]):
        put(folder, batch, seconds)
    with having(session, {"spark.sql.session.timeZone": "Asia/Tokyo"}):
        kept = Sink()
        run(ours(clocked(source(session, folder))), checkpoint, kept)
        uncommit(checkpoint, 1)
        run(ours(clocked(source(session, folder))), checkpoint, kept)
        assert kept.runs == [0, 1, 1]
        theirs = taken(sparks(clocked(source(session, folder))), tmp_path / "sparks")
        for found, at in ((kept.epochs, times(checkpoint)), (theirs, times(tmp_path / "sparks"))):
            for epoch, rows in found.items():
                assert {row[-6].astimezone(UTC) for row in rows} == {at[epoch]}
                assert {row[-5] for row in rows} == {(at[epoch] + timedelta(hours=9)).replace(tzinfo=None)}
                assert {row[-4] for row in rows} == {(at[epoch] + timedelta(hours=9)).date()}
                assert {row[-3] for row in rows} == {int(at[epoch].timestamp())}
        counts = [[Counter(row[:-6] for row in rows) for rows in each.values()] for each in (kept.epochs, theirs)]
        assert counts[0] == counts[1]


@pytest.mark.parametrize("key", ["date_trunc('year', now())", "current_date() > date'2020-01-01'", "'constant'"])
def test_the_only_key_may_be_one_value_in_a_batch(key: str, session: SparkSession, tmp_path: Path) -> None:
    """The exchange by worker is kept where Spark could fold the key; `now()`, a clock in Spark, is the batch's time here."""
    folder = tmp_path / "in"
    for batch, seconds in enumerate(TIMES[:3]):
        put(folder, batch, seconds)
    counted = source(session, folder).groupBy(F.expr(key).alias("key")).agg(F.count("*").alias("n"))
    found = taken(ours(counted.selectExpr("n", "now() AS at")), tmp_path / "ours")
    assert [sorted(row[0] for row in rows) for rows in found.values()] == [[3], [5], [8]]
    assert [{row[1].astimezone(UTC) for row in rows} for rows in found.values()] == [
        {at} for at in times(tmp_path / "ours")
    ]


@pytest.mark.parametrize("text", ["max(current_timestamp())", "count(current_date())", "sum(unix_timestamp())"])
def test_a_time_within_an_aggregate_is_refused_as_by_spark(text: str, session: SparkSession, tmp_path: Path) -> None:
    """Spark treats a batch's time as non-deterministic and rejects it in its first batch; binshift does so before the start."""
    folder = tmp_path / "in"
    put(folder, 0, TIMES[0])

    frame = source(session, folder).groupBy("k").agg(F.expr(text))
    with pytest.raises(StreamingQueryException) as spark:
        taken(sparks(frame), tmp_path / "sparks")
    with pytest.raises(AnalysisException) as found:
        taken(ours(frame), tmp_path / "ours")
    assert found.value.getCondition() == "AGGREGATE_FUNCTION_WITH_NONDETERMINISTIC_EXPRESSION"
    assert str(found.value).partition(" SQLSTATE")[0] in str(spark.value)
    assert not (tmp_path / "ours" / "binshift").exists()
