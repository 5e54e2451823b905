"""What the benchmarks share: a cluster with a session, the open-loop source, latency from scheduled times, tables.

Latency is open loop, as in Megaphone's evaluation (PVLDB 12(9), section 5): from the time a row was due, whether or not
the system kept up, to the commit of its epoch; reported as percentiles over 250 ms buckets of due time.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from binshift.local import LocalCluster
from binshift.spark import conf

SOURCE = Path(__file__).parent / "java" / "OpenLoopSource.java"
RESULTS = Path(__file__).parent / "results"
BUCKET_SECONDS = 0.25


@dataclass
class Bench:
    """A running cluster and its session."""

    cluster: LocalCluster
    spark: SparkSession
    directory: Path
    _runs: int = 0

    def checkpoint(self) -> str:
        """A directory no query has used."""
        self._runs += 1
        return str(self.directory / f"checkpoint-{self._runs}")

    def stream(self, *, keys: int, prefill: int = 0, rate: int = 10_000, batch: int = 0) -> DataFrame:
        """The open-loop stream, with ``k`` = value mod ``keys``, scattered."""
        source = self.spark.readStream.format("dev.binshift.bench.OpenLoopSource")
        for name, value in {"prefill": prefill, "rate": rate, "batch": batch, "partitions": 2}.items():
            source = source.option(name, value)
        return source.load().withColumn("k", F.expr(f"pmod(value * 7919, {keys})"))


@contextmanager
def bench(workers: int, **extra: str) -> Iterator[Bench]:
    """A cluster of so many workers and a session on it."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    with tempfile.TemporaryDirectory(prefix="binshift-bench-") as name, LocalCluster(Path(name), workers) as cluster:
        builder = SparkSession.builder.master(cluster.url).appName("bench")
        settings = (
            cluster.conf()
            | conf.required()
            | {"spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false"}
            | extra
        )
        settings |= {"spark.sql.shuffle.partitions": "2", "spark.default.parallelism": "2"}
        for key, value in settings.items():
            builder = builder.config(key, value)
        spark = builder.getOrCreate()
        spark.sparkContext.setLogLevel("ERROR")
        spark.sql(f"ADD JAR '{_compile(spark, Path(name))}'")
        try:
            yield Bench(cluster, spark, Path(name))
        finally:
            spark.stop()


def _compile(spark: SparkSession, directory: Path) -> Path:
    compiler: Any = spark._jvm.org.codehaus.janino.SimpleCompiler()  # type: ignore[union-attr]
    compiler.cook(SOURCE.read_text())
    compiled = compiler.getBytecodes()
    jar = directory / "bench.jar"
    with zipfile.ZipFile(jar, "w") as archive:
        for name in compiled.keySet():
            archive.writestr(name.replace(".", "/") + ".class", bytes(compiled.get(name)))
    return jar


@dataclass
class Latencies:
    """Per epoch, how long before its commit the rows in it were due.

    Each epoch's rows are due evenly between the commit of one read and the next, so the first and the last due
    time of an epoch tell all of them.
    """

    epochs: list[tuple[int, float, float, float]] = field(default_factory=list)
    """(epoch, first due, last due, committed), in seconds since 1970."""

    def buckets(self) -> list[tuple[float, float]]:
        """(due time, worst latency) for every 250 ms of due time."""
        worst: dict[int, float] = {}
        for _, first, last, committed in self.epochs:
            for bucket in range(int(first / BUCKET_SECONDS), int(last / BUCKET_SECONDS) + 1):
                due = max(first, bucket * BUCKET_SECONDS)
                worst[bucket] = max(worst.get(bucket, 0.0), committed - due)
        return [(bucket * BUCKET_SECONDS, latency) for bucket, latency in sorted(worst.items())]

    def between(self, start: float, end: float) -> list[float]:
        """The worst latency of each bucket due in this time."""
        return [latency for due, latency in self.buckets() if start <= due < end]


def percentile(values: Sequence[float], q: float) -> float:
    """A percentile; nan of nothing."""
    return float(np.percentile(values, q)) if len(values) else float("nan")


def summary(values: Sequence[float]) -> dict[str, float]:
    """Median, 99th percentile and maximum."""
    return {"p50": percentile(values, 50), "p99": percentile(values, 99), "max": max(values, default=float("nan"))}


def table(rows: Sequence[Mapping[str, object]]) -> str:
    """Rows as text columns."""
    if not rows:
        return "(nothing)"
    names = list(rows[0])
    cells = [names, *[[_shown(row.get(name)) for name in names] for row in rows]]
    widths = [max(len(line[column]) for line in cells) for column in range(len(names))]
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) for line in cells)


def save(name: str, result: object) -> Path:
    """Keep a result as JSON."""
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{name}.json"
    path.write_text(json.dumps(result, indent=1) + "\n")
    return path


def _shown(value: object) -> str:
    return f"{value:.3f}" if isinstance(value, float) else str(value)
