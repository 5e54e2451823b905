"""The epochs of a query that reads the open-loop source, from Spark's own progress reports: calm times, a move, silence.

How latency is counted is `openloop`'s. Pure: progress reports are mappings, the same for Spark's queries and for binshift's.
"""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Any

from openloop import Span, longest_gap, worst

SOURCE = "OpenLoopSource"


@dataclass
class Latencies:
    """The epochs of a query, in their order; they never change."""

    spans: Sequence[Span] = ()

    def buckets(self) -> list[tuple[float, float]]:
        """(due time, worst latency) for every 250 ms of due time."""
        return self._buckets

    @cached_property
    def _buckets(self) -> list[tuple[float, float]]:
        return worst(self.spans)

    def calm(self, start: float, began: float) -> list[float]:
        """Latencies of rows due from ``start`` on and committed before ``began``."""
        return [latency for due, latency in self.buckets() if start <= due and due + latency <= began]

    def moving(self, began: float, ended: float) -> list[float]:
        """Latencies of rows that were not yet committed when it ``began``, or due until it ``ended``."""
        return [latency for due, latency in self.buckets() if began < due + latency and due < ended]

    def longest_silence(self, start: float, end: float) -> float:
        """The longest time between two commits that overlaps with ``start .. end``; nan without two commits."""
        pairs = itertools.pairwise(span.committed for span in self.spans)
        return max((b - a for a, b in pairs if b > start and a < end), default=math.nan)

    def usual_silence(self, start: float, end: float) -> float:
        """The longest time between two commits that lies within ``start .. end``; nan without two commits in it."""
        return longest_gap([span.committed for span in self.spans if start <= span.committed <= end])

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
    """(rows, start of the clock in ms), as the source writes it; None for none, which Spark writes in two ways."""
    pair = json.loads(text) if isinstance(text, str) else text
    return None if pair is None else (int(pair[0]), int(pair[1]))
