"""Processes of a test's cluster by what they started, and the end of an executor."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Sequence

import psutil

from binshift.local import LocalCluster
from binshift.model import Worker


def family(roots: Sequence[int]) -> list[int]:
    """These processes and everything they started."""
    return [*roots, *descendants(*roots)]


def descendants(*roots: int) -> list[int]:
    """Everything these processes started."""
    found: list[int] = []
    for root in roots:
        with contextlib.suppress(psutil.NoSuchProcess):
            found += [each.pid for each in psutil.Process(root).children(recursive=True)]
    return found


def command_line(pid: int) -> str:
    """A process's arguments; empty if it has ended."""
    with contextlib.suppress(psutil.NoSuchProcess, psutil.ZombieProcess):
        return " ".join(psutil.Process(pid).cmdline())
    return ""


def kill_executor(cluster: LocalCluster, worker: Worker) -> list[int]:
    """SIGKILL the executor JVM of a slot; its worker process starts another. Returns the killed process ids."""
    killed = cluster.executor_pids(worker)
    for pid in killed:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    return killed
