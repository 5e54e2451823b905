"""Random histories on a real cluster: moves, kills, restarts; every epoch's output equals the reference."""

from __future__ import annotations

import os
import random
import time
from pathlib import Path
from typing import Any

import pytest
from counted import Outputs, counting
from process_tree import kill_executor
from pyspark.sql import SparkSession

from binshift.local import LocalCluster
from binshift.model import Bin, Worker
from binshift.strategies import Strategy

WORKERS = 4
BINS = 64
ACTIONS = ("epochs", "rescale", "rescale", "move", "kill", "restart", "crash", "cancel")
STEPS = 7
HISTORIES = int(os.environ.get("BINSHIFT_CLUSTER_HISTORIES", "24"))
"""The number of histories in the long list; each takes about half a minute."""


class Story:
    """One history: a query that is controlled, disturbed and restarted with one seed."""

    def __init__(self, seed: int, cluster: LocalCluster, spark: SparkSession, checkpoint: Path) -> None:
        self.seed = seed
        self.random = random.Random(seed)
        self.cluster = cluster
        self.spark = spark
        self.checkpoint = checkpoint
        self.outputs = Outputs()
        self.actions: list[str] = []
        self.query: Any = self.start()

    def start(self) -> Any:
        """Start, or restart, on the same checkpoint."""
        settings = {"bins": BINS, "workers": 2, "snapshot_cycle_epochs": 6, "manifest_every_epochs": 5, "batch_size": 4}
        writer = counting(self.spark, **settings).foreachBatch(self.outputs)
        return writer.option("checkpointLocation", str(self.checkpoint)).start()

    def play(self) -> None:
        """Do some random actions, then let it run calmly."""
        for _ in range(STEPS):
            action = self.random.choice(ACTIONS)
            self.actions.append(action)
            getattr(self, action)()
        self.epochs()
        self.query.stop()

    def epochs(self) -> None:
        """A few more epochs."""
        self.query.await_epoch(self.query.epoch + self.random.randint(1, 4), 120)

    def rescale(self) -> None:
        """Move to another number of workers, with or without waiting for it."""
        migration = self.query.rescale(
            self.random.randint(1, WORKERS),
            strategy=self.random.choice([s.value for s in Strategy]),
            batch_size=self.random.choice([1, 3, 16]),
            pre_copy=self.random.random() < 0.7,
        )
        if self.random.random() < 0.5:
            migration.wait(180)
        else:
            self.epochs()

    def move(self) -> None:
        """Move single bins to workers that own some."""
        self.epochs()
        bins = self.random.sample(range(BINS), 5)
        self.query.move({Bin(b): Worker(self.random.choice(self.query.workers)) for b in bins})
        self.epochs()

    def cancel(self) -> None:
        """Begin a move and cancel it before its end."""
        migration = self.query.rescale(self.random.randint(1, WORKERS), strategy="Fluid")
        self.query.await_epoch(self.query.epoch + self.random.randint(0, 3), 120)
        migration.cancel()
        self.epochs()

    def kill(self) -> None:
        """SIGKILL the executor of a random worker, at a random moment."""
        self.query.await_epoch(self.query.epoch + 1, 120)
        time.sleep(self.random.random() * 0.3)  # the moment is the random input here, not a wait for anything
        kill_executor(self.cluster, Worker(self.random.randrange(WORKERS)))
        self.epochs()

    def restart(self) -> None:
        """Stop cleanly and start again."""
        self.query.stop()
        self.query = self.start()
        self.epochs()

    def crash(self) -> None:
        """Let Spark stop the stream at any point, and start again."""
        self.query.abort()
        self.query = self.start()
        self.epochs()


def run(seed: int, cluster: LocalCluster, session: SparkSession, tmp_path: Path) -> None:
    """One history, checked."""
    story = Story(seed, cluster, session, tmp_path / "checkpoint")
    try:
        story.play()
    except Exception as error:
        raise AssertionError(f"seed {seed} after {story.actions}: {error}") from error
    finally:
        if story.query.isActive:
            story.query.abort()
    story.outputs.check(story.query.epoch, f"{seed} ({story.actions})")


@pytest.mark.cluster
@pytest.mark.parametrize("seed", [1, 2])
def test_history(seed: int, cluster: LocalCluster, session: SparkSession, tmp_path: Path) -> None:
    """With any actions, each epoch's output equals the reference's."""
    run(seed, cluster, session, tmp_path)


@pytest.mark.cluster
@pytest.mark.oracle
@pytest.mark.parametrize("seed", range(100, 100 + HISTORIES))
def test_many_histories(seed: int, cluster: LocalCluster, session: SparkSession, tmp_path: Path) -> None:
    """The same holds for many seeds."""
    run(seed, cluster, session, tmp_path)
