"""The resources of a dataflow, sampled during a long run: memory, files, threads, processes, bytes on disk; and which are flat.

Two medians are compared, of the second third of the samples and of the last: a warm-up phase is in neither, and a process that
is briefly missing does not change a median. Unbounded growth shows in any run that is long enough; the bounds state how much a
figure may differ and still count as flat.
"""

from __future__ import annotations

import contextlib
import os
import statistics
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from binshift.engine.rhythm import STRETCH_MAX
from binshift.settings import Settings

MIB = 1 << 20
SAMPLE_SECONDS = 2.0


@dataclass(frozen=True)
class Bound:
    """A figure is flat if its last median is at most ``share`` and ``slack`` above the previous one.

    Attributes:
        share: of the earlier median.
        slack: in the figure's own unit.
    """

    share: float
    slack: float

    def holds(self, before: float, after: float) -> bool:
        """Whether it is flat.

        >>> Bound(0.1, 2).holds(100, 112), Bound(0.1, 2).holds(100, 113)
        (True, False)
        """
        return after <= before * (1 + self.share) + self.slack


BOUNDS: Mapping[str, Bound] = {
    "driver MiB": Bound(0.05, 32),
    "executors MiB": Bound(0.10, 64),
    "driver handles": Bound(0.05, 16),
    "executors handles": Bound(0.05, 32),
    "driver threads": Bound(0.05, 16),
    "executors threads": Bound(0.05, 32),
    "processes": Bound(0.0, 4),
    "store MiB": Bound(0.10, 2),
    "log MiB": Bound(0.15, 2),
    "log files": Bound(0.15, 50),
    "temporary files": Bound(0.05, 8),
    "temporary MiB": Bound(0.05, 4),
}
"""Memory is the processes' private memory (RssAnon): pages of files belong to the system."""

WARMING_SECONDS, WARMING = 400.0, 4
"""In a run of a few minutes heaps, compiled code and the log still grow: this factor applies to the bounds."""

LOG_FIGURES = ("log MiB", "log files")
LOG_EPOCHS = 2 * STRETCH_MAX * Settings().snapshot_cycle_epochs
"""The log keeps the deltas of a cycle of snapshots: a run with fewer epochs before its last third shows its growth only."""


@dataclass
class Samples:
    """Figures over time, sampled by a thread.

    Attributes:
        processes: returns those of the driver and of the executors.
        stores: the folder of the local stores.
        log: the folder of the log.
        temporary: the folder of the driver's temporary files.
        epochs: returns the number of epochs so far.
        taken: by name, in the order of time.
    """

    processes: Callable[[], Mapping[str, Sequence[int]]]
    stores: Path
    log: Path
    temporary: Path
    epochs: Callable[[], int]
    taken: dict[str, list[float]] = field(default_factory=dict)
    _end: threading.Event = field(default_factory=threading.Event)

    def __enter__(self) -> Samples:
        self._thread = threading.Thread(target=self._loop, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._thread.join()

    def _loop(self) -> None:
        while not self._end.wait(SAMPLE_SECONDS):
            for name, value in self.sample().items():
                self.taken.setdefault(name, []).append(value)

    def sample(self) -> dict[str, float]:
        """All current figures."""
        found: dict[str, float] = {"processes": 0, "epochs": self.epochs()}
        for who, pids in self.processes().items():
            usage = [used for pid in pids if (used := usage_of(pid)) is not None]
            found["processes"] += len(usage)
            for at, what in enumerate(("MiB", "handles", "threads")):
                found[f"{who} {what}"] = sum(used[at] for used in usage)
        store, log = sizes(self.stores, "data.mdb"), sizes(self.log)
        found |= {"store MiB": sum(store) / MIB, "log MiB": sum(log) / MIB, "log files": len(log)}
        temporary = sizes(self.temporary)
        return found | {"temporary files": len(temporary), "temporary MiB": sum(temporary) / MIB}

    def verdict(self, seconds: float) -> list[tuple[str, float, float, float, bool]]:
        """For each figure that can be judged: the medians of the second and last third, the maximum, and whether it is flat."""
        found = []
        for name, bound in BOUNDS.items():
            values = self.taken[name]
            third = len(values) // 3
            if name in LOG_FIGURES and self.taken["epochs"][2 * third] < LOG_EPOCHS:
                continue
            before, after = (statistics.median(part) for part in (values[third : 2 * third], values[2 * third :]))
            times = WARMING if seconds < WARMING_SECONDS else 1
            flat = Bound(bound.share * times, bound.slack * times).holds(before, after)
            found.append((name, before, after, max(values), flat))
        return found

    def table(self, seconds: float) -> str:
        """The verdict as a readable table."""
        lines = [f"{'':18} {'2nd third':>10} {'last third':>10} {'greatest':>10}"]
        for name, before, after, most, flat in self.verdict(seconds):
            lines.append(f"{name:18} {before:10.1f} {after:10.1f} {most:10.1f}  {'flat' if flat else 'GROWS'}")
        return "\n".join(lines)


def usage_of(pid: int) -> tuple[float, int, int] | None:
    """Private memory in MiB, open files, threads; None for a process that has ended, or is a zombie."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
        fields = {name: rest.split()[0] for name, _, rest in (line.partition(":") for line in lines) if rest.split()}
        if fields["State"] == "Z":
            return None
        return int(fields["RssAnon"]) / 1024, len(os.listdir(f"/proc/{pid}/fd")), int(fields["Threads"])
    except (OSError, KeyError, ValueError):
        return None


def sizes(folder: Path, name: str = "") -> list[int]:
    """Bytes on disk of every file below ``folder``, or of those with a name; files may be created and deleted meanwhile."""
    found = []
    for root, _, files in os.walk(folder):
        for each in files:
            if not name or each == name:
                with contextlib.suppress(OSError):
                    found.append(os.stat(os.path.join(root, each)).st_blocks * 512)
    return found
