"""The local cluster's processes end with the process that started them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

from binshift.local import GUARD

PROGRAM = """
import subprocess, sys
child = subprocess.Popen(["sh", "-c", sys.argv[1], "guard", "sh", "-c", "echo $$; exec sleep 600"],
                         stdin=subprocess.PIPE, start_new_session=True)
child.wait()
"""


def test_a_guarded_process_ends_when_its_parent_is_killed() -> None:
    """SIGKILL leaves the parent no chance to clean up; the guard notices that its input has ended."""
    parent = subprocess.Popen([sys.executable, "-c", PROGRAM, GUARD], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    sleeper = int(parent.stdout.readline())
    assert Path(f"/proc/{sleeper}").exists()
    os.kill(parent.pid, signal.SIGKILL)
    parent.wait()
    assert parent.stdout.read() == ""  # ends only once nothing holds the other end: guard and sleeper have ended


def test_a_guard_ends_with_its_process_and_status() -> None:
    """The exit status of the guarded command is the guard's, whose input is open until then."""
    with subprocess.Popen(["sh", "-c", GUARD, "guard", "sh", "-c", "exit 7"], stdin=subprocess.PIPE) as guard:
        assert guard.wait(timeout=30) == 7
