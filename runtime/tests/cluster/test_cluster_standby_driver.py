"""Two drivers, one of them parked: when the active one is killed or hangs, the other takes over with executors that have rehearsed."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from certificates import Authority, Mounted

from binshift.encryption import AUTHORITY, AUTHORITY_VARIABLE
from binshift.hosting.pod.drain import drain
from pods_world import DRAIN
from two_drivers import HOSTS, TwoDrivers, is_ready, two_drivers

pytestmark = pytest.mark.cluster

PROGRAM = Path(__file__).resolve().parent / "pods_program.py"


@contextmanager
def started(folder: Path, tls: Path | None = None) -> Iterator[tuple[TwoDrivers, list[tuple[str, str]]]]:
    """The first driver waits, and two executors' pods have these ports of health and control API."""
    with two_drivers(folder, PROGRAM, str(folder / "failing"), tls=tls) as pods:
        pods.start_driver(0)
        ports = [pods.start_worker(slot) for slot in (0, 1)]
        assert pods.awaited(0, state="Standby")["active"] is False
        yield pods, ports


def test_a_standby_takes_over(tmp_path: Path) -> None:
    """(I8) The standby parks without touching the checkpoint, takes over with the executors, and a new standby parks."""
    with started(tmp_path) as (pods, _):
        assert not (tmp_path / "checkpoint").exists()
        assert pods.activate(0)["active"] is True
        pods.grows(0)
        assert pods.take_over(1, pods.park(1))["workers"] == [0, 1]
        pods.grows(1)
        # With the files of its master, as after a restart of containers.
        assert pods.take_over(0, pods.park(0))["failures"] == 0


def test_a_driver_that_hangs_is_replaced_with_its_executors(tmp_path: Path) -> None:
    """(I8) As on a node that is lost: its executors end although it does not end them, and the pods are ready because of the others."""
    with started(tmp_path) as (pods, ports):
        health = [each[0] for each in ports]
        assert not any(map(is_ready, (0, 1), health)), "no driver is active"
        pods.activate(0)
        pods.grows(0)
        newest = pods.park(1)
        assert len(pods.executors(0)) == len(pods.executors(1)) == 2
        try:
            pods.take_over(1, newest, signal.SIGSTOP)
            pods.world.awaited(lambda left: not left, lambda: pods.executors(0))
            assert len(pods.executors(1)) == 2
            assert all(map(is_ready, (0, 1), health))
            pods.grows(1)
        finally:
            pods.kill(0)


def test_an_encrypted_standby_takes_over(tmp_path: Path) -> None:
    """With one certificate for both drivers: a take-over, then the preStop hook of an executor, which calls whichever is active by its relay."""
    mounted = Mounted(tmp_path / "tls")
    with started(tmp_path, mounted.put(Authority().issue("localhost", *HOSTS))) as (pods, ports):
        pods.activate(0)
        pods.grows(0)
        pods.take_over(1, pods.park(1))
        hook = {
            "BINSHIFT_CONTROL_URL": f"https://localhost:{ports[1][1]}",
            AUTHORITY_VARIABLE: str(tmp_path / "tls" / AUTHORITY),
            "BINSHIFT_DRAIN_TOKEN": DRAIN,
            "BINSHIFT_SLOT": "1",
        }
        assert drain(hook, time.monotonic, time.sleep).startswith("worker 1 is drained")
        assert pods.awaited(1, workers=[0])["failures"] == 0
