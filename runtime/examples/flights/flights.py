"""Delay statistics of flights, kept per aircraft, per route and per hour: one stateful query on a stream of files.

An ordinary PySpark program: the launcher lets binshift run its query. Each flight counts three times, for
its aircraft, its route and its hour of departure, so it is converted to three rows of (scope, key) before the stateful
part. A flight without a tail number belongs to the aircraft with the key null; a cancelled one has no delay and
remains an event at its scheduled time.

    binshift run flights.py --workers 2 -- FLIGHTS CHECKPOINT

FLIGHTS is a folder of parquet files with the columns of `SCHEMA`, in which more files may appear at any time; CHECKPOINT
is where the query keeps its state. Hours are those of UTC. `demo.py` runs this very query, and `manifest.yaml`
runs it on Kubernetes.
"""

from __future__ import annotations

import argparse
import os
from typing import TYPE_CHECKING

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

SCHEMA = """
    event_time TIMESTAMP, carrier STRING, flight INT, tailnum STRING, origin STRING, dest STRING,
    dep_delay INT, arr_delay INT, distance INT
"""
"""Delays are minutes, null for a cancelled flight; the event time is the actual departure, or the scheduled one."""

LATE_MINUTES = 15
"""A flight that leaves later than this is late, by the airlines' definition."""


def session() -> SparkSession:
    """The session; master and conf come from the launcher of the program."""
    return SparkSession.builder.appName("flights").config("spark.sql.session.timeZone", "UTC").getOrCreate()


def scope(name: str, key: Column) -> Column:
    """One of the scopes of a flight."""
    return F.struct(F.lit(name).alias("scope"), key.alias("key"))


def by_scope(flights: DataFrame) -> DataFrame:
    """Three rows for each flight, one per scope."""
    hour = F.date_format("event_time", "yyyy-MM-dd HH:00")
    scopes = F.array(
        scope("aircraft", F.col("tailnum")),
        scope("route", F.concat_ws("-", "origin", "dest")),
        scope("hour", hour),
    )
    return flights.select(F.explode(scopes).alias("of"), "dep_delay", "arr_delay").select(
        "of.scope", "of.key", "dep_delay", "arr_delay"
    )


def statistics() -> list[Column]:
    """The statistics of each key."""
    delay = F.col("dep_delay")
    return [
        F.count("*").alias("flights"),
        F.count(delay).alias("departed"),
        F.sum(F.when(delay.isNull(), 1).otherwise(0)).alias("cancelled"),
        F.sum(F.when(delay > LATE_MINUTES, 1).otherwise(0)).alias("late"),
        F.sum(delay).alias("delay_sum"),
        F.min(delay).alias("delay_min"),
        F.max(delay).alias("delay_max"),
        F.avg(delay).alias("delay_mean"),
        F.stddev_samp(delay).alias("delay_deviation"),
        F.avg("arr_delay").alias("arrival_delay_mean"),
    ]


def delays(flights: DataFrame) -> DataFrame:
    """The statistics, per scope and key."""
    return by_scope(flights).groupBy("scope", "key").agg(*statistics())


def stream(spark: SparkSession, folder: str) -> DataFrame:
    """The flights in the files of a folder, to which more are added."""
    return spark.readStream.schema(SCHEMA).parquet(folder)


def start(spark: SparkSession, flights: str, checkpoint: str, results: str | None) -> StreamingQuery:
    """Start the query.

    Args:
        flights: the folder to which files are added.
        checkpoint: a folder for the query's state; the state of an earlier run is continued.
        results: the folder for the results, as parquet; if it is not set, they are printed.
    """
    writer = delays(stream(spark, flights)).writeStream.queryName("flights").outputMode("update")
    writer = writer.format("parquet" if results else "console").option("checkpointLocation", checkpoint)
    return writer.start(results)


def main() -> None:
    """Run until interrupted."""
    parser = argparse.ArgumentParser(description="delay statistics of flights, per aircraft, route and hour")
    parser.add_argument("flights", help="folder with parquet files of flights")
    parser.add_argument(
        "checkpoint",
        nargs="?",
        default=os.environ.get("BINSHIFT_CHECKPOINT"),
        help="folder for the query's state; on Kubernetes the environment sets it",
    )
    parser.add_argument("--results", help="folder for the results, as parquet; if it is not set, they are printed")
    given = parser.parse_args()
    if given.checkpoint is None:
        parser.error("a checkpoint is required")
    if "://" not in given.flights:
        os.makedirs(given.flights, exist_ok=True)  # the feeder may start later
    start(session(), given.flights, given.checkpoint, given.results).awaitTermination()


if __name__ == "__main__":
    main()
