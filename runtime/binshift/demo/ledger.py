"""The latency of every row: from the moment it was due to the commit of its epoch.

Open loop: what counts is when a row was due, not when it was read, so that a stream which stands still cannot hide the
rows that wait for it. Rows are grouped into buckets of 250 ms of due time, as in the evaluation of Megaphone. Pure
arithmetic on arrays: what happened is told to it, with times in seconds after the replay began. One thread writes,
others may read: an epoch's rows are in place before its entry is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from binshift.demo.replay import Schedule
from binshift.model import Epoch

BUCKET_SECONDS = 0.25

Floats = npt.NDArray[np.float64]


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


@dataclass(frozen=True)
class Latency:
    """Of some rows, in seconds; NaN where there are none."""

    p50: float
    p99: float
    max: float
    rows: int

    @classmethod
    def of(cls, latencies: Floats) -> Latency:
        """Of the rows that have been committed.

        >>> Latency.of(np.array([0.2, 0.4, np.nan, 0.3])).p50
        0.3
        """
        known = latencies[~np.isnan(latencies)]
        if not known.size:
            return cls(np.nan, np.nan, np.nan, 0)
        p50, p99 = np.percentile(known, [50, 99])
        return cls(float(p50), float(p99), float(known.max()), int(known.size))


@dataclass(frozen=True)
class Buckets:
    """Latency over time, a row a bucket; `starts` are seconds after the replay began."""

    starts: Floats
    p50: Floats
    p99: Floats
    max: Floats


class Ledger:
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

    def buckets(self, width: float = BUCKET_SECONDS) -> Buckets:
        """Latency over time; buckets without a committed row are left out."""
        latencies = self.latencies()
        known = ~np.isnan(latencies)
        numbers = np.floor(self._due[known] / width).astype(np.int64)
        # Rows are in the order in which they are due, hence so are the numbers.
        present, begins = np.unique(numbers, return_index=True)
        groups = [Latency.of(group) for group in np.split(latencies[known], begins[1:])] if present.size else []
        return Buckets(
            np.asarray(present * width, dtype=np.float64),
            np.array([group.p50 for group in groups]),
            np.array([group.p99 for group in groups]),
            np.array([group.max for group in groups]),
        )


def bins_moved(before: Sequence[int], after: Sequence[int]) -> int:
    """At least so many bins changed their worker between two counts by worker: what the workers gained together.

    >>> bins_moved((8, 8), (6, 6, 4))
    4
    """
    width = max(len(before), len(after))
    padded = [tuple(counts) + (0,) * (width - len(counts)) for counts in (before, after)]
    return sum(max(new - old, 0) for old, new in zip(*padded, strict=True))
