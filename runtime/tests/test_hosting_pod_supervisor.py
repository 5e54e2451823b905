"""The driver's process: its responses while the program starts, runs and ends, and its own end."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from control_fakes import ADMIN, TOKENS

from binshift.control import ControlSettings, Listeners
from binshift.hosting.pod import connection, lifecycle, supervisor
from binshift.hosting.pod.channel import Hello
from binshift.hosting.pod.supervisor import Supervisor
from binshift.hosting.processes import Interrupts

HERE = Path(__file__).resolve().parent
WAIT_SECONDS = 120.0


class Driver:
    """A supervisor on a thread, and its control API."""

    def __init__(self, listeners: Listeners, folder: Path) -> None:
        self.listeners, self.folder, self.file = listeners, folder, folder / "file"
        self.interrupts, self.failed, self.status = Interrupts(), list[str](), list[int]()
        self.thread: threading.Thread | None = None
        headers = {"Authorization": f"Bearer {ADMIN}", "Connection": "close"}
        url = f"http://127.0.0.1:{listeners.api.getsockname()[1]}"
        self.api = httpx2.Client(base_url=url, headers=headers, timeout=30)

    def start(self, kind: str, stop_seconds: float = 60.0) -> None:
        command = [sys.executable, str(HERE / "pods_child.py"), kind, str(self.file)]
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
        settings = ControlSettings(tokens=TOKENS)
        made = Supervisor(
            command,
            environment,
            Hello(str(self.folder), admin=TOKENS.admin, drain=TOKENS.drain),
            settings,
            self.listeners,
            self.interrupts,
            stop_seconds,
            1,
            self.failed.append,
        )
        self.thread = threading.Thread(target=lambda: self.status.append(made.run()))
        self.thread.start()

    def signal(self) -> None:
        """Send what a signal's handler sends."""
        self.interrupts.seen += 1
        self.interrupts.event.set()

    def seen(self) -> Any:
        try:
            return self.api.get("/v1/dataflow").json()
        except (httpx2.ReadError, httpx2.RemoteProtocolError):  # a process that is killed cuts what it has accepted
            return {"state": "reset", "reason": ""}

    def awaited(self, wanted: Callable[[Any], bool]) -> Any:
        deadline = time.monotonic() + WAIT_SECONDS
        while not wanted(seen := self.seen()):
            assert time.monotonic() < deadline, seen
            time.sleep(0.01)
        return seen

    def state(self, name: str) -> Any:
        return self.awaited(lambda seen: seen["state"] == name)

    def ended(self) -> int:
        assert self.thread is not None
        self.thread.join(WAIT_SECONDS)
        return self.status[0]


@pytest.fixture
def driver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Driver]:
    """A driver that ends with the test; it retries after a short time."""
    monkeypatch.setattr(lifecycle, "FIRST_SECONDS", 0.2)
    listeners = Listeners.of(ControlSettings())
    made = Driver(listeners, tmp_path)
    yield made
    while made.thread is not None and made.thread.is_alive():
        made.signal()
        made.thread.join(1)
    for each in listeners:
        each.close()


def test_it_answers_before_the_query_and_the_query_after(driver: Driver) -> None:
    """First the driver's process reports Loading, then the program's has the query; a signal stops it normally."""
    driver.start("serves")
    driver.state("Loading")
    assert driver.state("Running")["epoch"] == 7
    driver.signal()
    assert driver.ended() == 0
    assert driver.failed == []


def test_workers_that_are_needed_are_named(driver: Driver) -> None:
    """While the program loads, the launcher of pods sees which workers own the bins in its log."""
    driver.start("loads")
    seen = driver.awaited(lambda seen: seen.get("workers") == [0, 3])
    assert seen["state"] == "Loading"
    assert seen["reason"].endswith("hold its bins: 0, 3")
    assert seen["failures"] == 0
    driver.signal()
    assert driver.ended() == 0


