"""Processors and functions with states of programs whose state is adopted in tests; pickled by value, for executors."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pandas as pd
from pyspark import cloudpickle
from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

SEEN = "k string, n long, seen string"
TTL_MS = 1 << 40

cloudpickle.register_pickle_by_value(sys.modules[__name__])  # type: ignore[no-untyped-call]


class Remembering(StatefulProcessor):
    """Has a variable of each kind, and timers of event time; returns all that it sees.

    Args:
        ttl_ms: of all variables.
    """

    def __init__(self, ttl_ms: int | None = None) -> None:
        self.ttl = ttl_ms

    def init(self, handle: Any) -> None:
        self.handle = handle
        self.value = handle.getValueState("value", "n long, d decimal(6,2), t timestamp", self.ttl)
        self.list = handle.getListState("list", "v long, t timestamp", self.ttl)
        self.map = handle.getMapState("map", "u string", "n long, days array<date>", self.ttl)

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Row]:
        found = self.value.get() if self.value.exists() else (0, None, None)
        n = found[0]
        for row in rows:
            n += 1
            self.value.update((n, row.d, row.t))
            self.list.appendValue((row.v, row.t))
            entry = self.map.getValue((str(row.v % 3),)) if self.map.containsKey((str(row.v % 3),)) else None
            self.map.updateValue((str(row.v % 3),), ((entry[0] if entry else 0) + 1, [row.t.date()]))
            self.register(row)
        yield self.seen(key[0], n)

    def register(self, row: Any) -> None:
        """Register a timer."""
        self.handle.registerTimer(int((row.t + timedelta(seconds=20)).timestamp()) * 1000)

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Row]:
        yield self.seen(key[0], expiredTimerInfo.getExpiryTimeInMs())
        self.list.clear()
        self.map.removeKey(("1",))

    def seen(self, key: str, n: int) -> Row:
        """All of the key's state but for the timers of processing time."""
        entries = sorted((tuple(u), tuple(found)) for u, found in self.map.iterator())
        known = (self.value.get(), [tuple(each) for each in self.list.get()], entries)
        return Row(k=key, n=n, seen=repr(known))


class RememberingFrames(Remembering):
    """The same in pandas, with timers that are never due."""

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:
        for frame in rows:
            named = (Row(**each) for each in frame.assign(t=frame["t"].dt.to_pydatetime()).to_dict("records"))
            for row in super().handleInputRows(key, named, timerValues):
                yield pd.DataFrame([row.asDict()])

    def register(self, row: Any) -> None:
        self.handle.registerTimer(TTL_MS * 2 + row.v)


class Forgetful(Remembering):
    """Lacks a variable."""

    def init(self, handle: Any) -> None:
        super().init(handle)
        handle.deleteIfExists("list")


class Widened(Remembering):
    """Has a variable with another type."""

    def init(self, handle: Any) -> None:
        super().init(handle)
        handle.deleteIfExists("value")
        handle.getValueState("value", "n long, d decimal(7,2), t timestamp")


def counted(key: Any, frames: Iterator[Any], state: Any) -> Iterator[Any]:
    """Counts the rows of a key, whose state ends some time after its last row."""
    (n, d), latest = state.getOption or (0, None), pd.Timestamp(0)
    if state.hasTimedOut:
        yield pd.DataFrame({"k": [key[0]], "n": [n], "seen": [f"timed out {d}"]})
        state.remove()
        return
    for frame in frames:
        n, d = n + len(frame), frame["d"].iloc[-1]
        latest = frame["t"].max()
    state.update((n, d))
    if state._timeout_conf == "EventTimeTimeout":
        state.setTimeoutTimestamp(int(latest.timestamp() * 1000) + 15_000)
    yield pd.DataFrame({"k": [key[0]], "n": [n], "seen": [repr(d)]})
