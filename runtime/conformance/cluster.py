"""One Spark application for all programs, with a session for each engine."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import SparkSession

import binshift
from binshift import cds
from binshift.errors import Unsupported
from binshift.java import QUICK_TO_START, java_home
from binshift.local import MASTER_HOST, LocalCluster
from binshift.spark import conf

WORKERS = 2
RUNTIME = Path(__file__).resolve().parent.parent
SMALL = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.default.parallelism": "2",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.session.timeZone": "UTC",
    "spark.executorEnv.PYTHONPATH": str(RUNTIME),
    "spark.binshift.bins": "16",
    "spark.binshift.workers": str(WORKERS),
}
IN_PROCESS = {"spark.driver.host": MASTER_HOST, "spark.driver.bindAddress": MASTER_HOST, "spark.driver.memory": "1g"}
INTERPRETED = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}
"""For the oracle: compiling Java for every small plan takes longer than interpreting it."""


@dataclass(frozen=True)
class Sessions:
    """Two sessions of one application."""

    spark: SparkSession
    """Spark runs its queries."""
    base: SparkSession

    def binshift(self) -> SparkSession:
        """The session whose stateful queries binshift runs.

        Raises:
            Unsupported: this version of binshift cannot be installed in a session.
        """
        if not hasattr(binshift, "install"):
            raise Unsupported("this binshift has no `install`: run `python -m conformance --engine spark`")
        binshift.install(self.base)
        return self.base


@contextmanager
def sessions(folder: Path, *, cluster: bool) -> Iterator[Sessions]:
    """Start the sessions: on a cluster in an empty folder, or in this process, which suffices for Spark's own results."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ.setdefault("SPARK_LOCAL_IP", MASTER_HOST)
    os.environ.setdefault("JAVA_HOME", java_home())
    with LocalCluster(folder, WORKERS) if cluster else nullcontext() as started:
        master, own = ("local[2]", IN_PROCESS) if started is None else (started.url, started.conf() | conf.required())
        builder = SparkSession.builder.master(master).appName("conformance")
        for name, value in (cds.spark_conf(QUICK_TO_START) | own | SMALL).items():
            builder = builder.config(name, value)
        base = builder.getOrCreate()
        base.sparkContext.setLogLevel("OFF")
        oracle = base.newSession()
        for name, value in (INTERPRETED | {"spark.binshift.enabled": "false"}).items():
            oracle.conf.set(name, value)
        try:
            yield Sessions(oracle, base)
        finally:
            base.stop()
