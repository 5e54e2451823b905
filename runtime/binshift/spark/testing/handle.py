"""The handle of a tester: one key at a time, over state in memory, with the stored forms of a query's state."""

from __future__ import annotations

import operator
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.errors import PySparkAssertionError, PySparkValueError
from pyspark.errors.exceptions.base import IllegalArgumentException
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.streaming.stateful_processor import ListState, MapState, ValueState
from pyspark.sql.types import StructType

from binshift import binary
from binshift.entries import Entries, merge_last_wins
from binshift.model import Bin, BinSet, Epoch, IntArray
from binshift.operators.contract import EpochContext, EpochState
from binshift.operators.processor.keygroup import KeyGroup, Turn
from binshift.operators.processor.lists import Lists
from binshift.operators.processor.maps import Maps
from binshift.operators.processor.operator import TimeMode
from binshift.operators.processor.timers import Timers, due_timers
from binshift.operators.processor.ttl import end_expired
from binshift.operators.processor.values import Values
from binshift.operators.processor.variables import Kind, Variable, inner_schema
from binshift.operators.processor.view import EpochView
from binshift.spark.tasks.processor_handle import Handle, Phase, Schema
from binshift.spark.tasks.processor_states import List, Map, Value
from binshift.spark.testing.ddl import parse
from binshift.store.engine.memory_store import MemoryStore

KEY_BYTES = 8
WRITE_SECONDS_MAX = 1.0
OWNED = BinSet([0])


