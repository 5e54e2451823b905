"""The program that `bench_scale` runs with `binshift run`: ``scaled_program CHECKPOINT RESULT KEYS RATE BINS``.

Like a user's program it has no code for clusters or workers. After its query has stopped it writes Spark's progress reports, and
the parts of each epoch's time, to RESULT: latency is computed from them afterwards, so that measuring costs the query nothing.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from measuring import KEEP_ALL, add_source, open_loop
from pyspark.sql import SparkSession
from pyspark.sql import functions as F


def main() -> None:
    """Run until stopped, then write the result."""
    checkpoint, result, keys, rate, bins = sys.argv[1:]
    builder = SparkSession.builder
    for key, value in (KEEP_ALL | {"spark.sql.shuffle.partitions": "2", "spark.default.parallelism": "2"}).items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    with tempfile.TemporaryDirectory() as folder:
        add_source(spark, Path(folder))
        stream = open_loop(spark, keys=int(keys), prefill=int(keys), rate=int(rate))
        frame = stream.groupBy("k").agg(F.count("*").alias("n"))
        writer = frame.writeStream.option("binshift.bins", bins).format("noop").outputMode("update").queryName("scaled")
        query: Any = writer.option("checkpointLocation", checkpoint).start()
        query.awaitTermination()
    progress = [json.loads(each.json) for each in query.recentProgress]
    parts = {each.epoch: dict(each.seconds) for each in query.timings}
    Path(result).write_text(json.dumps({"progress": progress, "parts": parts}), encoding="utf-8")


if __name__ == "__main__":
    main()
