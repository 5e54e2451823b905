"""A processor that does what its rows request, and a dictionary that does the same; for tests."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from processor_world import struct
from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor
from pyspark.sql.types import LongType, StringType

OUTPUT = struct(k=StringType(), seen=StringType())
ASKED = struct(k=StringType(), op=StringType(), n=LongType())
ELEMENT, USER_KEY = struct(n=LongType(), s=StringType()), struct(u=StringType())

OPERATIONS = (
    *("value.set", "value.clear", "list.append", "list.put", "list.clear", "map.set", "map.remove", "map.clear"),
    *("timer.register", "timer.delete"),
)

Asked = tuple[str, str, int]
"""A key, what is done, and a number for it."""


class Obedient(StatefulProcessor):
    """Does what rows request, and returns everything it can see of the key's state after each.

    Args:
        ttl_ms: of all variables; None: they do not end.
    """

    def __init__(self, ttl_ms: int | None) -> None:
        self.ttl = ttl_ms

    def init(self, handle: Any) -> None:
        self.handle = handle
        self.value = handle.getValueState("value", ELEMENT, self.ttl)
        self.list = handle.getListState("list", ELEMENT, self.ttl)
        self.map = handle.getMapState("map", USER_KEY, ELEMENT, self.ttl)

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Row]:
        for row in rows:
            self.do(row.op, row.n, timerValues.getCurrentProcessingTimeInMs())
            yield self.seen(key[0])

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Row]:
        due = expiredTimerInfo.getExpiryTimeInMs()
        self.list.appendValue((due, "timer"))
        if due % 3 == 0:
            self.value.clear()
        yield self.seen(key.k)

    def do(self, op: str, n: int, now: int) -> None:
        match op:
            case "value.set":
                self.value.update((n, str(n)))
            case "value.clear":
                self.value.clear()
            case "list.append":
                self.list.appendList([(each, None) for each in range(n + 1)])
            case "list.put":
                self.list.put([(n, "put")] * (1 + n % 3))
            case "list.clear":
                self.list.clear()
            case "map.set":
                self.map.updateValue((f"u{n % 4}",), (n, "m"))
            case "map.remove":
                self.map.removeKey((f"u{n % 4}",))
            case "map.clear":
                self.map.clear()
            case "timer.register":
                self.handle.registerTimer(now + n)
            case "timer.delete":
                self.handle.deleteTimer(now + n)

    def seen(self, key: str) -> Row:
        """What is visible."""
        entries = sorted(self.map.iterator())
        point = [(f"u{n}", self.map.getValue((f"u{n}",)), self.map.containsKey((f"u{n}",))) for n in range(2)]
        exist = (self.value.exists(), self.list.exists(), self.map.exists())
        known = (self.value.get(), list(self.list.get()), entries, list(self.handle.listTimers()))
        return Row(k=key, seen=repr((known, [(u, None if v is None else tuple(v), c) for u, v, c in point], exist)))


Ending = tuple[tuple[Any, ...], float]
"""A tuple and when it ends."""


@dataclass
class State:
    """One key's."""

    value: Ending | None = None
    list: list[Ending] = field(default_factory=list)
    map: dict[str, Ending] = field(default_factory=dict)
    timers: set[int] = field(default_factory=set)


@dataclass
class Fold:
    """`Obedient` with a dictionary.

    Attributes:
        ttl: of all variables.
        states: by key.
        now: the batch's time.
    """

    ttl: int | None
    states: dict[str, State] = field(default_factory=dict)
    now: int = 0

    def epoch(self, rows: Sequence[Asked], now: int) -> list[dict[str, Any]]:
        """The output, in any order of keys."""
        self.now = now
        output = []
        for key, op, n in rows:
            self.do(self.states.setdefault(key, State()), op, n)
            output.append(self.seen(key))
        due = sorted((at, key) for key, state in self.states.items() for at in state.timers if at <= now)
        for at, key in due:
            state = self.states[key]
            state.list.append(self.ending(at, "timer"))
            if at % 3 == 0:
                state.value = None
            output.append(self.seen(key))
            state.timers.remove(at)
        return output

    def ending(self, *values: Any) -> Ending:
        """A tuple that was written now."""
        return values, float("inf") if self.ttl is None else self.now + self.ttl

    def do(self, state: State, op: str, n: int) -> None:
        match op:
            case "value.set":
                state.value = self.ending(n, str(n))
            case "value.clear":
                state.value = None
            case "list.append":
                state.list += [self.ending(each, None) for each in range(n + 1)]
            case "list.put":
                state.list = [self.ending(n, "put")] * (1 + n % 3)
            case "list.clear":
                state.list = []
            case "map.set":
                state.map[f"u{n % 4}"] = self.ending(n, "m")
            case "map.remove":
                state.map.pop(f"u{n % 4}", None)
            case "map.clear":
                state.map = {}
            case "timer.register":
                state.timers.add(self.now + n)
            case "timer.delete":
                state.timers.discard(self.now + n)

    def seen(self, key: str) -> dict[str, Any]:
        """What is visible."""
        state = self.states[key]
        value = None if state.value is None or state.value[1] <= self.now else state.value[0]
        elements = [each for each, ends in state.list if ends > self.now]
        entries = {u: each for u, (each, ends) in state.map.items() if ends > self.now}
        point = [(f"u{n}", entries.get(f"u{n}"), f"u{n}" in entries) for n in range(2)]
        known = (value, elements, sorted(((u,), each) for u, each in entries.items()), sorted(state.timers))
        return {"k": key, "seen": repr((known, point, (value is not None, bool(elements), bool(entries))))}
