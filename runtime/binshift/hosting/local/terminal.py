"""What `binshift run` prints: changes of workers, bins and migrations, the output of executors, and warnings.

All of it on stderr: standard output is the program's. It reads the control API's answers and the files of the cluster; it never
decides anything.
"""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from binshift.control.models import Dataflow, Migration
from binshift.hosting.local.quiet import DRIVER_LOG, Sieve
from binshift.hosting.log_tail import LogFollower, Tail

WORKERS: Final = "worker-*"
DRIVER: Final = "driver"
RUNS_FAILED_MIN: Final = 2
"""One run fails whenever an executor is lost; more is trouble."""

Change = tuple[str, Mapping[str, object]]
"""An event by its name, and its facts."""


@dataclass(frozen=True)
class Reporter:
    """For people, or as one JSON object a line.

    Attributes:
        output: ``json``, or else text.
    """

    output: str

    def __call__(self, event: str, **facts: object) -> None:
        """An event of the run; an empty fact is left out of a text."""
        if self.output == "json":
            _write(json.dumps({"event": event, **facts}))
            return
        known = {name: value for name, value in facts.items() if value != ""}
        parts = (f"\n{value}" if name == "traceback" else f"; {name}: {value}" for name, value in known.items())
        _write(f"binshift run: {event}" + "".join(parts))

    def show_line(self, worker: str, line: str) -> None:
        """A line of an executor's output; in a text it has only the worker's name in addition."""
        if self.output == "json":
            self("output", worker=worker, line=line)
        else:
            _write(f"{worker}: {line}")


def _write(text: str) -> None:
    sys.stderr.write(text + "\n")
    sys.stderr.flush()


class ExecutorOutput:
    """Reads the lines of all workers' executors and of the driver's log, and forwards those passed by `Sieve`.

    Args:
        cluster: its folder; output of earlier runs is not forwarded.
        report: receives the worker's name, as ``worker-1``, or ``driver``, and a line.

    Attributes:
        ending: whether driver and executors are about to end.
    """

    def __init__(self, cluster: Path, report: Callable[[str, str], None]) -> None:
        self._cluster, self._report, self.ending = cluster, report, False
        self._followed = {folder.name: LogFollower(str(folder)) for folder in self._folders()}
        self._sieves: dict[str, Sieve] = {}
        self._driver: Tail | None = None
        with contextlib.suppress(FileNotFoundError):
            self._driver = Tail(str(cluster / DRIVER_LOG), at_end=True)

    def forward(self, *, last: bool = False) -> None:
        """Forward lines written since the last call; the ``last`` call includes an unfinished line."""
        for folder in self._folders():
            if folder.name not in self._followed:
                self._followed[folder.name] = LogFollower(str(folder), fresh=True)
            self._sifted(folder.name, self._followed[folder.name].read())
        if self._driver is None:
            with contextlib.suppress(FileNotFoundError):
                self._driver = Tail(str(self._cluster / DRIVER_LOG))
        if self._driver is not None:
            self._sifted(DRIVER, self._driver.lines())
        for name, sieve in self._sieves.items() if last else ():
            self._forward_lines(name, sieve.rest())

    def _sifted(self, name: str, written: bytes) -> None:
        sieve = self._sieves.setdefault(name, Sieve())
        sieve.ending = self.ending
        self._forward_lines(name, sieve.passed(written.splitlines()))

    def _forward_lines(self, name: str, lines: Iterable[bytes]) -> None:
        for line in lines:
            self._report(name, line.decode(errors="replace"))

    def _folders(self) -> list[Path]:
        return sorted(each for each in self._cluster.glob(WORKERS) if each.is_dir())


class Changes:
    """Compares each observation with the previous one."""

    def __init__(self) -> None:
        self._registered: list[int] | None = None
        self._holding: list[int] | None = None
        self._begun = self._ended = 0
        self._trouble: tuple[int, str] | None = None

    def of(self, seen: Dataflow) -> Iterator[Change]:
        """What is new, in the order in which it came about."""
        yield from self._of_workers(seen)
        if seen.migration is not None:
            yield from self._of_migration(seen.migration)
        yield from self._of_trouble(seen)

    def _of_workers(self, seen: Dataflow) -> Iterator[Change]:
        if self._registered is not None:
            if came := sorted({*seen.registered} - {*self._registered}):
                yield "workers registered", {"workers": came}
            if went := sorted({*self._registered} - {*seen.registered}):
                yield "workers away", {"workers": went}
        self._registered = seen.registered
        if seen.workers != self._holding and seen.workers:
            self._holding = seen.workers
            yield "bins", {"workers": seen.workers, "epoch": seen.epoch}

    def _of_migration(self, now: Migration) -> Iterator[Change]:
        if now.id > self._begun and now.bins_total is not None:
            self._begun = now.id
            if now.bins_total:
                yield "migration begun", {"id": now.id, "strategy": now.strategy, "bins": now.bins_total}
        if now.id > self._ended and now.ended_at is not None:
            self._ended = now.id
            began = now.started_at or now.ended_at
            lasted = round((now.ended_at - began).total_seconds(), 1)
            yield (
                f"migration {now.phase}",
                {"id": now.id, "bins": now.bins_moved or 0, "seconds": lasted, "reason": now.reason},
            )

    def _of_trouble(self, seen: Dataflow) -> Iterator[Change]:
        epoch = seen.under_way
        if epoch is not None and epoch.trouble and epoch.runs > RUNS_FAILED_MIN:
            if self._trouble != (epoch.epoch, epoch.trouble):
                self._trouble = (epoch.epoch, epoch.trouble)
                facts = {"epoch": epoch.epoch, "failed": epoch.runs - 1, "reason": epoch.trouble}
                yield "epoch in trouble", facts
        elif self._trouble is not None and seen.epoch >= self._trouble[0]:
            yield "epoch recorded after trouble", {"epoch": self._trouble[0]}
            self._trouble = None
