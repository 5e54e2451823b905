"""A user's program for `binshift run`, without any code for clusters, workers or the control API. ``program CHECKPOINT``."""

from __future__ import annotations

import sys

from counted import print_unnamed, stream
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

if __name__ == "__main__":
    spark = SparkSession.builder.getOrCreate()
    seen = F.udf(print_unnamed, "string")(F.col("name"))
    counted = stream(spark).withColumn("name", seen).groupBy("name").agg(F.count("*"))
    writer = counted.writeStream.option("binshift.bins", 32).outputMode("update").format("noop").queryName("steered")
    writer.option("checkpointLocation", sys.argv[1]).start().awaitTermination()
