"""Memory of the workers during a measurement: of their process trees, JVM and Python, sampled by a thread.

Two figures. *Resident* is all memory of the processes, including files: pages of a local store count once for each process
that maps them (the epoch's and the background's), so it overstates. *Own* excludes files, and so the stores, which the system
may drop and read again.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from elsewhere import family

from binshift.local import LocalCluster
from binshift.model import Worker

SAMPLE_SECONDS = 0.25


@dataclass
class Footprint:
    """MiB at the start and at most; filled in by `watched`."""

    resident_before: float = 0.0
    resident_max: float = 0.0
    own_before: float = 0.0
    own_max: float = 0.0
    _samples: list[tuple[float, float]] = field(default_factory=list)
    _end: threading.Event = field(default_factory=threading.Event)

    def columns(self) -> dict[str, object]:
        """The columns of a row of results."""
        return {
            "mib_before": round(self.resident_before),
            "mib_max": round(self.resident_max),
            "own_mib_before": round(self.own_before),
            "own_mib_max": round(self.own_max),
            "more_own_memory": self.own_max / self.own_before - 1 if self.own_before else None,
        }

    def sample(self, roots: list[int]) -> None:
        """Take one sample."""
        resident, own = memory_mib(family(roots))
        self.resident_max, self.own_max = max(self.resident_max, resident), max(self.own_max, own)
        self._samples.append((time.time(), own))

    def series(self, zero: float) -> list[tuple[float, int]]:
        """Every sample, for a plot: seconds after ``zero`` (in seconds since 1970), own MiB."""
        return [(round(at - zero, 2), round(own)) for at, own in self._samples]

    def sample_until_end(self, roots: list[int]) -> None:
        """Take samples periodically."""
        while not self._end.wait(SAMPLE_SECONDS):
            self.sample(roots)

    def end(self) -> None:
        """Stop sampling."""
        self._end.set()


@contextlib.contextmanager
def watched(cluster: LocalCluster) -> Iterator[Footprint]:
    """The memory of a cluster's executors, within this context."""
    roots = [pid for worker in sorted(cluster.running) for pid in cluster.executor_pids(Worker(worker))]
    found = Footprint()
    found.sample(roots)
    found.resident_before, found.own_before = found.resident_max, found.own_max
    thread = threading.Thread(target=found.sample_until_end, args=(roots,), daemon=True)
    thread.start()
    try:
        yield found
    finally:
        found.end()
        thread.join()


def memory_mib(pids: list[int]) -> tuple[float, float]:
    """(resident, resident without files) of some processes together."""
    resident = own = 0
    for pid in pids:
        with contextlib.suppress(OSError, ValueError):
            lines = Path(f"/proc/{pid}/status").read_text().splitlines()
            kib = {
                name: int(rest.split()[0])
                for name, _, rest in (line.partition(":") for line in lines)
                if name in WANTED
            }
            resident += kib.get("VmRSS", 0)
            own += kib.get("RssAnon", 0)
    return resident / 1024, own / 1024


WANTED = frozenset({"VmRSS", "RssAnon"})
