"""A user's program for a driver pod: fails while a file has text, otherwise counts. ``program FAILING``.

It names no master, conf or checkpoint: it is started with all of them. It gets no secrets.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from counted import print_unnamed, stream
from pyspark.sql import SparkSession
from pyspark.sql import functions as F


def main(failing: Path) -> None:
    """Run until the query ends."""
    if failing.exists():
        raise ValueError(failing.read_text())
    assert not {"BINSHIFT_TOKEN", "BINSHIFT_DRAIN_TOKEN", "_SPARK_AUTH_SECRET"} & os.environ.keys()
    spark = SparkSession.builder.getOrCreate()
    seen = F.udf(print_unnamed, "string")(F.col("name"))
    counted = stream(spark).withColumn("name", seen).groupBy("name").agg(F.count("*"))
    counted.writeStream.option("binshift.bins", 32).outputMode("update").format("noop").queryName(
        "podded"
    ).start().awaitTermination()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
