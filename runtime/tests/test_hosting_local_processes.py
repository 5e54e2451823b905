"""The user's program as a group of processes, and how it ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from binshift.errors import InvalidSettings
from binshift.hosting.local.environment import program_conf
from binshift.hosting.processes import ChildProcess, Interrupts, members
from binshift.spark.conf import check_master

STUBBORN = """
import os, signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN) if sys.argv[1] == "stubborn" else None
if os.fork() == 0:
    open(sys.argv[2], "w").close()
    time.sleep(600)
if sys.argv[1] != "leaves":
    time.sleep(600)
sys.exit(7)
"""


def begun(kind: str, folder: Path) -> ChildProcess:
    """A program with a child, which has begun."""
    process = ChildProcess([sys.executable, "-c", STUBBORN, kind, str(folder / "begun")], os.environ)
    deadline = time.monotonic() + 60
    while not (folder / "begun").exists():
        assert time.monotonic() < deadline
        time.sleep(0.02)
    return process


@pytest.mark.parametrize("kind", ["polite", "stubborn", "leaves"])
def test_nothing_of_a_group_is_left(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program ends with its children: one that ignores a polite signal, and one that has left its child behind, too."""
    monkeypatch.setattr("binshift.hosting.processes.END_SECONDS", 0.5)
    process = begun(kind, tmp_path)
    group = process._process.pid
    assert members(group)
    if kind == "leaves":
        assert process.wait(60)
    process.end_group()
    assert members(group) == []
    assert process.status == {"polite": 128 + signal.SIGTERM, "stubborn": 128 + signal.SIGKILL, "leaves": 7}[kind]


def test_signals_are_counted_and_given_back() -> None:
    """During the context a signal is only an event; afterwards the former handler is restored."""
    before = signal.getsignal(signal.SIGTERM)
    interrupts = Interrupts()
    with interrupts.watched():
        signal.raise_signal(signal.SIGTERM)
        signal.raise_signal(signal.SIGINT)
        assert (interrupts.seen, interrupts.event.is_set()) == (2, True)
    assert signal.getsignal(signal.SIGTERM) is before


def test_a_traceback_begins_with_the_users_own_line(tmp_path: Path) -> None:
    """What is shown of a program that failed has none of our frames, and its `sys.argv` and `__main__` are its own."""
    from binshift.hosting.program import without_ours

    app = tmp_path / "app.py"
    app.write_text("import sys\nassert __name__ == '__main__'\nraise ValueError(sys.argv)\n")
    code = f"import runpy, sys; sys.argv = ['app', 'x']; runpy.run_path({str(app)!r}, run_name='__main__')"
    failed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    lines = without_ours(failed.stderr).splitlines()
    assert lines[0].startswith("Traceback")
    assert str(app) in lines[1]
    assert lines[-1] == "ValueError: ['app', 'x']"


def test_another_master_is_refused_by_name() -> None:
    """For a program with its own master, the error names that master and the given cluster; without a cluster it is allowed."""
    with pytest.raises(InvalidSettings, match=r"local\[4\].*spark://127\.0\.0\.1:1.*remove"):
        check_master("local[4]", "spark://127.0.0.1:1")
    check_master("spark://elsewhere:7077", None)


def test_executors_find_the_programs_modules(tmp_path: Path) -> None:
    """Modules next to the program take precedence over those of the environment."""
    conf = program_conf({"a": "b"}, 3, tmp_path / "app.py", tmp_path / "cluster", "/x:/y")
    assert conf["spark.executorEnv.PYTHONPATH"] == f"{tmp_path}:/x:/y"
    assert (conf["a"], conf["spark.binshift.workers"]) == ("b", "3")


def test_conf_of_the_users_own(tmp_path: Path) -> None:
    """It overrides defaults, but not required settings."""
    given = {"spark.app.name": "mine", "spark.x": "1", "spark.scheduler.mode": "FAIR"}
    conf = program_conf({"spark.scheduler.mode": "FAIR"}, 3, tmp_path / "app.py", tmp_path, "", given)
    assert {key: conf[key] for key in given} == given
    assert conf["spark.binshift.enabled"] == "true"
    given = {"spark.binshift.enabled": "false"}
    assert program_conf({}, 3, tmp_path / "app.py", tmp_path, "", given)["spark.binshift.enabled"] == "false"
    with pytest.raises(InvalidSettings, match=r"spark\.scheduler\.mode=FIFO.*'FAIR'"):
        program_conf(
            {"spark.scheduler.mode": "FAIR"}, 3, tmp_path / "app.py", tmp_path, "", {"spark.scheduler.mode": "FIFO"}
        )
