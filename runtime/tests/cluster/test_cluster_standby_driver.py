"""Two drivers, one of them parked: when the active one is killed, the other takes over with the same workers."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest
from certificates import Authority, Mounted
from pods_world import DRAIN, Pods, free_ports, pods

from binshift.encryption import AUTHORITY, AUTHORITY_VARIABLE, TLS_VARIABLE
from binshift.hosting.pod.drain import drain

pytestmark = pytest.mark.cluster

PROGRAM = Path(__file__).resolve().parent / "pods_program.py"
HOSTS = ("127.0.0.1", "127.0.1.1")


def start_driver(world: Pods, slot: int, **more: str) -> None:
    """Start a driver's pod: its master, and its program, which parks."""
    host, status = HOSTS[slot], str(free_ports()[0])
    master = f"spark://{host}:{world.ports['MASTER']}"
    own = {
        "BINSHIFT_BIND": host,
        "BINSHIFT_MASTER": master,
        "BINSHIFT_MASTER_STATUS_PORT": status,
        "BINSHIFT_STANDBY": "true",
        **more,
    }
    world.start(f"master-{slot}", "master", host, **own)
    ours = {
        "BINSHIFT_TOKEN": "admin-token-of-pods",
        "BINSHIFT_DRAIN_TOKEN": DRAIN,
        "BINSHIFT_CHECKPOINT": str(world.folder / "checkpoint"),
        "BINSHIFT_OWNER": "uid-1",
        "BINSHIFT_TERMINATION_LOG": str(world.folder / "termination"),
        **({} if world.tls is None else {TLS_VARIABLE: str(world.tls)}),
    }
    world.start(f"driver-{slot}", "driver", host, str(PROGRAM), str(world.folder / "failing"), **ours, **own)


def start_worker(world: Pods, slot: int) -> str:
    """Start an executor's pod with its relay; returns the port by which the relay leads to the active driver's control API."""
    relay, control, *_ = map(str, free_ports())
    world.start(
        f"worker-{slot}",
        "worker",
        f"127.0.0.{slot + 2}",
        BINSHIFT_EXECUTOR_MEMORY="600m",
        BINSHIFT_EXECUTOR_CORES="2",
        BINSHIFT_DRIVER_HOSTS=",".join(HOSTS),
        BINSHIFT_RELAY_PORT=relay,
        BINSHIFT_CONTROL_RELAY_PORT=control,
    )
    return control


def seen(world: Pods, slot: int) -> Any:
    """What a driver reports; a state of its own while it does not answer."""
    try:
        return world.ask("GET", "/v1/dataflow", host=HOSTS[slot])
    except OSError:
        return {"state": "silent", "epoch": -1, "active": False}


def awaited(world: Pods, slot: int, **wanted: Any) -> Any:
    """A driver's report with these fields."""
    return world.awaited(lambda got: wanted.items() <= got.items(), lambda: seen(world, slot))


def kill(world: Pods, slot: int) -> None:
    """Kill everything of a driver's pod at once."""
    for pod in (f"driver-{slot}", f"master-{slot}"):
        world.processes.pop(pod)
    directory = str(world.folder / f"driver-{slot}")
    for line in world.left():
        number = int(line.split()[0])
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # it has ended with its parent
            variables = Path(f"/proc/{number}/environ").read_bytes().split(b"\0")
            if f"BINSHIFT_HOST={HOSTS[slot]}".encode() in variables or directory in line:
                os.kill(number, signal.SIGKILL)


def grows(world: Pods, slot: int) -> int:
    """A driver commits epochs; returns the newest."""
    epoch: int = awaited(world, slot, state="Running")["epoch"]
    return int(world.awaited(lambda got: got["epoch"] >= epoch + 2, lambda: seen(world, slot))["epoch"])


def park(world: Pods, slot: int) -> int:
    """Start the driver that waits next to the active one; returns the active one's newest epoch."""
    start_driver(world, slot)
    awaited(world, slot, state="Standby", active=False)
    return grows(world, 1 - slot)


def take_over(world: Pods, slot: int, before: int) -> Any:
    """Kill the active driver, and activate the other one; returns its report after its first epoch."""
    kill(world, 1 - slot)
    world.ask("POST", "/v1/activate", host=HOSTS[slot])
    return world.awaited(lambda got: got["epoch"] > before, lambda: seen(world, slot))


def test_a_standby_takes_over(tmp_path: Path) -> None:
    """(I8) The standby parks without touching the checkpoint, takes over with the executors, and a new standby parks."""
    with pods(tmp_path) as world:
        start_driver(world, 0)
        for slot in (0, 1):
            start_worker(world, slot)
        assert awaited(world, 0, state="Standby")["active"] is False
        assert not (tmp_path / "checkpoint").exists()
        assert world.ask("POST", "/v1/activate", host=HOSTS[0])["active"] is True
        grows(world, 0)
        assert take_over(world, 1, park(world, 1))["workers"] == [0, 1]
        grows(world, 1)
        # With the files of its master, as after a restart of containers.
        assert take_over(world, 0, park(world, 0))["failures"] == 0


def test_an_encrypted_standby_takes_over(tmp_path: Path) -> None:
    """With one certificate for both drivers: a take-over, then the preStop hook of an executor, which calls whichever is active by its relay."""
    mounted = Mounted(tmp_path / "tls")
    with pods(tmp_path, mounted.put(Authority().issue("localhost", *HOSTS))) as world:
        start_driver(world, 0)
        controls = [start_worker(world, slot) for slot in (0, 1)]
        awaited(world, 0, state="Standby")
        world.ask("POST", "/v1/activate", host=HOSTS[0])
        grows(world, 0)
        take_over(world, 1, park(world, 1))
        hook = {
            "BINSHIFT_CONTROL_URL": f"https://localhost:{controls[1]}",
            AUTHORITY_VARIABLE: str(tmp_path / "tls" / AUTHORITY),
            "BINSHIFT_DRAIN_TOKEN": DRAIN,
            "BINSHIFT_SLOT": "1",
        }
        assert drain(hook, time.monotonic, time.sleep).startswith("worker 1 is drained")
        assert awaited(world, 1, workers=[0])["failures"] == 0
