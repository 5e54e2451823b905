"""The processes of a dataflow's pods as on Kubernetes, on loopback addresses, with Spark's connections authenticated."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from binshift.log.tools import inspect
from pods_world import SECRET, Pods, pods

pytestmark = pytest.mark.cluster

PROGRAM = Path(__file__).resolve().parent / "pods_program.py"


def programs(world: Pods) -> list[int]:
    """The processes that run the user's program."""
    return [int(each.split()[0]) for each in world.left() if "binshift.hosting.pod.program" in each]


def grows(world: Pods) -> None:
    """The dataflow is running and records epochs."""
    epoch = world.awaited(lambda seen: seen["state"] == "Running" and seen["epoch"] >= 0)["epoch"]
    world.awaited(lambda seen: seen["epoch"] >= epoch + 2)


def test_a_dataflow_lives_in_its_pods(tmp_path: Path) -> None:
    """It fails and is retried, runs, is rescaled, survives its program's death, stops on request, and leaves no process behind."""
    failing = tmp_path / "failing"
    failing.write_text("the disk is on fire")
    with pods(tmp_path) as world:
        world.driver(PROGRAM, str(failing))
        world.awaited(lambda seen: seen["state"] == "Loading", lambda: _patient(world))
        for start in (world.master, lambda: world.worker(0), lambda: world.worker(1)):
            start()
        seen = world.awaited(lambda seen: seen["state"] == "Failed")
        assert "ValueError: the disk is on fire" in seen["reason"]
        termination = tmp_path / "termination"
        world.awaited(lambda left: left == seen["reason"], lambda: termination.exists() and termination.read_text())
        assert "runpy" not in seen["reason"]
        failing.unlink()
        grows(world)
        world.awaited(
            lambda text: "a row without a name\n" in text, lambda: world.log_of("worker-0") + world.log_of("worker-1")
        )

        assert world.dataflow()["workers"] == [0, 1]
        target = {"owner": "uid-1", "generation": 1, "workers": [0, 1, 2]}
        assert world.ask("PUT", "/v1/target", target)["migration"]["phase"] in {"planned", "warming"}
        world.worker(2)
        moved = world.awaited(lambda seen: bool(seen["target"]) and seen["target"]["settled"])
        assert moved["workers"] == [0, 1, 2]

        (program,) = programs(world)
        os.kill(program, signal.SIGKILL)
        world.awaited(lambda seen: "killed by signal 9" in seen["reason"])
        grows(world)
        assert world.dataflow()["workers"] == [0, 1, 2]

        assert world.ask("POST", "/v1/stop")["state"] in {"Running", "Stopped"}
        world.awaited(lambda seen: seen["state"] == "Stopped")
        world.awaited(lambda seen: not programs(world))
        assert world.dataflow()["state"] == "Stopped"
        assert world.end("driver") == 0
        _ends_cleanly(world, failing)


def _patient(world: Pods) -> dict[str, str]:
    try:
        state: dict[str, str] = world.dataflow()
    except OSError:
        return {"state": "not available yet"}
    return state


def _ends_cleanly(world: Pods, failing: Path) -> None:
    """A restarted driver continues; SIGTERM finishes its epoch, and no process is left."""
    world.driver(PROGRAM, str(failing))
    world.awaited(lambda seen: seen["state"] == "Running", lambda: _patient(world))
    grows(world)
    assert world.end("driver") == 0
    for pod in list(world.processes):
        assert world.end(pod) in {0, 128 + signal.SIGTERM}, world.log_of(pod)[-2000:]
    world.awaited(lambda left: left == [], world.left)
    log = world.folder / "checkpoint" / "binshift"
    assert inspect.verify(str(log)) == []
    assert not (log / "owner.json").exists()
    for pod in ("driver", "master", "worker-0"):
        assert SECRET not in world.log_of(pod)
