"""The user's program as a group of processes: Python, Spark's driver, and whatever else it started; and its end.

A group of its own, so that Ctrl-C in a terminal reaches `binshift run` alone, which then stops the query in order. Linux only.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

POLL_SECONDS: Final = 0.05
END_SECONDS: Final = 10.0
"""How long a group may take to end after a polite signal."""


class ProgramProcess:
    """A process in a group of its own, which ends when this one does.

    Args:
        descriptors: of open files that it inherits, under the same numbers.
    """

    def __init__(self, command: Sequence[str], environment: Mapping[str, str], descriptors: Sequence[int] = ()) -> None:
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, env=dict(environment), process_group=0, pass_fds=tuple(descriptors)
        )

    def say(self, line: bytes) -> None:
        """Send it a line; one that has ended hears nothing."""
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError, ValueError):
            self._process.stdin.write(line + b"\n")
            self._process.stdin.flush()

    @property
    def status(self) -> int | None:
        """The exit status as a shell gives it; None while it runs."""
        code = self._process.poll()
        return code if code is None or code >= 0 else 128 - code

    def wait(self, seconds: float) -> bool:
        """Whether it ends within so many seconds."""
        try:
            self._process.wait(max(0.0, seconds))
        except subprocess.TimeoutExpired:
            return False
        return True

    def end(self) -> None:
        """End whatever of the group is left: politely, then not. Returns when nothing is."""
        if self._process.poll() is None:
            self._signal(signal.SIGTERM)
            self.wait(END_SECONDS)
        if not _await_empty(self._process.pid, END_SECONDS):
            self._signal(signal.SIGKILL)
            _await_empty(self._process.pid, END_SECONDS)
        self._process.wait()
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()

    def _signal(self, sig: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, sig)


def members(group: int) -> list[int]:
    """The living processes of a group; those that have ended and wait for their parent are not."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError, ValueError, IndexError):
                state, _, its_group = (entry / "stat").read_text().rpartition(")")[2].split()[:3]
                if int(its_group) == group and state not in "ZX":
                    found.append(int(entry.name))
    return found


def _await_empty(group: int, seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while members(group):
        if time.monotonic() > deadline:
            return False
        time.sleep(POLL_SECONDS)
    return True
