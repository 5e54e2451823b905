"""Failpoints are inert unless the process's own environment activates them, and then they hold exactly one process."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from binshift import failpoints


def test_without_the_variable_nothing_is_read(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The variable is read once, when the process starts: set later, it has no effect."""
    (tmp_path / "here").touch()
    monkeypatch.setenv(failpoints.VARIABLE, str(tmp_path))
    monkeypatch.setattr(failpoints, "hold", lambda *_: pytest.fail("read the folder"))
    failpoints.reached("here")
    assert (tmp_path / "here").exists()


def test_an_armed_point_holds_one_of_all_that_come_by(tmp_path: Path) -> None:
    """The first process takes it and waits until it is released; others pass."""
    (tmp_path / "here").touch()
    threads = [threading.Thread(target=failpoints.hold, args=(tmp_path, "here")) for _ in range(4)]
    for thread in threads:
        thread.start()
    held = tmp_path / f"here.{os.getpid()}.held"
    deadline = time.monotonic() + 60
    while sum(thread.is_alive() for thread in threads) > 1 or not held.exists():
        assert time.monotonic() < deadline
        time.sleep(0.005)
    held.with_suffix(".go").touch()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()


def test_a_process_is_held_if_it_was_started_so(tmp_path: Path) -> None:
    """With the variable in its environment, a process waits at the armed point."""
    (tmp_path / "there").touch()
    program = "from binshift.failpoints import reached; reached('elsewhere'); reached('there'); print('on')"
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1]), failpoints.VARIABLE: str(tmp_path)}
    child = subprocess.Popen([sys.executable, "-c", program], env=environment, stdout=subprocess.PIPE, text=True)
    held = tmp_path / f"there.{child.pid}.held"
    deadline = time.monotonic() + 60
    while not held.exists():
        assert child.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.005)
    held.with_suffix(".go").touch()
    assert child.communicate(timeout=60)[0].strip() == "on"
