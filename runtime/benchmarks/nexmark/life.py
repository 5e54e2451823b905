"""The program that `drivers` kills: ``python -m nexmark.life SPEC``. It runs several queries from their checkpoints.

In its first life each query stops in a batch while its bins move to four workers, and waits there for the end. In the second it
continues to the end of its input. It reports what it did in files.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from measuring import session
from pyspark.sql import SparkSession

from binshift.strategies import Strategy
from nexmark.config import Config
from nexmark.correct import Places, error_text
from nexmark.engines import writer
from nexmark.inputs import Inputs
from nexmark.kills import Held, is_moving
from nexmark.moves import FIRST_MOVE, OUT, WAIT_SECONDS_MAX, WORKERS
from nexmark.queries import QUERIES
from nexmark.results import Sink

SYSTEM = "driver-killed"


@dataclass(frozen=True)
class Spec:
    """What the program has to do.

    Attributes:
        master: of the cluster.
        conf: of the session.
        config: of the generator.
        folder: of inputs; likewise the numbers of events and of steps.
        places: the folder of rows and checkpoints.
        reports: the folder of its reports.
        queries: their names.
        bins: of each.
        first: whether it is the first life.
    """

    master: str
    conf: Mapping[str, str]
    config: Mapping[str, int]
    folder: str
    events: int
    steps: int
    places: str
    reports: str
    queries: tuple[str, ...]
    bins: int
    first: bool

    @property
    def inputs(self) -> Inputs:
        """The events."""
        return Inputs(Path(self.folder), Config(**self.config), self.events, self.steps)


def main(path: str) -> None:
    """Run the queries at the same time."""
    spec = Spec(**json.loads(Path(path).read_text(encoding="utf-8")))
    spark = session(spec.master, spec.conf)
    with ThreadPoolExecutor(len(spec.queries)) as threads:
        list(threads.map(lambda name: _one(spec, spark, name), spec.queries))
    spark.stop()


def _one(spec: Spec, spark: SparkSession, name: str) -> None:
    reports, queries = Path(spec.reports), list[Any]()
    try:
        sink: Callable[..., None] = Sink(Places(Path(spec.places)).rows(name, SYSTEM))
        if spec.first:
            sink = Held(
                sink,
                lambda epoch: bool(queries) and is_moving(queries[0], epoch, spec.steps),
                lambda: _wait_for_the_end(reports / f"{name}.held", queries[0]),
            )
        queries.append(_started(spec, spark, name, sink))
        if spec.first:
            queries[0].await_epoch(FIRST_MOVE, WAIT_SECONDS_MAX)
            queries[0].rescale(OUT, strategy=Strategy.FLUID.value)
        queries[0].processAllAvailable()
        for migration in queries[0].migrations:
            migration.wait(WAIT_SECONDS_MAX)
        queries[0].stop()
        report(reports / f"{name}.ended", queries[0])
    except Exception as failed:
        # It is a finding of the parent's.
        (reports / f"{name}.failed").write_text(error_text(failed), encoding="utf-8")


def _started(spec: Spec, spark: SparkSession, name: str, sink: Callable[..., None]) -> Any:
    query, checkpoint = QUERIES[name], Places(Path(spec.places)).checkpoint(name, SYSTEM)
    frame = query.build(spec.inputs.stream(spark.newSession()))
    made = writer(frame, query, str(checkpoint), bins=spec.bins, workers=WORKERS)
    return made.foreachBatch(sink).start()


def _wait_for_the_end(path: Path, query: Any) -> None:
    report(path, query)
    threading.Event().wait()


def report(path: Path, query: Any) -> None:
    """Report the epochs of this life: number, rows and moved bins; and the workers now."""
    epochs = [(each.epoch, each.rows_in, each.moved) for each in query.timings]
    ended = all(each.ended for each in query.migrations)
    fresh = path.with_suffix(".new")
    fresh.write_text(
        json.dumps({"epochs": epochs, "workers": query.workers, "settled": ended, "pid": os.getpid()}), encoding="utf-8"
    )
    fresh.replace(path)


if __name__ == "__main__":
    main(sys.argv[1])
