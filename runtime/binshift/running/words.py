"""What the executors of a run write, users' prints included, and the driver's warnings, where `binshift run` was typed."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

from binshift.followed import LogFollower, Tail
from binshift.running.quiet import DRIVER_LOG, Sieve

WORKERS: Final = "worker-*"
DRIVER: Final = "driver"


class ExecutorOutput:
    """Takes up the lines of all workers' executors and of the driver's log, those that `Sieve` passes.

    Args:
        cluster: its folder; what earlier runs have left there is not told.
        tell: is given the worker's name, as ``worker-1``, or ``driver``, and a line.

    Attributes:
        ending: whether driver and executors are about to end.
    """

    def __init__(self, cluster: Path, tell: Callable[[str, str], None]) -> None:
        self._cluster, self._tell, self.ending = cluster, tell, False
        self._followed = {folder.name: LogFollower(str(folder)) for folder in self._folders()}
        self._sieves: dict[str, Sieve] = {}
        self._driver: Tail | None = None
        with contextlib.suppress(FileNotFoundError):
            self._driver = Tail(str(cluster / DRIVER_LOG), at_end=True)

    def forward(self, *, last: bool = False) -> None:
        """Tell what has been written since the last time; the ``last`` time, also what has no end yet."""
        for folder in self._folders():
            if folder.name not in self._followed:
                self._followed[folder.name] = LogFollower(str(folder), fresh=True)
            self._sifted(folder.name, self._followed[folder.name].look())
        if self._driver is None:
            with contextlib.suppress(FileNotFoundError):
                self._driver = Tail(str(self._cluster / DRIVER_LOG))
        if self._driver is not None:
            self._sifted(DRIVER, self._driver.lines())
        for name, sieve in self._sieves.items() if last else ():
            self._told(name, sieve.rest())

    def _sifted(self, name: str, written: bytes) -> None:
        sieve = self._sieves.setdefault(name, Sieve())
        sieve.ending = self.ending
        self._told(name, sieve.passed(written.splitlines()))

    def _told(self, name: str, lines: Iterable[bytes]) -> None:
        for line in lines:
            self._tell(name, line.decode(errors="replace"))

    def _folders(self) -> list[Path]:
        return sorted(each for each in self._cluster.glob(WORKERS) if each.is_dir())
