"""The processor time that other processes used while a benchmark ran: a figure of every result.

A thread samples every two seconds: processor time of the whole machine, minus that of this process and its descendants.
Processes that live shorter count as others, and so do the kernel's own threads: a few hundredths of a core are normal.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

import psutil

SAMPLE_SECONDS = 2.0
TICKS = os.sysconf("SC_CLK_TCK")


@dataclass
class Elsewhere:
    """Sampling begins with `start`."""

    _began: float = field(default_factory=time.monotonic)
    _machine: float = field(default_factory=lambda: machine_seconds())
    _ours: dict[int, float] = field(default_factory=dict)
    _before: dict[int, float] = field(default_factory=dict)

    def start(self) -> Elsewhere:
        """Sample every few seconds from now on."""
        self.sample()
        self._before = dict(self._ours)
        threading.Thread(target=self._forever, daemon=True).start()
        return self

    def sample(self) -> None:
        """Record the processor time of this process and its descendants; ended ones keep theirs."""
        self._ours |= used_here()

    def cores(self) -> float:
        """Cores that others used, on average since the start."""
        self.sample()
        ours = sum(self._ours.values()) - sum(self._before.values())
        whole = machine_seconds() - self._machine
        return max(0.0, (whole - ours) / max(0.001, time.monotonic() - self._began))

    def _forever(self) -> None:
        while True:
            time.sleep(SAMPLE_SECONDS)
            self.sample()


def family(roots: list[int]) -> list[int]:
    """These processes and everything they started."""
    found = list(roots)
    for root in roots:
        with contextlib.suppress(psutil.NoSuchProcess):
            found += [each.pid for each in psutil.Process(root).children(recursive=True)]
    return found


def used_here() -> dict[int, float]:
    """Processor time of this process and of each of its descendants."""
    return {pid: used for pid in family([os.getpid()]) if (used := process_seconds(pid)) is not None}


def machine_seconds() -> float:
    """Processor time of the whole machine, without idle and waiting time."""
    user, nice, system, _, _, irq, softirq = map(int, Path("/proc/stat").read_text().split()[1:8])
    return (user + nice + system + irq + softirq) / TICKS


def process_seconds(pid: int) -> float | None:
    """Processor time of a process, without its children; None if it has ended."""
    with contextlib.suppress(OSError, IndexError):
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / TICKS
    return None
