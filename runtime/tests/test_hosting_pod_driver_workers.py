"""Spark's workers in an executor's pod of two drivers: each lives as long as its driver can need it."""

from __future__ import annotations

import os
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.client import HTTPConnection
from pathlib import Path

import psutil
import pytest

from binshift.errors import InvalidSettings
from binshift.hosting.pod import driver_workers
from binshift.hosting.pod.driver_workers import DriverWorker
from binshift.hosting.pod.executor_health import serve_health
from binshift.hosting.pod.relay import ActiveDriver
from binshift.hosting.pod.settings import DriverSettings, driver_hosts
from binshift.ports import Ports

SECONDS_MAX = 20.0
STAND_IN = "import os, pathlib, sys, time; pathlib.Path(sys.argv[1], str(os.getpid())).touch(); time.sleep(600)"
"""Stands in for Spark's worker: leaves its process id in a folder, and stays."""


@pytest.fixture(autouse=True)
def brief(monkeypatch: pytest.MonkeyPatch) -> None:
    """Waits are short."""
    monkeypatch.setattr(driver_workers, "RETURN_SECONDS", 0.05)
    monkeypatch.setattr(driver_workers, "LOOK_SECONDS", 0.05)


class Kept:
    """A worker of the driver ``a``, kept running in a thread, and the processes it has had."""

    def __init__(self, folder: Path, master: tuple[str, int]) -> None:
        self.folder, self.active, self.ending = folder, ActiveDriver(), threading.Event()
        command = [sys.executable, "-c", STAND_IN, str(folder)]
        worker = DriverWorker("a", master, command, dict(os.environ), self.active, self.ending)
        self.thread = threading.Thread(target=worker.run)
        self.thread.start()

    def started(self) -> list[int]:
        """The processes that have started so far."""
        return [int(each.name) for each in self.folder.iterdir()]

    def until(self, done: Callable[[], bool]) -> None:
        """Wait for a condition."""
        waited = threading.Event()
        for _ in range(int(SECONDS_MAX / 0.05)):
            if done():
                return
            waited.wait(0.05)
        raise AssertionError(f"not in {SECONDS_MAX} s; processes: {self.started()}")


@contextmanager
def kept(folder: Path) -> Iterator[tuple[Kept, socket.socket]]:
    """One whose master listens."""
    with socket.create_server(("127.0.0.1", 0)) as master:
        found = Kept(folder, master.getsockname())
        try:
            yield found, master
        finally:
            found.ending.set()
            found.thread.join(SECONDS_MAX)
            assert not any(map(lives, found.started()))


def settle() -> None:
    """Time in which something that must not happen would happen: several checks of a worker."""
    threading.Event().wait(0.3)


def lives(process: int) -> bool:
    """Whether a process runs."""
    with suppress(psutil.NoSuchProcess):
        return psutil.Process(process).status() not in (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD)
    return False


def test_the_worker_of_a_replaced_driver_ends_at_once(tmp_path: Path) -> None:
    """It has the memory and the stores that the other one needs, also while its driver lives; it returns when that has ended."""
    with kept(tmp_path) as (found, _):
        found.until(lambda: len(found.started()) == 1)
        (first,) = found.started()
        found.active.up("a", 1)
        found.active.up("b", 2)
        found.until(lambda: not lives(first))
        settle()
        assert found.started() == [first], "its driver still believes that it is the active one"
        found.active.down("a")
        found.until(lambda: len(found.started()) == 2)
        (second,) = {*found.started()} - {first}
        settle()
        assert lives(second), "the driver has come back as the standby"
        found.active.down("b")
        found.active.up("a", 3)
        found.active.up("b", 4)
        found.until(lambda: not lives(second))


def test_a_standbys_worker_stays(tmp_path: Path) -> None:
    """Neither the activation of another driver nor its end ends the worker of one that waits."""
    with kept(tmp_path) as (found, _):
        found.until(lambda: len(found.started()) == 1)
        found.active.up("b", 1)
        found.active.down("b")
        found.active.up("a", 2)
        found.active.down("a")
        found.active.up("a", 2)
        settle()
        (only,) = found.started()
        assert lives(only)


def test_a_worker_that_ends_is_started_again(tmp_path: Path) -> None:
    """As its container is without a standby."""
    with kept(tmp_path) as (found, _):
        found.until(lambda: len(found.started()) == 1)
        (first,) = found.started()
        os.kill(first, 9)
        found.until(lambda: len(found.started()) == 2)


def test_it_waits_for_its_master(tmp_path: Path) -> None:
    """Spark's worker would wait longer if it found none at first."""
    with socket.create_server(("127.0.0.1", 0)) as master:
        address = master.getsockname()
    found = Kept(tmp_path, address)
    try:
        settle()
        assert found.started() == []
        with socket.create_server(address):
            found.until(lambda: len(found.started()) == 1)
    finally:
        found.ending.set()
        found.thread.join(SECONDS_MAX)


def test_health_for_the_kubelet() -> None:
    """The container is alive as long as it answers, and ready if its executor can be used."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = "127.0.0.1", int(free.getsockname()[1])
    ready = [False]
    with serve_health(address, {"/healthz": lambda: True, "/readyz": lambda: ready[0]}):
        assert [_status(address, path) for path in ("/healthz", "/readyz", "/")] == [200, 503, 404]
        ready[0] = True
        assert _status(address, "/readyz") == 200
        with socket.create_connection(address):  # silent
            assert _status(address, "/healthz") == 200


def _status(address: tuple[str, int], path: str) -> int:
    link = HTTPConnection(*address, timeout=SECONDS_MAX)
    link.request("GET", path)
    return link.getresponse().status


def test_each_driver_has_ports_of_its_own() -> None:
    """Of two drivers' executors in one pod; a driver knows its own by its name."""
    base = {"BINSHIFT_MASTER": "spark://d-1.d:7077", "BINSHIFT_HOST": "d-1.d"}
    alone = DriverSettings.from_environment(base)
    second = DriverSettings.from_environment({**base, "BINSHIFT_DRIVER_HOSTS": "d-0.d,d-1.d"})
    assert (alone.standby, second.standby) == (False, True)
    assert alone.ports == Ports()
    assert second.ports == Ports().of_driver(1)
    assert second.ports.executor_blocks != alone.ports.executor_blocks


@pytest.mark.parametrize("hosts", ["d-0.d", "d-0.d,d-0.d", "d-0.d,d-1.d,d-2.d"])
def test_there_are_two_drivers(hosts: str) -> None:
    """Any other number is a mistake in the environment."""
    with pytest.raises(InvalidSettings, match=r"BINSHIFT_DRIVER_HOSTS .*two names"):
        driver_hosts({"BINSHIFT_DRIVER_HOSTS": hosts})


def test_a_driver_is_one_of_the_two() -> None:
    """Otherwise its executors would use ports that nothing listens on."""
    given = {"BINSHIFT_MASTER": "spark://m:7077", "BINSHIFT_HOST": "x", "BINSHIFT_DRIVER_HOSTS": "a,b"}
    with pytest.raises(InvalidSettings, match="must name this pod, 'x'"):
        DriverSettings.from_environment(given)
