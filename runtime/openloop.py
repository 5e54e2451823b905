"""Record latency as an open loop sees it: from the time a row was due, whether or not the system kept up, to its commit.

As in Megaphone's evaluation (PVLDB 12(9), section 5), figures are taken per 250 ms of due time. A system that stands still
does not stop the rows from being due, so a pause shows in full; a closed loop would hide it. The rows of an epoch are due
evenly, so the due times of its first and its last row stand for all of them.

The demo, the benchmarks and the end-to-end tests measure with this module; it is not part of the package. Pure: times are
seconds on any one clock, and the caller knows when rows were due and when their epoch was committed.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

BUCKET_SECONDS = 0.25

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Span:
    """The rows of an epoch: when the first was due, when the one after the last is due, and when they were committed."""

    first: float
    last: float
    committed: float

    def due(self, rows: int) -> Floats:
        """The due times of ``rows`` rows.

        >>> Span(1.0, 2.0, 5.0).due(4).tolist()
        [1.0, 1.25, 1.5, 1.75]
        """
        return np.arange(rows, dtype=np.float64) * ((self.last - self.first) / max(rows, 1)) + self.first

    def oldest(self, width: float = BUCKET_SECONDS) -> Floats:
        """The due time of the row that has waited longest, in each bucket of due time."""
        begins = np.arange(math.floor(self.first / width) + 1, math.floor(self.last / width) + 1) * width
        return np.concatenate([[self.first], begins])


@dataclass(frozen=True)
class Latency:
    """Latency of some rows, in seconds; NaN where there are none."""

    p50: float
    p99: float
    max: float
    rows: int

    @classmethod
    def of(cls, latencies: Floats) -> Latency:
        """The latency of the rows that have been committed; of the others it is NaN.

        >>> Latency.of(np.array([0.2, 0.4, np.nan, 0.3])).p50
        0.3
        """
        known = latencies[~np.isnan(latencies)]
        return cls(percentile(known, 50), percentile(known, 99), percentile(known, 100), int(known.size))


@dataclass(frozen=True)
class Buckets:
    """Latency over time: one entry for each bucket of due time that has a committed row; ``starts`` are due times."""

    starts: Floats
    p50: Floats
    p99: Floats
    max: Floats


def buckets(due: Floats, latencies: Floats, width: float = BUCKET_SECONDS) -> Buckets:
    """Latency over time, of rows in any order."""
    known = ~np.isnan(latencies)
    numbers, latencies = np.floor(due[known] / width).astype(np.int64), latencies[known]
    order = np.argsort(numbers, kind="stable")
    present, begins = np.unique(numbers[order], return_index=True)
    groups = [Latency.of(group) for group in np.split(latencies[order], begins[1:])] if present.size else []
    return Buckets(
        np.asarray(present * width, dtype=np.float64),
        np.array([group.p50 for group in groups]),
        np.array([group.p99 for group in groups]),
        np.array([group.max for group in groups]),
    )


def worst(spans: Iterable[Span], width: float = BUCKET_SECONDS) -> list[tuple[float, float]]:
    """(due time, worst latency) for every bucket of due time."""
    rows = [(span.committed, span.oldest(width)) for span in spans]
    if not rows:
        return []
    found = buckets(
        np.concatenate([due for _, due in rows]), np.concatenate([committed - due for committed, due in rows]), width
    )
    return list(zip(found.starts.tolist(), found.max.tolist(), strict=True))


def longest_gap(times: Sequence[float]) -> float:
    """The longest time between two commits; nan without two."""
    return max((later - earlier for earlier, later in pairwise(times)), default=math.nan)


def percentile(values: Sequence[float] | Floats, q: float) -> float:
    """A percentile, between two values in proportion; nan of nothing.

    >>> percentile([1.0, 2.0, 3.0, 5.0], 50)
    2.5
    """
    return float(np.percentile(values, q)) if len(values) else math.nan
