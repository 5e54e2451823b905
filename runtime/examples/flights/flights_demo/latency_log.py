"""The latency of every row: from the moment it was due to the commit of its epoch.

`openloop` defines how latency is measured. Pure arithmetic on arrays: the caller provides the events, with times in seconds
after the replay began. One thread writes, others may read: an epoch's rows are in place before its entry is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from binshift.model import Epoch
from flights_demo.replay import Schedule
from openloop import Buckets, Floats, Latency, buckets


@dataclass(frozen=True)
class Entry:
    """One committed epoch.

    Attributes:
        epoch: its number.
        at: when it was committed.
        rows: how many it took.
        moved: bins that changed their worker in it.
        bins: by worker, from slot 0 on, after it.
    """

    epoch: Epoch
    at: float
    rows: int
    moved: int
    bins: tuple[int, ...]


class LatencyLog:
    """Of one replay."""

    def __init__(self, schedule: Schedule) -> None:
        self._schedule = schedule
        self._due = schedule.scheduled()
        self._committed = np.full(schedule.rows, np.nan)
        self.entries: list[Entry] = []
        """The committed epochs, in their order."""
        self.rows = 0
        """Rows committed so far."""

    def commit(self, epoch: Epoch, at: float, files: Sequence[int], bins: tuple[int, ...]) -> None:
        """``epoch`` was committed and had taken these files."""
        rows = 0
        for file in files:
            first, after = self._schedule.rows_of(file)
            self._committed[first:after] = at
            rows += after - first
        moved = bins_moved(self.entries[-1].bins, bins) if self.entries else 0
        self.entries.append(Entry(epoch, at, rows, moved, bins))
        self.rows += rows

    @property
    def complete(self) -> bool:
        """Whether every row is in a committed epoch."""
        return self.rows == self._schedule.rows

    def latencies(self) -> Floats:
        """Of each row, in seconds; NaN where there is none (yet)."""
        return self._committed - self._due

    def recent(self, now: float, seconds: float) -> tuple[Latency, float]:
        """The latency of the rows committed in the last ``seconds``, and how many a second these were."""
        chosen = self._committed > now - seconds
        latency = Latency.of(self.latencies()[chosen])
        return latency, float(chosen.sum()) / seconds

    def between(self, spans: Sequence[tuple[float, float]]) -> Latency:
        """The latency of the rows that were due within one of ``spans``."""
        return Latency.of(self.latencies()[self._within(spans)])

    def outside(self, spans: Sequence[tuple[float, float]]) -> Latency:
        """The latency of all other rows that were due."""
        return Latency.of(self.latencies()[~self._within(spans)])

    def _within(self, spans: Sequence[tuple[float, float]]) -> npt.NDArray[np.bool_]:
        chosen = np.zeros(self._due.size, dtype=np.bool_)
        for begin, end in spans:
            chosen |= (self._due >= begin) & (self._due < end)
        return chosen

    def buckets(self) -> Buckets:
        """Latency over time; buckets without a committed row are left out."""
        return buckets(self._due, self.latencies())


def bins_moved(before: Sequence[int], after: Sequence[int]) -> int:
    """At least so many bins changed their worker between two counts by worker: what the workers gained together.

    >>> bins_moved((8, 8), (6, 6, 4))
    4
    """
    width = max(len(before), len(after))
    padded = [tuple(counts) + (0,) * (width - len(counts)) for counts in (before, after)]
    return sum(max(new - old, 0) for old, new in zip(*padded, strict=True))
