"""A short program that uses everything a dataflow uses of Spark; `binshift.cds` runs it once to record the classes to archive.

Driver and executor are one process here, so that one archive serves both. It is plain PySpark, because the image's build runs it
before binshift is installed: a stream with files, an exchange, Python, Arrow and a `foreachBatch` sink.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

EPOCHS = 2
SECONDS_MAX = 120.0


def _same(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield from batches


def _kept(directory: Path, batch: DataFrame, epoch: int) -> None:
    batch.write.mode("overwrite").parquet(str(directory / "out" / str(epoch)))


def main(directory: Path) -> None:
    """Run the program; it writes to ``directory``."""
    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.scheduler.mode", "FAIR")
        .config("spark.sql.warehouse.dir", str(directory / "warehouse"))
        .getOrCreate()
    )
    source = directory / "in"
    source.mkdir()
    for number in range(EPOCHS):
        lines = [json.dumps({"k": f"key {row % 7}", "n": row, "at": f"2026-01-01 00:00:{row:02}"}) for row in range(20)]
        (source / f"{number}.json").write_text("\n".join(lines))
    rows = spark.readStream.schema("k string, n long, at timestamp").option("maxFilesPerTrigger", 1).json(str(source))
    counted = (
        rows.withWatermark("at", "1 second")
        .groupBy(F.window("at", "10 seconds"), "k")
        .agg(F.count("*").alias("rows"), F.sum("n").alias("sum"), F.max(F.struct("at", "n")).alias("last"))
        .mapInArrow(
            _same,
            "window struct<start: timestamp, end: timestamp>, k string, rows long, sum long, last struct<at: timestamp, n: long>",
        )
    )
    query = (
        counted.writeStream.outputMode("update")
        .option("checkpointLocation", str(directory / "checkpoint"))
        .foreachBatch(lambda batch, epoch: _kept(directory, batch, epoch))
        .start()
    )
    deadline = time.monotonic() + SECONDS_MAX
    while not list((directory / "out").glob(f"{EPOCHS - 1}/*.parquet")):
        if not query.isActive or time.monotonic() > deadline:
            raise SystemExit(f"the training did not finish: {query.exception()}")
        time.sleep(0.05)
    query.stop()
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
