"""The handle that a user's `StatefulProcessor` gets: PySpark's own public classes, over state in this process.

PySpark's handle calls a server in the JVM for everything. This one is of the same class, so that user code and checks of types see no
difference, and so are the states it returns. Errors have the conditions and messages of Spark's server.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator
from typing import NoReturn

from pyspark.errors import PySparkRuntimeError
from pyspark.sql.streaming.stateful_processor import ListState, MapState, StatefulProcessorHandle, ValueState
from pyspark.sql.types import StructType

from binshift.operators.processor.operator import TimeMode
from binshift.operators.processor.variables import Kind

Schema = StructType | str


class Phase(enum.Enum):
    """What is done with a handle; the values are Spark's names."""

    CREATED = "CREATED"
    PRE_INIT = "PRE_INIT"
    INITIALIZED = "INITIALIZED"


def fail(doing: str, reason: str) -> NoReturn:
    """Raise the error with which PySpark reports that its server has refused something."""
    raise PySparkRuntimeError(f"Error {doing}: {reason}")


class Handle(StatefulProcessorHandle):
    """Checks what the user requests, by Spark's rules; what is done with it is up to its subclasses.

    Args:
        time: the processor's time mode.
        phase: at the beginning.
    """

    def __init__(self, time: TimeMode, phase: Phase) -> None:
        self._time = time
        self._first = phase
        self.phase = phase
        self._known: set[tuple[Kind, str]] = set()

    def getValueState(self, stateName: str, schema: Schema, ttlDurationMs: int | None = None) -> ValueState:
        """See PySpark."""
        self._define(Kind.VALUE, stateName, ttlDurationMs)
        return self._value(stateName, schema, ttlDurationMs)

    def getListState(self, stateName: str, schema: Schema, ttlDurationMs: int | None = None) -> ListState:
        """See PySpark."""
        self._define(Kind.LIST, stateName, ttlDurationMs)
        return self._list(stateName, schema, ttlDurationMs)

    def getMapState(
        self,
        stateName: str,
        userKeySchema: Schema,
        valueSchema: Schema,
        ttlDurationMs: int | None = None,
    ) -> MapState:
        """See PySpark."""
        self._define(Kind.MAP, stateName, ttlDurationMs)
        return self._map(stateName, userKeySchema, valueSchema, ttlDurationMs)

    def deleteIfExists(self, stateName: str) -> None:
        """See PySpark."""
        self._check_phase("deleting state", "delete_if_exists")
        self._known -= {(kind, stateName) for kind in Kind}
        self._forget(stateName)

    def registerTimer(self, expiryTimestampMs: int) -> None:
        """See PySpark."""
        self.check_timers("register timer", "register_timer")

    def deleteTimer(self, expiryTimestampMs: int) -> None:
        """See PySpark."""
        self.check_timers("deleting timer", "delete_timer")

    def listTimers(self) -> Iterator[int]:
        """See PySpark."""
        self.check_timers("listing timers", "list_timers")
        return iter(())

    def _value(self, name: str, schema: Schema, ttl_ms: int | None) -> ValueState:
        raise NotImplementedError

    def _list(self, name: str, schema: Schema, ttl_ms: int | None) -> ListState:
        raise NotImplementedError

    def _map(self, name: str, user_key: Schema, schema: Schema, ttl_ms: int | None) -> MapState:
        raise NotImplementedError

    def _forget(self, name: str) -> None:
        raise NotImplementedError

    def _define(self, kind: Kind, name: str, ttl_ms: int | None) -> None:
        doing = f"initializing {kind.value} state"
        if (kind, name) in self._known:
            fail(doing, f"{kind.value.capitalize()} state {name} already exists")
        self._check_phase(doing, f"get_{kind.value}_state")
        if any(other == name for _, other in self._known):
            fail(
                doing,
                f"[STATEFUL_PROCESSOR_DUPLICATE_STATE_VARIABLE_DEFINED] State variable with name {name} has already been "
                "defined in the StatefulProcessor.",
            )
        if ttl_ms:
            self._check_ttl(doing, name, ttl_ms)
        self._known.add((kind, name))

    def _check_ttl(self, doing: str, name: str, ttl_ms: int) -> None:
        if self._time is not TimeMode.PROCESSING:
            fail(
                doing,
                f"[STATEFUL_PROCESSOR_INCORRECT_TIME_MODE_TO_ASSIGN_TTL] Cannot use TTL for state={name} in "
                f"timeMode={self._time.value}, use TimeMode.ProcessingTime() instead.",
            )
        if ttl_ms < 0:
            fail(
                doing,
                "[STATEFUL_PROCESSOR_TTL_DURATION_MUST_BE_POSITIVE] TTL duration must be greater than zero for State store "
                f"operation=update on state={name}.",
            )

    def _check_phase(self, doing: str, operation: str) -> None:
        if self.phase is not self._first:
            self._refuse_phase(doing, operation)

    def check_timers(self, doing: str, operation: str) -> None:
        """Refuse an operation on timers where there are none, or before a key's turn."""
        if self._time is TimeMode.NONE:
            fail(
                doing,
                "[STATEFUL_PROCESSOR_CANNOT_PERFORM_OPERATION_WITH_INVALID_TIME_MODE] Failed to perform stateful processor "
                f"operation={operation} with invalid timeMode={self._time.value}",
            )
        if self.phase is not Phase.INITIALIZED:
            self._refuse_phase(doing, operation)

    def _refuse_phase(self, doing: str, operation: str) -> NoReturn:
        fail(
            doing,
            "[STATEFUL_PROCESSOR_CANNOT_PERFORM_OPERATION_WITH_INVALID_HANDLE_STATE] Failed to perform stateful processor "
            f"operation={operation} with invalid handle state={self.phase.value}.",
        )
