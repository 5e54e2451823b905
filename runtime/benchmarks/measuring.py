"""A cluster with a session for a benchmark, the open-loop source on it, and queries that take turns.

Compared systems take turns in one session, in an order that is reversed each time, because a machine's speed drifts and a JVM
gets faster the longer it runs; before the first turn some systems run once unmeasured.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from rich.progress import track

from binshift.java import spark_conf
from binshift.local import LocalCluster
from binshift.spark import conf

SOURCE = Path(__file__).parent / "java" / "OpenLoopSource.java"
KEEP_ALL = {"spark.sql.streaming.numRecentProgressUpdates": "100000"}
POLL_SECONDS = 0.2
START_SECONDS_MAX = 300.0

System = Callable[[DataFrame], Any]
"""Starts a query on the given stream."""


@dataclass
class Bench:
    """A running cluster and its session."""

    cluster: LocalCluster
    spark: SparkSession
    directory: Path
    _runs: int = 0

    def checkpoint(self, folder: Path | None = None) -> str:
        """A directory that no query has used."""
        self._runs += 1
        return str((folder or self.directory) / f"checkpoint-{self._runs}")

    def stream(self, **options: int) -> DataFrame:
        """See `open_loop`."""
        return open_loop(self.spark, **options)


def open_loop(spark: SparkSession, *, keys: int, prefill: int = 0, rate: int = 10_000, batch: int = 0) -> DataFrame:
    """The open-loop stream, with ``k`` = value mod ``keys``, scattered: the first ``prefill`` rows have every key in turn."""
    source = spark.readStream.format("dev.binshift.bench.OpenLoopSource")
    for name, value in {"prefill": prefill, "rate": rate, "batch": batch, "partitions": 2}.items():
        source = source.option(name, value)
    return source.load().withColumn("k", F.expr(f"pmod(value * 7919, {keys})"))


@contextmanager
def bench(workers: int, more: Mapping[str, str] | None = None, cores: int = 3) -> Iterator[Bench]:
    """A cluster of this many workers, with task slots each, and a session on it; ``more`` is additional Spark conf."""
    with (
        tempfile.TemporaryDirectory(prefix="binshift-bench-") as name,
        LocalCluster(Path(name), workers, cores) as cluster,
    ):
        spark = session(cluster.url, cluster.conf() | dict(more or {}))
        add_source(spark, Path(name))
        try:
            yield Bench(cluster, spark, Path(name))
        finally:
            spark.stop()


def session(master: str, more: Mapping[str, str]) -> SparkSession:
    """A session for measurements on a running cluster."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.master(master).appName("bench")
    settings = spark_conf() | conf.required() | KEEP_ALL
    settings |= {"spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false"}
    settings |= {"spark.sql.shuffle.partitions": "2", "spark.default.parallelism": "2"}
    for key, value in (settings | dict(more)).items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def add_source(spark: SparkSession, directory: Path) -> None:
    """Compile the open-loop source with Spark's own compiler, and distribute it to driver and executors."""
    compiler: Any = spark._jvm.org.codehaus.janino.SimpleCompiler()  # type: ignore[union-attr]
    compiler.cook(SOURCE.read_text())
    compiled = compiler.getBytecodes()
    jar = directory / "bench.jar"
    with zipfile.ZipFile(jar, "w") as archive:
        for name in compiled.keySet():
            archive.writestr(name.replace(".", "/") + ".class", bytes(compiled.get(name)))
    spark.sql(f"ADD JAR '{jar}'")


@dataclass
class Turn:
    """The measurements of one query."""

    progress: list[Mapping[str, Any]] = field(default_factory=list)
    parts: list[Mapping[str, float]] = field(default_factory=list)
    """Of binshift's epochs: seconds by part."""

    def add(self, other: Turn) -> None:
        """Add another turn."""
        self.progress += other.progress
        self.parts += other.parts

    @property
    def seconds(self) -> list[float]:
        """From trigger to commit, for each epoch."""
        return [each["durationMs"]["triggerExecution"] / 1000 for each in self.progress]


def take_turns(
    systems: Mapping[str, System],
    stream: Callable[[], DataFrame],
    *,
    turns: int,
    seconds: float,
    warm: Sequence[str],
    warm_seconds: float,
    settle_epochs: int = 8,
) -> dict[str, Turn]:
    """Measure each system ``turns`` times for this many seconds; those in ``warm`` run once before, unmeasured.

    ``settle_epochs`` of each turn are not measured.
    """
    order = [(name, warm_seconds, False) for name in warm]
    for turn in range(turns):
        order += [(name, seconds, True) for name in (list(systems) if turn % 2 == 0 else reversed(list(systems)))]
    found = {name: Turn() for name in systems}
    for name, how_long, counts in track(order, description="turns"):
        turn_found = measured(systems[name](stream()), how_long, settle_epochs)
        if counts:
            found[name].add(turn_found)
    return found


def measured(query: Any, seconds: float, settle_epochs: int = 8, epochs_min: int = 3) -> Turn:
    """Let a query settle, then measure it for this many seconds, and for at least three epochs; then stop it."""
    await_batch(query, settle_epochs)
    first = _batch(query)
    time.sleep(seconds)
    await_batch(query, first + epochs_min)
    last = _batch(query)
    query.stop()
    parts = {each.epoch: each.seconds for each in getattr(query, "timings", ())}
    progress = [p for p in query.recentProgress if first < p["batchId"] <= last and p["numInputRows"]]
    return Turn(progress, [parts[p["batchId"]] for p in progress] if parts else [])


def await_batch(query: Any, batch: int, seconds: float = START_SECONDS_MAX) -> None:
    """Wait until a batch of a query is committed."""
    deadline = time.monotonic() + seconds
    while _batch(query) < batch:
        if not query.isActive:
            raise RuntimeError(f"the query has ended: {query.exception()}")
        if time.monotonic() > deadline:
            raise TimeoutError(f"batch {batch} has not ended within {seconds:.0f} s")
        time.sleep(POLL_SECONDS)


def await_true(holds: Callable[[], bool], seconds: float, poll_seconds: float) -> None:
    """Wait until something holds of a query."""
    deadline = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > deadline:
            raise TimeoutError(f"the query is not whole again after {seconds:.0f} s")
        time.sleep(poll_seconds)


def is_whole(query: Any, workers: int) -> bool:
    """Whether each of so many workers has an executor and bins, nothing moves, and every standby copy exists."""
    flow = query.dataflow
    with flow.coordinator.lock:
        migrations = flow.coordinator.migrations
        copies = migrations.standbys.figures(flow.log.index)
        settled = migrations.idle and len(migrations.warm) == workers and len(query.route.workers) == workers
    return settled and (copies is None or copies.bins == query.route.bins)


def _batch(query: Any) -> int:
    newest = query.lastProgress
    return -1 if newest is None else int(newest["batchId"])