def test_a_program_that_failed_is_told_apart_from_one_that_waits(driver: Driver) -> None:
    """While a failed program loads again, reason and number of failures stay visible with the workers that it waits for."""
    driver.start("fails-then-loads")
    seen = driver.awaited(lambda seen: seen.get("workers") == [0, 3])
    assert (seen["state"], seen["failures"]) == ("Loading", 1)
    assert "ValueError: no" in seen["reason"]
    driver.signal()
    assert driver.ended() == 0


def test_a_stop_is_kept(driver: Driver) -> None:
    """After a stop over HTTP the state stays Stopped, nothing is restarted, and another stop changes nothing."""
    driver.start("serves")
    driver.state("Running")
    driver.api.post("/v1/stop")
    driver.state("Stopped")
    assert driver.api.post("/v1/stop").json()["state"] == "Stopped"
    time.sleep(0.5)
    assert driver.seen()["state"] == "Stopped"
    driver.signal()
    assert driver.ended() == 0


def test_failures_are_shown_and_tried_again(driver: Driver) -> None:
    """The reason is kept for Kubernetes and shown, also during a retry; a program that then finishes is not restarted."""
    driver.start("fails-once")
    assert driver.state("Failed")["reason"] == "ValueError: no"
    assert "failed once, last so: ValueError: no" in driver.state("Loading")["reason"]
    driver.state("Finished")
    assert driver.failed == ["ValueError: no"]
    assert driver.api.get("/readyz").json()["reason"] == "Finished"
    time.sleep(0.5)
    assert driver.seen()["state"] == "Finished"


@pytest.mark.parametrize("kind", ["fails", "dies"])
def test_a_failing_program_can_be_stopped(kind: str, driver: Driver) -> None:
    """A stop between two attempts ends them, and the reason of the last one is kept."""
    driver.start(kind)
    driver.state("Failed")
    driver.api.post("/v1/stop")
    seen = driver.state("Stopped")
    assert ("ValueError: no" if kind == "fails" else "killed by signal 9") in seen["reason"]
    tries = len(driver.failed)
    time.sleep(0.5)
    assert len(driver.failed) == tries


def test_callers_are_never_refused(driver: Driver) -> None:
    """While the program starts, dies and restarts, each request gets a response or is cut by a death; none is refused."""
    driver.start("serves-and-dies")
    states: list[str] = []
    done = threading.Event()

    def request() -> None:
        while not done.is_set():
            states.append(driver.seen()["state"])

    asking = threading.Thread(target=request)
    asking.start()
    for _ in range(3):
        driver.state("Running")
        driver.file.touch()
        driver.awaited(lambda seen: "signal 9" in seen["reason"])
    done.set()
    asking.join()
    assert {"Loading", "Running", "Failed"} <= set(states) <= {"Loading", "Running", "Failed", "reset"}
    assert states.count("reset") <= 6, "more requests were cut than there were deaths to cut them"


def test_a_program_that_does_not_stop_is_killed(driver: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    """At the deadline its whole group is ended, and the status reports it."""
    monkeypatch.setattr("binshift.hosting.processes.END_SECONDS", 0.5)
    driver.start("stubborn", stop_seconds=0.5)
    driver.state("Running")
    driver.signal()
    assert driver.ended() == 1


@pytest.mark.parametrize("kind", ["serves", "stubborn-once"])
def test_a_program_without_its_master_is_run_again(kind: str, driver: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    """If a master does not know it for long enough, the program is stopped, soon by force, and restarted."""
    monkeypatch.setattr(connection, "LOOK_SECONDS", 0.05)
    monkeypatch.setattr(connection, "LOST_SECONDS", 1.0)
    monkeypatch.setattr(supervisor, "LOST_SECONDS", 0.5)
    driver.start(kind)
    driver.awaited(lambda seen: "master has not known the program" in seen["reason"])
    driver.state("Running")
    driver.signal()
    assert driver.ended() == 0
    assert all("master has not known" in reason for reason in driver.failed)


def test_a_second_signal_does_not_wait(driver: Driver) -> None:
    """A second signal ends everything at once."""
    driver.start("stubborn")
    driver.state("Running")
    began = time.monotonic()
    driver.signal()
    driver.signal()
    assert driver.ended() == 1
    assert time.monotonic() - began < supervisor.END_SECONDS
