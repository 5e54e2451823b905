"""Totals by account in a PostgreSQL table, exactly once: rows and epoch are written in one transaction.

    binshift run to_postgres.py -- IN "host=localhost dbname=shop" CHECKPOINT

IN has JSON lines: {"account": "a1", "amount": 12.5}. Needs `pip install "psycopg[binary]"` for the driver.
"""

from __future__ import annotations

import sys
from functools import partial

import psycopg
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

TABLES = """
    CREATE TABLE IF NOT EXISTS totals (account text PRIMARY KEY, payments bigint, total double precision);
    CREATE TABLE IF NOT EXISTS epochs (epoch bigint PRIMARY KEY)
"""
UPSERT = """
    INSERT INTO totals VALUES (%s, %s, %s)
    ON CONFLICT (account) DO UPDATE SET payments = excluded.payments, total = excluded.total
"""


def upsert(database: str, batch: DataFrame, epoch: int) -> None:
    """Apply an epoch, unless it has been applied before."""
    rows = [tuple(row) for row in batch.collect()]
    with psycopg.connect(database) as connection:
        connection.execute(TABLES)
        inserted = connection.execute("INSERT INTO epochs VALUES (%s) ON CONFLICT DO NOTHING", (epoch,))
        if inserted.rowcount:
            connection.cursor().executemany(UPSERT, rows)


def start(source: str, database: str, checkpoint: str) -> StreamingQuery:
    """Start the query."""
    spark = SparkSession.builder.getOrCreate()
    payments = spark.readStream.schema("account string, amount double").json(source)
    totals = payments.groupBy("account").agg(F.count("*").alias("payments"), F.sum("amount").alias("total"))
    writer = totals.writeStream.outputMode("update").option("checkpointLocation", checkpoint)
    return writer.foreachBatch(partial(upsert, database)).start()


if __name__ == "__main__":
    start(*sys.argv[1:]).awaitTermination()
