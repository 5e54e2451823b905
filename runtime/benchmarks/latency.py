"""Record latency in an open loop: from the time a row was due, whether or not the system kept up, to its commit.

As in Megaphone's evaluation (PVLDB 12(9), section 5): the worst latency of every 250 ms of due time. While a system stands
still, rows are still due, so a pause shows in full; a closed loop would hide it. The rows of an epoch are due at an even rate,
so the first and last due time of an epoch determine all of them.

Pure: the input is Spark's own progress reports, as mappings; the same for Spark's queries and for binshift's.
"""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

SOURCE = "OpenLoopSource"
BUCKET_SECONDS = 0.25


@dataclass(frozen=True)
class Span:
    """An epoch: when the first and the last of its rows were due, and when it was committed; in seconds since 1970."""

    first: float
    last: float
    committed: float


@dataclass
class Latencies:
    """The epochs of a query, in their order."""

    spans: list[Span] = field(default_factory=list)

    def buckets(self) -> list[tuple[float, float]]:
        """(due time, worst latency) for every 250 ms of due time."""
        worst: dict[int, float] = {}
        for span in self.spans:
            for bucket in range(int(span.first / BUCKET_SECONDS), int(span.last / BUCKET_SECONDS) + 1):
                due = max(span.first, bucket * BUCKET_SECONDS)
                worst[bucket] = max(worst.get(bucket, 0.0), span.committed - due)
        return [(bucket * BUCKET_SECONDS, latency) for bucket, latency in sorted(worst.items())]

    def calm(self, start: float, began: float) -> list[float]:
        """Latencies of rows due from ``start`` on and committed before ``began``."""
        return [latency for due, latency in self.buckets() if start <= due and due + latency <= began]

    def moving(self, began: float, ended: float) -> list[float]:
        """Latencies of rows that were not yet committed when it ``began``, or due until it ``ended``."""
        return [latency for due, latency in self.buckets() if began < due + latency and due < ended]

    def longest_silence(self, start: float, end: float) -> float:
        """The longest time between two commits that overlaps with ``start .. end``; nan without two commits."""
        times = [span.committed for span in self.spans]
        pairs = itertools.pairwise(times)
        return max((b - a for a, b in pairs if b > start and a < end), default=math.nan)

    def usual_silence(self, start: float, end: float) -> float:
        """The longest time between two commits that lies within ``start .. end``; nan without two commits in it."""
        times = [span.committed for span in self.spans if start <= span.committed <= end]
        return max((b - a for a, b in itertools.pairwise(times)), default=math.nan)

    def skipped(self, calm: tuple[float, float], moving: tuple[float, float]) -> int:
        """Commits that were due in the longest silence and missing, measured by the longest silence of calm times."""
        usual, longest = self.usual_silence(*calm), self.longest_silence(*moving)
        return max(0, int(longest / usual) - 1) if usual > 0 and longest > 0 else 0

    def series(self, start: float, end: float, zero: float) -> list[tuple[float, float]]:
        """The buckets of a time range, for a plot: seconds after ``zero``, worst latency."""
        return [(round(due - zero, 2), round(latency, 3)) for due, latency in self.buckets() if start <= due < end]


def latencies_of(progress: Iterable[Mapping[str, Any]], prefill: int, rate: int) -> Latencies:
    """Latencies of a query that reads the open-loop source with these options; epochs without new rows are omitted."""
    spans = [span for each in progress if (span := _span(each, prefill, rate)) is not None]
    return Latencies(sorted(spans, key=lambda span: span.committed))


def committed_at(progress: Mapping[str, Any]) -> float:
    """When a trigger had ended, in seconds since 1970: its epoch is then in binshift's log and in Spark's."""
    began = datetime.fromisoformat(progress["timestamp"]).timestamp()
    return began + float(progress["durationMs"]["triggerExecution"]) / 1000


def _span(progress: Mapping[str, Any], prefill: int, rate: int) -> Span | None:
    source = next((each for each in progress["sources"] if SOURCE in each["description"]), None)
    if source is None or not progress["numInputRows"]:
        return None
    start, end = _offset(source["startOffset"]), _offset(source["endOffset"])
    if end is None:
        return None
    first, last = (end[1] / 1000 + max(0, rows - prefill) / rate for rows in ((start or (0, 0))[0], end[0]))
    return Span(first, last, committed_at(progress)) if last > first else None


def _offset(text: Any) -> tuple[int, int] | None:
    """(rows, start of the clock in ms), as the source writes it; None for no offset, which Spark writes in two ways."""
    offset = json.loads(text) if isinstance(text, str) else text
    return None if offset is None else (int(offset[0]), int(offset[1]))


def percentile(values: Sequence[float], q: float) -> float:
    """A percentile, interpolated between two values; nan of no values.

    >>> percentile([1.0, 2.0, 3.0, 5.0], 50)
    2.5
    """
    if not values:
        return math.nan
    ordered = sorted(values)
    place = (len(ordered) - 1) * q / 100
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)
