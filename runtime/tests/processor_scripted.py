"""A processor whose methods are functions; for tests."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from processor_world import World, struct
from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle
from pyspark.sql.types import LongType, StringType

SEEN = struct(k=StringType(), seen=StringType())
N = struct(n=LongType())


class Scripted(StatefulProcessor):
    """Calls functions.

    Args:
        init: gets the processor and the handle.
        rows: gets the processor, the key, its rows and the times; returns what is seen.
        timer: the same for a timer's time.
    """

    def __init__(
        self,
        rows: Callable[..., Any] = lambda *_: None,
        init: Callable[..., Any] = lambda *_: None,
        timer: Callable[..., Any] = lambda *_: None,
    ) -> None:
        self.do_rows, self.do_init, self.do_timer = rows, init, timer

    def init(self, handle: StatefulProcessorHandle) -> None:
        self.handle = handle
        self.value = handle.getValueState("value", N)
        self.list = handle.getListState("list", N)
        self.map = handle.getMapState("map", N, N)
        self.do_init(self, handle)

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Row]:
        yield Row(k=key[0], seen=repr(self.do_rows(self, key, rows, timerValues)))

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Row]:
        seen = self.do_timer(self, key, expiredTimerInfo.getExpiryTimeInMs(), timerValues)
        yield Row(k=key.k, seen=repr(seen))


def seen(world: World, *rows: tuple[str, int | None], **epoch: Any) -> list[str]:
    """What an epoch has seen."""
    return [row["seen"] for row in world.epoch(rows or [("a", 1)], **epoch)]
