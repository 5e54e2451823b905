"""The fault campaign: processes are killed, or suspended and resumed, at named points; the result is that of a calm run."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from faults_cases import (
    DRIVER_POINTS,
    HOUSE_POINTS,
    MOVE_POINTS,
    POINTS,
    STOPPED,
    TASK_POINTS,
    VICTIMS,
    Case,
    Played,
    play,
)
from faults_report import report_text
from faults_world import WORKERS, HurtCluster, World

from binshift import cds
from binshift.java import QUICK_TO_START
from binshift.log.tools.inspect import verify

pytestmark = pytest.mark.cluster

SPARK = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.default.parallelism": "2",
    "spark.sql.session.timeZone": "UTC",
    "spark.executorEnv.PYTHONFAULTHANDLER": "true",
}
QUICK = {
    "spark.network.timeout": "8s",
    "spark.executor.heartbeatInterval": "1s",
    "spark.network.timeoutInterval": "1s",
    "spark.storage.blockManagerHeartbeatTimeoutMs": "8s",
}
"""Timeouts that are short enough to exceed."""
SHARE = {"spark.executor.cores": "3", "spark.executor.memory": "600m", "spark.cores.max": str(3 * WORKERS)}
"""The share of an application on workers with capacity for several: one executor on each, with slots for standing tasks."""
DRIVERS = 3
"""The number of applications that may have executors at one time: a suspended one, its successor, and one whose executors are
just ending. A worker without capacity for one more would get no executor, and another worker two."""
SETTINGS = {
    "bins": 32,
    "workers": 2,
    "batch_size": 4,
    "snapshot_cycle_epochs": 6,
    "manifest_every_epochs": 5,
    "log_grace_seconds": 1.0,
    "lost_worker_timeout_seconds": 20.0,
}
TESTER = {"trigger_seconds": 0.2, "python_seconds": 3.0, "frozen_seconds": 40.0}

RESULTS: list[Played] = []


@pytest.fixture(scope="session", autouse=True)
def _told(request: pytest.FixtureRequest) -> Iterator[None]:
    yield
    reporter = request.config.pluginmanager.get_plugin("terminalreporter")
    if RESULTS and reporter is not None:
        reporter.write_line("\n" + report_text(RESULTS))


def worlds(folder: Path, *, quick: bool, drivers: int = 1, files: bool = False) -> Iterator[World]:
    """A cluster with a program on it that has run for a while; at the end the log alone must be sufficient.

    With ``files``, its results are parquet files; otherwise those of its own function.
    """
    cluster = HurtCluster(folder / "cluster", WORKERS, 5 * drivers, f"{650 * drivers}m")
    cluster.points, cluster.timeout_seconds = folder / "points", 5 if quick else 12
    (folder / "points").mkdir()
    conf: dict[str, dict[str, Any]] = {
        "spark": SPARK | (QUICK if quick else {}),
        "binshift": dict(SETTINGS),
        "tester": TESTER | {"files": files},
    }
    if quick:
        conf["binshift"]["lost_worker_timeout_seconds"] = 3.0
    with cluster:
        conf["spark"] |= cds.spark_conf(QUICK_TO_START) | cluster.conf() | SHARE
        world = World(folder, cluster, conf)
        try:
            world.repair()
            world.advance(8)
            yield world
            finish(world)
        finally:
            world.close()


def finish(world: World) -> None:
    """Only the checkpoint is left: it is intact, and a new program continues with the correct state."""
    world.advance(2)
    world.close()
    findings = verify(str(world.folder / "checkpoint" / "binshift"))
    assert [each for each in findings if each.fault != "foreign"] == []
    shutil.rmtree(world.folder / "cluster" / "kept")
    for store in (world.folder / "cluster").glob("worker-*/store"):
        shutil.rmtree(store)
    world.cluster.start()
    world.program = None
    world.advance(2)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """Ordinary timeouts: for killed victims."""
    yield from worlds(tmp_path_factory.mktemp("hurt"), quick=False)


@pytest.fixture(scope="module")
def quick(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """Short timeouts: for suspended victims."""
    yield from worlds(tmp_path_factory.mktemp("still"), quick=True)


@pytest.fixture(scope="module")
def roomy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """The same with capacity for several drivers."""
    yield from worlds(tmp_path_factory.mktemp("roomy"), quick=True, drivers=DRIVERS)


CORE = [
    Case("commit.inside", "python"),
    Case("commit.answered", "python"),
    Case("delta.after", "executor"),
    Case("flip.planned", "executor"),
    Case("record.after", "driver"),
    Case("copy.after", "python"),
    Case("retire.before", "worker"),
]
KILLED = [case for point in POINTS for victim in VICTIMS if (case := Case(point, victim)) not in CORE]
FROZEN = [Case(point, victim, stop=True) for point in POINTS for victim in STOPPED if victim != "driver"]
REPLACED = [Case(point, "driver", stop=True) for point in POINTS]


@pytest.mark.parametrize("case", CORE, ids=str)
def test_a_killed_process_changes_no_answer(case: Case, world: World) -> None:
    """Each epoch's output equals the reference's, for every victim and point."""
    RESULTS.append(play(world, case))


@pytest.mark.campaign
@pytest.mark.parametrize("case", KILLED, ids=str)
def test_any_killed_process_changes_no_answer(case: Case, world: World) -> None:
    """The same holds for every victim at every point."""
    RESULTS.append(play(world, case))


@pytest.mark.campaign
@pytest.mark.parametrize("case", FROZEN, ids=str)
def test_a_process_that_stood_still_changes_no_answer(case: Case, quick: World) -> None:
    """A process suspended past every timeout finds itself replaced when it resumes, or continues."""
    RESULTS.append(play(quick, case))


@pytest.mark.campaign
@pytest.mark.parametrize("case", REPLACED, ids=str)
def test_a_driver_that_stood_still_changes_no_answer(case: Case, roomy: World) -> None:
    """Another driver has taken over meanwhile: the old one changes nothing that counts, and ends."""
    RESULTS.append(play(roomy, case))


def test_the_points_are_told_apart() -> None:
    """Every point is of one kind, and each occurs in the code."""
    assert len(POINTS) == len({*TASK_POINTS, *DRIVER_POINTS, *MOVE_POINTS, *HOUSE_POINTS})
    here = Path(__file__).resolve()
    code = "".join(
        p.read_text() for p in [*here.parents[2].glob("binshift/**/*.py"), here.parent / "faults_program.py"]
    )
    assert [point for point in POINTS if f'"{point}"' not in code] == []
