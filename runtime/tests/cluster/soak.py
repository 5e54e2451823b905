"""A dataflow that is moved, disturbed and loaded at random for any time, and a ledger with the correct result.

The load is part of the stream, so that a replay gets the same: epochs come in phases, and in a light one only one row of
twenty exists. Every epoch's rows are compared with the ledger; those of a replayed epoch again.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from process_tree import command_line, family, kill_executor
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from soak_samples import Samples

import binshift
from binshift.local import LocalCluster
from binshift.model import Worker
from binshift.strategies import Strategy

BINS = 256
KEYS = 20_011
ROWS = 8_000
PHASE_EPOCHS = 25
LIGHT = 20
WORKERS = 4
ENDING_SECONDS = 240.0
"""The time limit of an epoch or a migration on a machine that is busy with starting executors."""
ACTIONS = {"rescale": 5, "kill executor": 1, "kill python": 2, "rest": 3}

Numbers = npt.NDArray[np.int64]


def present(values: Numbers) -> npt.NDArray[np.bool_]:
    """The existing rows: all in heavy phases, one of `LIGHT` in light ones."""
    heavy: npt.NDArray[np.bool_] = values // ROWS // PHASE_EPOCHS % 2 == 0
    light: npt.NDArray[np.bool_] = values % LIGHT == 0
    return np.logical_or(heavy, light)


def stream(session: SparkSession) -> DataFrame:
    """The input."""
    source = session.readStream.format("rate-micro-batch").option("rowsPerBatch", ROWS).option("numPartitions", 2)
    heavy = F.expr(f"value div {ROWS} div {PHASE_EPOCHS} % 2 = 0")
    rows = source.load().where(heavy | (F.col("value") % LIGHT == 0))
    return rows.select((F.col("value") % KEYS).alias("k"), "value")


class Ledger:
    """The result, epoch by epoch; a `foreachBatch` sink that compares every row with it."""

    def __init__(self) -> None:
        self.counts: Numbers = np.zeros(KEYS, np.int64)
        self.sums: Numbers = np.zeros(KEYS, np.int64)
        self.epochs = 0
        self.replays = 0
        self._touched: Numbers = np.zeros(0, np.int64)

    def __call__(self, frame: DataFrame, epoch: int) -> None:
        """Compare an epoch's rows; an error ends the query."""
        if epoch == self.epochs:
            self._add(epoch)
        else:
            assert epoch == self.epochs - 1, f"epoch {epoch} after {self.epochs - 1}"
            self.replays += 1
        table = frame.toArrow()
        keys, counts, sums = (column.to_numpy() for column in table.columns)
        order = np.argsort(keys)
        assert np.array_equal(keys[order], self._touched), f"epoch {epoch} has other keys"
        assert np.array_equal(counts[order], self.counts[self._touched]), f"epoch {epoch} has wrong counts"
        assert np.array_equal(sums[order], self.sums[self._touched]), f"epoch {epoch} has wrong sums"

    def _add(self, epoch: int) -> None:
        values = np.arange(epoch * ROWS, (epoch + 1) * ROWS)
        values = values[present(values)]
        self.counts += np.bincount(values % KEYS, minlength=KEYS)
        np.add.at(self.sums, values % KEYS, values)
        self._touched = np.unique(values % KEYS)
        self.epochs += 1


class Soak:
    """One run, from one seed.

    Attributes:
        seed: the seed of all randomness.
        ledger: the correct result.
        done: how often each action was done.
        samples: the samples of the whole time.
    """

    def __init__(self, seed: int, cluster: LocalCluster, session: SparkSession, checkpoint: Path) -> None:
        self.seed = seed
        self.ledger = Ledger()
        self.done: Counter[str] = Counter()
        self._random = random.Random(seed)
        self._cluster, self._session, self._checkpoint = cluster, session, checkpoint
        # PySpark's own folder is below the folder of the application's temporary files.
        temporary = Path(session.sparkContext._temp_dir).parent
        self.samples = Samples(
            self._roots, cluster.directory, checkpoint / "binshift", temporary, lambda: self.ledger.epochs
        )

    def _roots(self) -> dict[str, list[int]]:
        """The driver is this process and its JVM; the cluster's daemons, which are below it too, are not counted."""
        executors = [pid for slot in range(WORKERS) for pid in self._cluster.executor_pids(Worker(slot))]
        return {"driver": [os.getpid(), *gateways()], "executors": family(executors)}

    def start(self) -> Any:
        """The query, with cycles short enough to see the log grow and shrink within minutes."""
        frame = stream(self._session).groupBy("k").agg(F.count("*").alias("n"), F.sum("value").alias("total"))
        writer = binshift.writeStream(frame, bins=BINS, workers=2, manifest_every_epochs=20, log_grace_seconds=20.0)
        writer = writer.outputMode("update").option("checkpointLocation", str(self._checkpoint))
        return writer.foreachBatch(self.ledger).start()

    def run(self, seconds: float) -> None:
        """Disturb the query for this long, then let it settle and check the end."""
        query = self.start()
        query.await_epoch(2, ENDING_SECONDS)
        try:
            with self.samples:
                deadline = time.monotonic() + seconds
                while time.monotonic() < deadline:
                    self.act(query)
            query.rescale(2).wait(ENDING_SECONDS)
            query.await_epoch(query.epoch + 2, ENDING_SECONDS)
            query.stop()
        finally:
            if query.isActive:
                query.abort()
        left = [migration for migration in query.migrations if not migration.ended]
        assert left == [], f"seed {self.seed}: migrations never ended: {left}"
        assert query.epoch == self.ledger.epochs - 1

    def act(self, query: Any) -> None:
        """One random action, and a few epochs after it."""
        action = self._random.choices([*ACTIONS], [*ACTIONS.values()])[0]
        self.done[action] += 1
        match action:
            case "rescale":
                strategy = self._random.choice([each.value for each in Strategy])
                size, ahead = self._random.choice([1, 4, 16]), self._random.random() < 0.7
                migration = query.rescale(
                    self._random.randint(1, WORKERS), strategy=strategy, batch_size=size, pre_copy=ahead
                )
                if self._random.random() < 0.6:
                    migration.wait(ENDING_SECONDS)
            case "kill executor":
                kill_executor(self._cluster, Worker(self._random.randrange(WORKERS)))
            case "kill python":
                self._kill_python()
            case _:
                pass
        query.await_epoch(query.epoch + self._random.randint(1, 12), ENDING_SECONDS)

    def _kill_python(self) -> None:
        """Kill a Python process of a random executor: a worker, or the daemon that forks workers."""
        executors = self._cluster.executor_pids(Worker(self._random.randrange(WORKERS)))
        below = sorted(set(family(executors)) - set(executors))
        if below:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._random.choice(below), signal.SIGKILL)

    def summary(self, seconds: float) -> str:
        """A summary of the run."""
        heavy = sum(1 for epoch in range(self.ledger.epochs) if epoch // PHASE_EPOCHS % 2 == 0)
        done = ", ".join(f"{action} {times}" for action, times in sorted(self.done.items()))
        head = f"soak: seed {self.seed}, {seconds:.0f} s, {self.ledger.epochs} epochs ({heavy} heavy), "
        head += f"{self.ledger.replays} outputs repeated, {int(self.ledger.counts.sum())} rows correct; {done}"
        return f"{head}; {threading.active_count()} threads of Python at the end\n{self.samples.table(seconds)}"


def gateways() -> list[int]:
    """The driver's JVM, and the shell that started it if that is still there."""
    return [pid for pid in family([os.getpid()]) if "org.apache.spark.deploy.SparkSubmit" in command_line(pid)]
