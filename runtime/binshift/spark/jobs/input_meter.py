"""Measures what the epochs of a query read and how long they take, and bounds the next ones by it.

Spark's progress reports are the source: rows that were read, before the program filters or aggregates them, and the time of a whole
trigger. They come one epoch late, which is soon enough: an epoch can be `GROWTH_MAX` times the largest known one at most.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from pyspark.sql import DataFrame

from binshift.engine.timings import EpochTimings
from binshift.epoch_costs import FIRST_ROWS, EpochCosts, EpochLoad, bound_rows, shares
from binshift.load import Load, load_of
from binshift.model import Epoch
from binshift.spark.session.jvm import Jvm, java_session

PERIOD_SECONDS = 0.2
"""Shorter epochs are read together: a call of the JVM takes part of a millisecond."""

CHANGE_MIN = 0.05
"""Smaller changes of a bound are not worth a call."""

OVERHEAD = ("plan", "record", "task_commit")
"""Parts of an epoch that its rows change little."""

LOADS_KEPT = 1024
"""Epochs behind the load: more than there are in the longest of its windows."""
RECENT = 64
"""Epochs that show how the input is divided among the sources."""


@dataclass
class InputMeter:
    """The input of one query.

    Attributes:
        limits: `SourceLimits` in the JVM.
        max_epoch: how long an epoch should take at most, in seconds; None: no bound. In force from the next epoch on.
        fixed: the program has chosen that for this query, and no request changes it.
        requested: how long an epoch should take at most by the Spark conf or the newest request.
        costs: of its epochs.
        loads: of the newest epochs, ascending.
        bounded: indexes of the sources that can be bounded.
        bound: rows of the next epoch; None: no bound.
    """

    limits: Any
    max_epoch: float | None
    fixed: bool = False
    requested: float | None = None
    costs: EpochCosts = field(default_factory=EpochCosts)
    loads: deque[EpochLoad] = field(default_factory=lambda: deque(maxlen=LOADS_KEPT))
    bounded: frozenset[int] = frozenset()
    bound: int | None = None
    _read_at: float = 0.0
    _timings: dict[Epoch, tuple[EpochTimings, int | None]] = field(default_factory=dict)
    _set: list[int] = field(default_factory=list)
    _limited: bool = field(init=False)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self._limited = self.max_epoch is not None

    @classmethod
    def of(
        cls, jvm: Jvm, source: DataFrame, query: str, workers: int, max_epoch: float | None, requested: float | None
    ) -> InputMeter:
        """Of the query with that id, which starts next: its first batch has the whole backlog and is bounded, too."""
        first = 0 if max_epoch is None else FIRST_ROWS * workers
        limits = jvm.bridge.sourceLimits(java_session(source.sparkSession), query, first)
        return cls(limits, max_epoch, max_epoch != requested, requested)

    def request(self, max_epoch: float | None) -> None:
        """Epochs should take so many seconds at most from now on; None: no bound. Any thread can call it."""
        self.requested = max_epoch
        if not self.fixed:
            self.max_epoch = max_epoch

    def epoch(self, timings: EpochTimings) -> None:
        """An epoch is recorded; its thread calls this before the next one is made."""
        self._timings[timings.epoch] = (timings, self.bound)
        if timings.committed_at - self._read_at < PERIOD_SECONDS:
            return
        self._read_at = timings.committed_at
        can_be_bounded, *reports = str(self.limits.report(timings.epoch)).splitlines()
        self.bounded = frozenset(i for i, each in enumerate(can_be_bounded) if each == "1")
        for each in reports:
            self._add(each.split("\t"))
        max_epoch = self.max_epoch
        if max_epoch is None:
            self._release()
        elif self.bounded:
            self._limit(bound_rows(self.costs, max_epoch, _workers(timings)), len(can_be_bounded))

    def load(self, now: float) -> Load:
        """How loaded the query is; any thread can ask. ``now``: seconds since 1970."""
        with self._lock:
            return load_of(tuple(self.loads), self.costs, now)

    def close(self) -> None:
        """The query has ended."""
        with suppress(Exception):  # any py4j error: Spark may have ended
            self.limits.close()

    def _add(self, report: Sequence[str]) -> None:
        batch, began, milliseconds, *sources = report
        timings, bound = self._timings.pop(Epoch(int(batch)), (None, None))
        if timings is None:
            return
        for older in [each for each in self._timings if each < timings.epoch]:
            del self._timings[older]
        rows, behind = zip(*(map(int, each.split(" ")) for each in sources), strict=True)
        known = [each for each in behind if each >= 0]
        seconds = int(milliseconds) / 1000
        load = EpochLoad(
            timings.epoch,
            datetime.fromisoformat(began).timestamp() + seconds,
            seconds,
            rows,
            _workers(timings),
            disturbed=timings.moving or timings.runs > 1,
            behind=sum(known) if known else None,
            bound=bound,
            overhead=sum(timings.seconds.get(part, 0.0) for part in OVERHEAD),
        )
        with self._lock:
            self.loads.append(load)
            self.costs.add(load)

    def _release(self) -> None:
        """No bound any more, if there was one."""
        if self._limited:
            self.limits.release()
            self._limited, self._set, self.bound = False, [], None

    def _limit(self, rows: int, sources: int) -> None:
        self._limited = True
        recent = list(self.loads)[-RECENT:]
        came = [sum(each.rows[source] for each in recent) for source in range(sources)]
        parts = shares(rows, came, self.bounded)
        for source in self.bounded:
            before = self._set[source] if self._set else 0
            if abs(parts[source] - before) > CHANGE_MIN * before:
                self.limits.limit(source, parts[source])
            else:
                parts[source] = before
        self._set, self.bound = parts, sum(parts)


def _workers(timings: EpochTimings) -> int:
    return max((each.workers for each in timings.operators), default=1)
