"""What the program runs in: a folder of its own, a local cluster, a Spark session in this process; and their end.

Everything is made to be gone afterwards, however the demo ends: parts are ended in the reverse of their order, each within a
time limit, the processes last, then the folder. Spark logs a lot to the terminal, which belongs to the live table here; its
driver's output goes to a file in the folder instead. The session gets its master and conf from outside the program, as it
does from `spark-submit`, so the program is run as it is.

The first signal ends the demo and none disturbs its end, which would leave processes behind: a signal raises `KeyboardInterrupt` only
until the end has begun, be it by a signal or by itself.
"""

from __future__ import annotations

import contextlib
import logging
import os
import shutil
import signal
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

import flights
from binshift import cds
from binshift.hosting.processes import WATCHED, handled_signals
from binshift.hosting.program import submit_arguments
from binshift.java import QUICK_TO_START, java_home
from binshift.local import LocalCluster

STOP_SECONDS = 15.0
"""How long a part may take to end before the next one is ended."""

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Environment:
    """Where everything is.

    Attributes:
        folder: removed at the end.
        cluster: running.
        ends: what to do at the end, the last one first.
    """

    folder: Path
    cluster: LocalCluster
    ends: ExitStack

    @property
    def driver_log(self) -> Path:
        """The log of Spark's driver and of binshift."""
        return self.folder / "driver.log"

    def at_end(self, act: Callable[[], object]) -> None:
        """Call ``act`` at the end, and wait for it for a limited time."""
        self.ends.callback(_within, STOP_SECONDS, act)

    def session(self) -> SparkSession:
        """The program's session, on the cluster."""
        os.environ.setdefault("JAVA_HOME", java_home())
        os.environ["PYSPARK_PYTHON"] = sys.executable
        os.environ["PYSPARK_SUBMIT_ARGS"] = submit_arguments(self.cluster.url, self._conf())
        interrupted = signal.getsignal(signal.SIGINT)
        with output_to(self.driver_log):
            spark = flights.session()
        # PySpark puts its own handler there, which cancels all jobs: an interrupt is to end the demo, job and all.
        signal.signal(signal.SIGINT, interrupted)
        spark.sparkContext.setLogLevel("WARN")
        self.at_end(spark.stop)
        return spark

    def log_tail(self, lines: int) -> str:
        """The end of the driver's log."""
        if not self.driver_log.exists():
            return ""
        return "\n".join(self.driver_log.read_text(encoding="utf-8", errors="replace").splitlines()[-lines:])

    def _conf(self) -> Mapping[str, str]:
        from binshift.spark import conf

        return {
            **cds.spark_conf(QUICK_TO_START),
            **self.cluster.conf(),
            **conf.required(),
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
            "spark.sql.shuffle.partitions": "2",
            "spark.default.parallelism": "2",
            # Otherwise a job that opens each file precedes a batch of many small files.
            "spark.sql.sources.parallelPartitionDiscovery.threshold": "100000",
            "spark.binshift.workers": str(self.cluster.workers),
            "spark.sql.warehouse.dir": str(self.folder / "warehouse"),
            "spark.local.dir": str(self.folder / "driver"),
        }


@contextmanager
def demo_environment(workers: int, keep: bool) -> Iterator[Environment]:
    """A folder and a cluster of ``workers``; ``keep`` leaves the folder there."""
    with ExitStack() as ends:
        folder = Path(tempfile.mkdtemp(prefix="binshift-demo-"))
        if not keep:
            ends.callback(shutil.rmtree, folder, ignore_errors=True)
        made = Environment(folder, LocalCluster(folder / "cluster", workers=workers), ends)
        handler = logging.FileHandler(made.driver_log)
        logging.getLogger().addHandler(handler)
        ends.callback(handler.close)
        ends.callback(logging.getLogger().removeHandler, handler)
        ends.enter_context(made.cluster)
        ends.callback(no_more_interrupts)
        yield made


@contextmanager
def output_to(path: Path) -> Iterator[None]:
    """Processes started meanwhile write to a file, for as long as they live; this one does again afterwards."""
    sys.stdout.flush()
    sys.stderr.flush()
    saved = [os.dup(1), os.dup(2)]
    try:
        with path.open("ab") as out:
            for descriptor in (1, 2):
                os.dup2(out.fileno(), descriptor)
        yield
    finally:
        for descriptor, old in zip((1, 2), saved, strict=True):
            os.dup2(old, descriptor)
            os.close(old)


def _within(seconds: float, act: Callable[[], object]) -> None:
    """Do what may hang or fail while everything ends: nothing of it may keep the rest from ending."""

    def guarded() -> None:
        with contextlib.suppress(Exception):
            act()

    thread = threading.Thread(target=guarded, daemon=True)
    thread.start()
    thread.join(seconds)
    if thread.is_alive():
        log.warning("%r has not ended within %s s; going on without it", act, seconds)


@contextmanager
def one_interrupt() -> Iterator[None]:
    """The first signal raises KeyboardInterrupt, later ones do nothing; afterwards all is as before."""
    with handled_signals(_interrupt):
        yield


def no_more_interrupts() -> None:
    """The end has begun: signals do nothing until `one_interrupt` is over. Without effect outside of it."""
    for each in WATCHED:
        if signal.getsignal(each) is _interrupt:
            signal.signal(each, signal.SIG_IGN)


def _interrupt(number: int, frame: FrameType | None) -> None:
    no_more_interrupts()
    raise KeyboardInterrupt
