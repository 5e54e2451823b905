"""A user's program for the fault campaign: counts, publishes each epoch as a file, rescales on request, reports its status.

``program MASTER CHECKPOINT OUT CONF``; ``CONF`` is JSON: Spark conf under ``spark``, settings under ``binshift``. A line on
its standard input is a number of workers to rescale to. An epoch that is published again must be the same: if not, the
second one is kept next to the first, as ``N.again``.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import threading
import time
from pathlib import Path
from typing import Any

from counted import counting
from pyspark.sql import DataFrame, SparkSession

from binshift import failpoints
from binshift.errors import BinshiftError
from binshift.spark import conf

POLL_SECONDS = 0.05
FILES = "files"
"""The directory of the epochs, if they are files of Spark's own formats."""


class Publisher:
    """Keeps each epoch's rows in a file of its own."""

    def __init__(self, out: Path) -> None:
        self.out = out

    def __call__(self, frame: DataFrame, epoch: int) -> None:
        """Publish an epoch completely or not at all."""
        rows = sorted([[r[0], str(r[1]), r[2], r[3], r[4], r[5]] for r in frame.collect()], key=str)
        text, place = json.dumps(rows), self.out / f"{epoch}.json"
        failpoints.reached("sink.before")
        fresh = self.out / f"{epoch}.{os.getpid()}.new"
        fresh.write_text(text)
        if place.exists() and place.read_text() != text:
            place = self.out / f"{epoch}.again"
        fresh.replace(place)
        failpoints.reached("sink.after")


def report_status(query: Any, out: Path) -> None:
    """Report the query's status, for the life of this process."""
    seen = -1
    with (out / "timings.jsonl").open("a") as log:
        while True:
            for each in query.timings:
                if each.epoch > seen:
                    seen = each.epoch
                    line = {
                        "epoch": each.epoch,
                        "at": each.committed_at,
                        "seconds": each.seconds["total"],
                        "runs": each.runs,
                    }
                    log.write(json.dumps(line) + "\n")
            log.flush()
            migrations = [each.status for each in query.migrations]
            status = {"pid": os.getpid(), "epoch": query.epoch, "workers": query.workers, "migrations": migrations}
            fresh = out / f"status.{os.getpid()}"
            fresh.write_text(json.dumps(status))
            fresh.replace(out / "status.json")
            time.sleep(POLL_SECONDS)


def rescale_from_input(query: Any) -> None:
    """Rescale to the numbers on standard input."""
    for line in sys.stdin:
        with contextlib.suppress(BinshiftError):
            query.rescale(int(line))


def main(master: str, checkpoint: str, out: str, settings: str) -> None:
    """Run until killed, or until the query ends."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    given = json.loads(settings)
    builder = SparkSession.builder.master(master).appName("faults")
    for key, value in (conf.required() | given["spark"]).items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    writer = counting(session, **given["binshift"]).trigger(processingTime="0.2 seconds")
    if given["tester"].get("files"):
        writer = writer.format("parquet").option("path", f"{out}/{FILES}")
    else:
        writer = writer.foreachBatch(Publisher(Path(out)))
    query = writer.option("checkpointLocation", checkpoint).start()
    threading.Thread(target=report_status, args=(query, Path(out)), daemon=True).start()
    threading.Thread(target=rescale_from_input, args=(query,), daemon=True).start()
    try:
        query.awaitTermination()
    finally:
        os._exit(1)  # do not wait for a cluster that may have ended


if __name__ == "__main__":
    main(*sys.argv[1:])
