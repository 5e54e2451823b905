"""Counts keys in files, slowly: each row takes a fixed time of a core."""

import sys
import time
from collections.abc import Iterator

import pandas as pd
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import LongType

SECONDS_PER_ROW = 20e-6


@F.pandas_udf(LongType())  # type: ignore[call-overload,untyped-decorator]
def slowly(batches: Iterator[pd.Series]) -> Iterator[pd.Series]:
    """The same number, after some work."""
    for batch in batches:
        until = time.process_time() + SECONDS_PER_ROW * len(batch)
        while time.process_time() < until:
            pass
        yield batch


spark = SparkSession.builder.getOrCreate()
folder, checkpoint = sys.argv[1:]
rows = spark.readStream.schema("id long, key long").parquet(folder)
counts = rows.select((slowly("key") % 100).alias("key")).groupBy("key").count()
query = counts.writeStream.outputMode("update").option("checkpointLocation", checkpoint).format("noop").start()
query.awaitTermination()
