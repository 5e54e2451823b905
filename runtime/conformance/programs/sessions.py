"""Session windows: rows of a key with gaps shorter than a limit are one group."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from conformance.program import Kind, stream

case = Kind("sessions")

CLICKS = stream(
    "ts timestamp, user string, v long",
    [(40, "hello", 1), (42, "hello", 2), (41, "world", 3)],
    [(55, "hello", 4), (53, "hello", 5), (47, "hello", 6)],  # 47 makes one session of two
    [(35, "late", 7), (40, "hello", 8), (60, "world", 9)],
    [],
    [(59, None, 1), (70, None, 2)],  # their gap is longer than the limit
    [(300, "end", 0)],
)


def _sessions(clicks: DataFrame, gap: str = "10 seconds") -> DataFrame:
    session = F.session_window("ts", gap).alias("session")
    grouped = clicks.withWatermark("ts", "10 seconds").groupBy(session, "user")
    counted = grouped.agg(F.count("*").alias("n"), F.sum("v").alias("total"))
    return counted.select("user", "session.start", "session.end", "n", "total")


@case(CLICKS, source="StreamingSessionWindowSuite: append mode, one key")
def append(clicks: DataFrame) -> DataFrame:
    """A session is emitted when the watermark reaches its end."""
    return _sessions(clicks)


@case(CLICKS, mode="complete", source="StreamingSessionWindowSuite: complete mode")
def complete(clicks: DataFrame) -> DataFrame:
    """All sessions in every batch; sessions that become one replace their parts."""
    return _sessions(clicks)


@case(CLICKS, mode="update", fails=True, source="StreamingSessionWindowSuite: update mode is refused")
def update(clicks: DataFrame) -> DataFrame:
    """Update mode could not withdraw sessions that became one."""
    return _sessions(clicks)


@case(CLICKS, mode="complete", fails=True, source="StreamingSessionWindowSuite: complete mode, no keys")
def global_sessions(clicks: DataFrame) -> DataFrame:
    """Sessions need a further key."""
    return clicks.groupBy(F.session_window("ts", "10 seconds")).count()


@case(
    stream(
        "ts timestamp, k string, gap string",
        [(10, "a", "5 seconds"), (13, "a", "20 seconds"), (10, "b", "1 second")],
        [(30, "a", "1 second"), (12, "b", "10 seconds"), (40, "b", "0 seconds")],  # an empty gap drops the row
        [(31, "c", "-5 seconds"), (45, "c", "5 seconds"), (50, "c", "5 seconds")],
        [(30, "a", "5 seconds"), (100, "d", "1 second")],
        [(300, "z", "1 second")],
    ),
    source="StreamingSessionWindowSuite: dynamic gap, SPARK-36465",
)
def dynamic_gap(clicks: DataFrame) -> DataFrame:
    """Each row has its own gap; rows with an empty or negative gap are dropped."""
    session = F.session_window("ts", F.expr("CAST(gap AS INTERVAL)"))
    return clicks.withWatermark("ts", "10 seconds").groupBy(session, "k").count()


@case(
    stream(
        "ts timestamp, k string",
        [(10, "a"), (11, "b")],
        [(22, "a"), (15, "b")],
        [(28, "a"), (90, "b")],
        [(300, "z")],
    ),
    source="StreamingSessionWindowSuite: gap chosen by a condition",
)
def gap_by_key(clicks: DataFrame) -> DataFrame:
    """The gap follows from the key."""
    gap = F.when(F.col("k") == "a", "15 seconds").otherwise("3 seconds")
    grouped = clicks.withWatermark("ts", "5 seconds").groupBy("k", F.session_window("ts", gap))
    return grouped.agg(F.collect_list(F.second("ts")).alias("seconds")).withColumn("n", F.size("seconds"))


@case(CLICKS, source="StreamingSessionWindowSuite: session closed exactly at its end")
def touching_rows(clicks: DataFrame) -> DataFrame:
    """A row exactly at the end of a session begins a new one."""
    return _sessions(clicks, "2 seconds")


@case(
    stream(
        "ts timestamp, k string, v long",
        [(10, "a", 1), (30, "a", 2), (50, "a", 3)],  # three sessions
        [(20, "a", 4)],  # joins the first and the second
        [(40, "a", 5), (40, "a", 6)],  # joins all
        [(75, "b", 7)],
        [(300, "z", 0)],
    ),
    source="StreamingSessionWindowSuite: merge of several sessions",
)
def bridges(clicks: DataFrame) -> DataFrame:
    """Rows between sessions join them, over several batches."""
    session = F.session_window("ts", "11 seconds")
    grouped = clicks.withWatermark("ts", "60 seconds").groupBy(session, "k")
    most = F.max_by("v", "ts").alias("newest")
    return grouped.agg(F.sum("v").alias("total"), F.avg("v").alias("mean"), most, F.count_if(F.col("v") > 2).alias("n"))


@case(CLICKS, source="StreamingSessionWindowSuite: with a filter of groups")
def having(clicks: DataFrame) -> DataFrame:
    """A filter of the emitted sessions."""
    return (
        _sessions(clicks)
        .where("n > 1")
        .select("user", (F.unix_timestamp("end") - F.unix_timestamp("start")).alias("s"))
    )
