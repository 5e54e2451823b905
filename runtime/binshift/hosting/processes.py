"""Processes that a host starts, their end, and the signals that ask the host itself to end. Linux only.

A child is in a process group of its own, so that Ctrl-C in a terminal reaches the host alone, which then stops the query in
order. Its standard input is a pipe: a child ends when its host does, however that ends. Owns the processes it starts and no others.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import FrameType
from typing import IO, Final

import psutil

POLL_SECONDS: Final = 0.05
END_SECONDS: Final = 10.0
"""How long a child may take to end after a polite signal."""
WATCHED: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class ChildProcess:
    """A child with all that it starts.

    Args:
        command: its command line.
        environment: of it.
        descriptors: of open files that it inherits, under the same numbers.
        output: where its output goes; None: where that of this process goes.
    """

    def __init__(
        self,
        command: Sequence[str],
        environment: Mapping[str, str],
        descriptors: Sequence[int] = (),
        output: IO[bytes] | None = None,
    ) -> None:
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=output,
            env=dict(environment),
            process_group=0,
            pass_fds=tuple(descriptors),
        )

    def write_line(self, line: bytes) -> None:
        """Send it a line, if it has not ended."""
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

    def descendants(self) -> list[psutil.Process]:
        """Everything it started that still has it as an ancestor."""
        with contextlib.suppress(psutil.NoSuchProcess):
            return psutil.Process(self._process.pid).children(recursive=True)
        return []

    def hang_up(self) -> None:
        """Close its input; a child that watches it ends."""
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()

    def end_group(self) -> None:
        """End whatever of its group is left: politely, then not. Returns when nothing is."""
        if self._process.poll() is None:
            self._signal_group(signal.SIGTERM)
            self.wait(END_SECONDS)
        if not _await_empty(self._process.pid, END_SECONDS):
            self._signal_group(signal.SIGKILL)
            _await_empty(self._process.pid, END_SECONDS)
        self._process.wait()
        self.hang_up()

    def end_tree(self, sig: signal.Signals = signal.SIGTERM) -> None:
        """End it by ``sig``, then, whatever their group, the processes it has started, without a warning."""
        below = self.descendants()
        self.hang_up()
        with contextlib.suppress(ProcessLookupError):
            self._process.send_signal(sig)
        if not self.wait(END_SECONDS):
            self._process.kill()
            self._process.wait()
        for each in below:
            with contextlib.suppress(psutil.NoSuchProcess):
                each.kill()

    def kill_group(self) -> None:
        """Kill its group at once."""
        self._signal_group(signal.SIGKILL)

    def _signal_group(self, sig: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, sig)


def members(group: int) -> list[int]:
    """The living processes of a group; not zombies, which have ended and wait for their parent."""
    found = []
    for each in psutil.process_iter():
        with contextlib.suppress(psutil.NoSuchProcess, ProcessLookupError):
            if os.getpgid(each.pid) == group and each.status() not in (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD):
                found.append(each.pid)
    return found


def _await_empty(group: int, seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while members(group):
        if time.monotonic() > deadline:
            return False
        time.sleep(POLL_SECONDS)
    return True


@contextmanager
def handled_signals(handler: Callable[[int, FrameType | None], None]) -> Iterator[None]:
    """Termination signals are passed to ``handler``; afterwards the previous handlers are restored."""
    # What is ignored already (by `nohup`, or by a shell for jobs in the background) stays so.
    before = {each: signal.getsignal(each) for each in WATCHED if signal.getsignal(each) is not signal.SIG_IGN}
    for each in before:
        signal.signal(each, handler)
    try:
        yield
    finally:
        for each, earlier in before.items():
            signal.signal(each, earlier)


@dataclass
class Interrupts:
    """Signals that arrived: the first requests an orderly end, the second a quick one."""

    seen: int = 0
    event: threading.Event = field(default_factory=threading.Event)

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Count signals instead of ending by them."""
        with handled_signals(self._note):
            yield

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.seen += 1
        self.event.set()
