"""A driver and a worker die together between an epoch's record and Spark's commit, and the worker does not return.

The next driver must emit the epoch again, although no running worker holds that worker's bins.
"""

from __future__ import annotations

import signal
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from faults_cases import EPOCHS_AFTER, unsettled, wait_dead
from faults_world import WORKERS, HurtCluster, World, send
from test_cluster_faults import SETTINGS, SPARK, TESTER

from binshift import cds
from binshift.java import QUICK_TO_START
from binshift.log.tools.inspect import verify
from binshift.model import Worker

pytestmark = pytest.mark.cluster

ABSENT = Worker(1)
START_SECONDS_MAX = 300.0


@dataclass
class LackingWorld(World):
    """A world in which some workers are not restarted.

    Attributes:
        absent: those workers.
    """

    absent: set[Worker] = field(default_factory=set)

    def repair(self) -> None:
        """Restart dead processes, except the absent workers."""
        started = self.cluster.start_worker

        def start_worker(worker: Worker) -> None:
            if worker not in self.absent:
                started(worker)

        self.cluster.start_worker = start_worker  # type: ignore[method-assign]
        try:
            super().repair()
        finally:
            self.cluster.start_worker = started  # type: ignore[method-assign]

    def until(
        self, wanted: Callable[[], bool], what: str, seconds: float = START_SECONDS_MAX, repair: bool = True
    ) -> None:
        """As `World.until`, but a driver that starts waits for the absent worker, too."""
        super().until(wanted, what, seconds, repair)

    def kill(self, pids: Callable[[], list[int]], point: str) -> None:
        """Kill processes when the driver has reached ``point``."""
        self.arm(point)
        self.until(lambda: bool(self.held()), f"the driver comes to {point}")
        victims = pids()
        send(signal.SIGKILL, victims)
        self.release()
        wait_dead(victims)


def world_of(folder: Path, bins: int) -> LackingWorld:
    """A world with short time limits, on a cluster that is not started yet."""
    cluster = HurtCluster(folder / "cluster", WORKERS, 2, "650m")
    cluster.points, cluster.timeout_seconds = folder / "points", 12
    cluster.points.mkdir()
    settings = SETTINGS | {
        "bins": bins,
        "batch_size": bins // 4,
        "lost_worker_timeout_seconds": 3.0,
        "executor_wait_seconds": 20.0,
    }
    return LackingWorld(folder, cluster, {"spark": dict(SPARK), "binshift": settings, "tester": dict(TESTER)})


@pytest.mark.timeout(1800)
@pytest.mark.parametrize(("point", "bins", "deaths"), [("record.after", 16, 2), ("epoch.recorded", 4096, 0)])
def test_an_epoch_is_emitted_again_without_a_worker_that_is_gone(
    point: str, bins: int, deaths: int, tmp_path: Path
) -> None:
    """The result stays correct, through further deaths of the driver and the worker's return."""
    world = world_of(tmp_path, bins)
    with world.cluster as cluster:
        world.conf["spark"] |= cds.spark_conf(QUICK_TO_START) | cluster.conf()
        try:
            world.repair()
            world.advance(4)
            world.absent.add(ABSENT)
            world.kill(
                lambda: [
                    *world.driver_pids(),
                    *cluster.worker_pids(ABSENT),
                    *cluster.executor_pids(ABSENT),
                    *cluster.python_pids(ABSENT),
                ],
                point,
            )
            for _ in range(deaths):  # the replay fails, too
                world.kill(world.driver_pids, "sink.after")
            world.advance(EPOCHS_AFTER)
            assert ABSENT not in world.status()["workers"]
            world.absent.clear()
            world.until(lambda: ABSENT in world.status()["workers"] and not unsettled(world), "the worker is back")
            assert not list((tmp_path / "cluster").glob("worker-*/store/*/0.stateStoreSave.stand-in*/*"))
            world.advance(1)
        finally:
            world.close()
    findings = verify(str(tmp_path / "checkpoint" / "binshift"))
    assert [each for each in findings if each.fault != "foreign"] == []
