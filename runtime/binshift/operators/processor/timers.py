"""Timers: moments that a key has registered, each of which fires once.

Each timer is an index row by time, which finds the ones that are due, and a place in the row that lists the timers of its key. They
fire after all input of an epoch, if their time is at or before the batch's time, or the watermark, including those registered in
the epoch itself. Which fire is decided before the first one does: what is registered then waits for the next epoch.
"""

from __future__ import annotations

from collections import Counter
from itertools import chain

import numpy as np
import pyarrow as pa

from binshift import binary
from binshift.model import BinSet
from binshift.operators.contract import EpochState, prefixed
from binshift.operators.first_times import TIME_BYTES, times_of
from binshift.operators.processor.due import due_rows
from binshift.operators.processor.keygroup import NO_KEYS, KeyGroup, Turn
from binshift.operators.processor.layout import TIMERS_OF_KEY_SPACE, timer_keys
from binshift.operators.processor.view import EpochView

Due = tuple[int, bytes, int]
"""A timer: its time in milliseconds, the packed key, the bin."""


class Timers:
    """The timers of a group of keys.

    Args:
        view: the epoch's state.
        turn: the key whose turn it is.
        counts: gets the numbers of calls, by the names of Spark's custom metrics.
    """

    def __init__(self, view: EpochView, turn: Turn, counts: Counter[str]) -> None:
        self._view = view
        self._counts = counts
        self._turn = turn
        self._group = NO_KEYS
        self._stored: list[bytes | None] | None = None
        self._now: dict[int, list[int]] = {}

    def bind(self, group: KeyGroup) -> None:
        """Work on another group; the changes of the one before are written."""
        self._group, self._stored = group, None

    def times(self) -> list[int]:
        """The key's timers, ascending."""
        at = self._turn.at
        return list(self._now[at]) if at in self._now else self._before(at)

    def register(self, time_ms: int) -> None:
        """Add a timer; one that is registered already stays as it is."""
        self._counts["numRegisteredTimers"] += 1
        times = self.times()
        if time_ms not in times:
            self._now[self._turn.at] = sorted([*times, time_ms])

    def delete(self, time_ms: int) -> None:
        """Remove a timer, if it is registered."""
        self._counts["numDeletedTimers"] += 1
        times = self.times()
        if time_ms in times:
            times.remove(time_ms)
            self._now[self._turn.at] = times

    def flush(self) -> None:
        """Write the group's changes."""
        if not self._now:
            return
        group, now = self._group, self._now
        places = np.fromiter(now, dtype=np.int32, count=len(now))
        lists = [np.array(times, dtype="<i8").tobytes() if times else None for times in now.values()]
        keys = prefixed(TIMERS_OF_KEY_SPACE, group.packed.take(pa.array(places)))
        self._view.put(group.bins_at(places), keys, binary.of(lists))
        before = {at: set(self._before(at)) for at in now}
        self._index({at: before[at].difference(times) for at, times in now.items()}, present=False)
        self._index({at: set(times) - before[at] for at, times in now.items()}, present=True)
        self._now = {}

    def _index(self, times: dict[int, set[int]], *, present: bool) -> None:
        counts = [len(each) for each in times.values()]
        places = np.repeat(np.fromiter(times, dtype=np.int32, count=len(times)), counts)
        flat = pa.array(list(chain.from_iterable(times.values())), pa.int64())
        keys = timer_keys(flat, self._group.packed.take(pa.array(places)))
        value = pa.scalar(b"" if present else None, pa.binary())
        self._view.put(self._group.bins_at(places), keys, pa.repeat(value, len(places)))

    def _before(self, at: int) -> list[int]:
        if self._stored is None:
            keys = prefixed(TIMERS_OF_KEY_SPACE, self._group.packed)
            self._stored = self._view.get(self._group.bins, keys).to_pylist()
        found = self._stored[at]
        times: list[int] = [] if found is None else np.frombuffer(found, dtype="<i8").tolist()
        return times


def due_timers(state: EpochState, owned: BinSet, threshold_ms: int) -> list[Due]:
    """The timers that are due, by time and key."""
    found = due_rows(state, state.times.timers, owned, threshold_ms)
    times = times_of(np.frombuffer(b"".join(key[1 : 1 + TIME_BYTES] for _, key in found), dtype=np.uint8)).tolist()
    return sorted((time_ms, key[1 + TIME_BYTES :], bin) for time_ms, (bin, key) in zip(times, found, strict=True))