class KeyHandle(Handle):
    """A handle whose key is set from outside.

    Args:
        time: the processor's time mode.

    Attributes:
        watermark_ms: event-time timers must be later; milliseconds since 1970.
    """

    def __init__(self, time: TimeMode) -> None:
        super().__init__(time, Phase.CREATED)
        self.watermark_ms = 0
        self._store = MemoryStore()
        self._state = EpochState(_Reader(self._store))
        self._turn = Turn(0)
        self._view = EpochView(self._state)
        self._timers = Timers(self._view, self._turn, self._state.counts)
        self._stored: dict[str, Values | Lists | Maps] = {}
        self._states: dict[str, Value | List | Map] = {}
        self._keys: dict[Any, int] = {}
        self._group: KeyGroup | None = None
        self._defined = 0

    # ------------------------------------------------------------------------------------------ from the tester

    def setGroupingKey(self, key: Any) -> None:
        """Let the states be those of a key."""
        self.commit()
        number = self._keys.setdefault(key, len(self._keys))
        packed = binary.of([number.to_bytes(KEY_BYTES, "big")])
        self._group = KeyGroup(np.zeros(1, dtype=np.int32), packed)
        for each in (*self._stored.values(), self._timers):
            each.bind(self._group)

    def commit(self) -> None:
        """Store what has changed."""
        for each in (*self._stored.values(), self._timers):
            each.flush()
        if self._state.changes:
            with self._store.write(WRITE_SECONDS_MAX) as transaction:
                changes = merge_last_wins(self._state.changes)
                transaction.put_many(changes)
            self._state.times.change(changes, OWNED)
            self._state.changes.clear()
        if self._group is not None:
            for each in (*self._stored.values(), self._timers):
                each.bind(self._group)

    def set_time(self, time_ms: int) -> None:
        """It is this time; what has outlived its time to live is deleted."""
        self.commit()
        self._turn.time_ms = time_ms
        context = EpochContext(Epoch(0), time_ms, 0, 0, OWNED)
        end_expired(self._state, EpochView(self._state), self._stored, context)
        self.commit()

    def due(self, threshold_ms: int) -> list[tuple[int, Any]]:
        """The timers at or before a time, with their keys, by time."""
        self.commit()
        keys = list(self._keys)
        found = due_timers(self._state, OWNED, threshold_ms)
        return [(time_ms, keys[int.from_bytes(packed, "big")]) for time_ms, packed, _ in found]

    def state(self, name: str, kind: type[Any]) -> Any:
        """A state by its name; `AssertionError` if there is none of the kind."""
        found = self._states.get(name)
        assert isinstance(found, kind), f"State {name} has not been initialized."
        return found

    def delete_state(self, name: str) -> None:
        """Clear the key's state of a variable."""
        if name not in self._states:
            raise PySparkAssertionError(errorClass="STATE_NOT_EXISTS", messageParameters={})
        self._states[name].clear()

    # --------------------------------------------------------------------------------------- from the processor

    def getValueState(self, stateName: str, schema: Schema, ttlDurationMs: int | None = None) -> ValueState:
        """See PySpark; a state that exists is returned again."""
        found = self._states.get(stateName)
        return found if isinstance(found, Value) else super().getValueState(stateName, schema, ttlDurationMs)

    def getListState(self, stateName: str, schema: Schema, ttlDurationMs: int | None = None) -> ListState:
        """See PySpark; a state that exists is returned again."""
        found = self._states.get(stateName)
        return found if isinstance(found, List) else super().getListState(stateName, schema, ttlDurationMs)

    def getMapState(
        self,
        stateName: str,
        userKeySchema: Schema,
        valueSchema: Schema,
        ttlDurationMs: int | None = None,
    ) -> MapState:
        """See PySpark; a state that exists is returned again."""
        found = self._states.get(stateName)
        if isinstance(found, Map):
            return found
        return super().getMapState(stateName, userKeySchema, valueSchema, ttlDurationMs)

    def registerTimer(self, expiryTimestampMs: int) -> None:
        """See PySpark's tester."""
        self._check_timers()
        if self._time is TimeMode.EVENT and expiryTimestampMs <= self.watermark_ms:
            raise IllegalArgumentException(
                message=f"Cannot register timer with expiry {expiryTimestampMs} ms which is not later than the current watermark "
                f"{self.watermark_ms} ms."
            )
        self._timers.register(operator.index(expiryTimestampMs))

    def deleteTimer(self, expiryTimestampMs: int) -> None:
        """See PySpark's tester."""
        self._check_timers()
        self._timers.delete(operator.index(expiryTimestampMs))

    def listTimers(self) -> Iterator[int]:
        """See PySpark's tester."""
        self._check_timers()
        return iter(self._timers.times())

    def _check_timers(self) -> None:
        if self._time is TimeMode.NONE:
            raise PySparkValueError(
                errorClass="UNSUPPORTED_OPERATION", messageParameters={"operation": "Timers with TimeMode.None"}
            )

    def _value(self, name: str, schema: Schema, ttl_ms: int | None) -> ValueState:
        struct = parse(schema)
        values = Values(self._variable(Kind.VALUE, name, struct, ttl_ms), self._view, self._turn)
        made = Value(name, self._added(name, values), struct)
        self._states[name] = made
        return made

    def _list(self, name: str, schema: Schema, ttl_ms: int | None) -> ListState:
        struct = parse(schema)
        lists = Lists(self._variable(Kind.LIST, name, struct, ttl_ms), self._view, self._turn)
        made = List(name, self._added(name, lists), struct)
        self._states[name] = made
        return made

    def _map(self, name: str, user_key: Schema, schema: Schema, ttl_ms: int | None) -> MapState:
        key, struct = parse(user_key), parse(schema)
        maps = Maps(self._variable(Kind.MAP, name, struct, ttl_ms, key), self._view, self._turn)
        made = Map(name, self._added(name, maps), key, struct)
        self._states[name] = made
        return made

    def _forget(self, name: str) -> None:
        self._stored.pop(name, None)
        if name in self._states:
            self._states.pop(name).forget()

    def _variable(
        self, kind: Kind, name: str, schema: StructType, ttl_ms: int | None, key: StructType | None = None
    ) -> Variable:
        keys = None if key is None else _inner(key)
        self._defined += 1
        return Variable(self._defined, name, kind, _inner(schema), keys, ttl_ms or None)

    def _added(self, name: str, stored: Any) -> Any:
        self._stored[name] = stored
        if self._group is not None:
            stored.bind(self._group)
        return stored


def _inner(schema: StructType) -> pa.Schema:
    return inner_schema(to_arrow_schema(schema, timezone="UTC"))


class _Reader:
    """The rows as they are at the moment of each read."""

    def __init__(self, store: MemoryStore) -> None:
        self._store = store

    def get_many(self, bins: IntArray, keys: pa.BinaryArray) -> pa.BinaryArray:
        with self._store.read() as transaction:
            return transaction.get_many(bins, keys)

    def scan(self, bin: Bin, start: bytes = b"", stop: bytes | None = None) -> Iterator[Entries]:
        with self._store.read() as transaction:
            return iter(list(transaction.scan(bin, start, stop)))

    def scan_bins(self, bins: Sequence[Bin], start: bytes, stop: bytes) -> Iterator[Entries]:
        with self._store.read() as transaction:
            return iter(list(transaction.scan_bins(bins, start, stop)))

    def first_keys(self, bins: IntArray, space: bytes, length: int) -> list[bytes]:
        with self._store.read() as transaction:
            return transaction.first_keys(bins, space, length)
