"""A user's program for the restart tests: counts to files until it is killed. ``program MASTER CHECKPOINT OUT``."""

from __future__ import annotations

import os
import sys

from counted import counting
from pyspark.sql import SparkSession

from binshift.spark import conf


def main(master: str, checkpoint: str, out: str) -> None:
    """Run until killed."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.master(master).appName("counted")
    small = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.default.parallelism": "2",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.executor.cores": "2",
        "spark.executor.memory": "600m",
        "spark.sql.session.timeZone": "UTC",
    }
    for key, value in (conf.required() | small).items():
        builder = builder.config(key, value)
    writer = (
        counting(builder.getOrCreate(), bins=32, workers=2, snapshot_cycle_epochs=4)
        .format("parquet")
        .option("path", out)
    )
    writer.option("checkpointLocation", checkpoint).start().awaitTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])
