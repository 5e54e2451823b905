"""A processor's handle and states in a task: PySpark's public classes over `binshift.operators.processor`."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Generic, TypeVar, cast

from pyspark.sql.streaming.stateful_processor import ListState, MapState, ValueState
from pyspark.sql.types import Row, StructType

from binshift.invariants import invariant
from binshift.operators.processor.contract import DELETED_VARIABLES, StateOf, States
from binshift.operators.processor.lists import Lists
from binshift.operators.processor.maps import Maps
from binshift.operators.processor.operator import TimeMode
from binshift.operators.processor.timers import Timers
from binshift.operators.processor.values import Values
from binshift.spark.tasks.processor_handle import Handle, Phase, Schema, fail
from binshift.spark.tasks.processor_types import Tuple, to_python
from binshift.spark.tasks.stored_rows import Stored
from binshift.spark.tasks.user_rows import row_maker

Of = TypeVar("Of", bound=StateOf)
Made = TypeVar("Made", bound="Value | List | Map")
Stores = TypeVar("Stores", Tuple, list[Tuple])


class TaskHandle(Handle):
    """The handle in a task.

    Args:
        states: of the key whose turn it is.
        time: the processor's time mode.
        parsed: schemas that the user gave as DDL, which the driver has parsed.
    """

    def __init__(self, states: States, time: TimeMode, parsed: Mapping[str, StructType]) -> None:
        super().__init__(time, Phase.CREATED)
        self._states = states
        self._parsed = parsed
        self._states_made: dict[str, list[Value | List | Map]] = {}

    def registerTimer(self, expiryTimestampMs: int) -> None:
        """See PySpark."""
        super().registerTimer(expiryTimestampMs)
        self._timers.register(operator.index(expiryTimestampMs))

    def deleteTimer(self, expiryTimestampMs: int) -> None:
        """See PySpark."""
        super().deleteTimer(expiryTimestampMs)
        self._timers.delete(operator.index(expiryTimestampMs))

    def listTimers(self) -> Iterator[int]:
        """See PySpark."""
        super().listTimers()
        return iter(self._timers.times())

    @property
    def _timers(self) -> Timers:
        timers = self._states.timers
        invariant(timers is not None, "a processor with a time has timers")
        return cast(Timers, timers)

    def _value(self, name: str, schema: Schema, ttl_ms: int | None) -> ValueState:
        return self._made(Value(name, self._found(name, Values), self._schema(schema)))

    def _list(self, name: str, schema: Schema, ttl_ms: int | None) -> ListState:
        return self._made(List(name, self._found(name, Lists), self._schema(schema)))

    def _map(self, name: str, user_key: Schema, schema: Schema, ttl_ms: int | None) -> MapState:
        return self._made(Map(name, self._found(name, Maps), self._schema(user_key), self._schema(schema)))

    def _forget(self, name: str) -> None:
        made = self._states_made.pop(name, [])
        self._states.counts[DELETED_VARIABLES] += len(made)
        for each in made:
            each.forget()

    def _made(self, state: Made) -> Made:
        self._states_made.setdefault(state.name, []).append(state)
        return state

    def _found(self, name: str, of: type[Of]) -> Of | None:
        found = self._states.variables.get(name)
        return found if isinstance(found, of) else None

    def _schema(self, schema: Schema) -> StructType:
        if isinstance(schema, str) and schema not in self._parsed:
            fail("parsing string schema", f"init gave the schema {schema!r} in a task and not on the driver")
        return self._parsed[schema] if isinstance(schema, str) else schema


class Forgettable(Generic[Of]):
    """A state variable that may have been deleted.

    Args:
        kind: Spark's name of it, in errors.
        name: the user's.
        of: what is stored; None if the query has no such variable any more.
    """

    def __init__(self, kind: str, name: str, of: Of | None) -> None:
        self.name = name
        self._kind = kind
        self._of = of

    def forget(self) -> None:
        """The variable was deleted."""
        self._of = None

    def found(self, doing: str) -> Of:
        """What is stored."""
        if self._of is None:
            fail(doing, f"{self._kind} state {self.name} is not initialized.")
        return self._of


class Value(Forgettable[Values], ValueState):
    """See PySpark."""

    def __init__(self, name: str, values: Values | None, schema: StructType) -> None:
        super().__init__("Value", name, values)
        self._stored, self._python = Stored(schema), to_python(schema)

    def exists(self) -> bool:
        """See PySpark."""
        return self.found("checking value state exists").get() is not None

    def get(self) -> Tuple | None:
        """See PySpark."""
        value = self.found("getting value state").get()
        return value if value is None or self._python is None else self._python(value)

    def update(self, newValue: Tuple) -> None:
        """See PySpark."""
        self.found(UPDATING).set(_stored(UPDATING, self._stored, newValue))

    def clear(self) -> None:
        """See PySpark."""
        self.found("clearing value state").set(None)


class List(Forgettable[Lists], ListState):
    """See PySpark."""

    def __init__(self, name: str, lists: Lists | None, schema: StructType) -> None:
        super().__init__("List", name, lists)
        self._stored, self._python = Stored(schema), to_python(schema)
        if lists is not None:
            lists.convert = self._stored.converted

    def exists(self) -> bool:
        """See PySpark."""
        return self.found("checking value state exists").exists()

    def get(self) -> Iterator[Tuple]:
        """See PySpark."""
        elements = self.found("getting list state").get()
        return elements if self._python is None else map(self._python, elements)

    def put(self, newState: list[Tuple]) -> None:
        """See PySpark."""
        self.found(UPDATING).replace(self._elements(newState))

    def appendValue(self, newState: Tuple) -> None:
        """See PySpark."""
        self.found(UPDATING).append([_stored(UPDATING, self._stored, newState)])

    def appendList(self, newState: list[Tuple]) -> None:
        """See PySpark."""
        self.found(UPDATING).append(self._elements(newState))

    def clear(self) -> None:
        """See PySpark."""
        self.found("clearing value state").replace([])

    def _elements(self, given: Iterable[Tuple]) -> list[Tuple]:
        elements: list[Tuple] = _stored(UPDATING, self._stored.deferred, given)
        if not elements:
            fail(
                UPDATING,
                "[ILLEGAL_STATE_STORE_VALUE.EMPTY_LIST_VALUE] Illegal value provided to the State Store "
                f"Cannot write empty list values to State Store for StateName {self.name}.",
            )
        return elements


class Map(Forgettable[Maps], MapState):
    """See PySpark."""

    def __init__(self, name: str, maps: Maps | None, user_key: StructType, schema: StructType) -> None:
        super().__init__("Map", name, maps)
        self._key, self._python_key = Stored(user_key), to_python(user_key)
        self._stored, self._python = Stored(schema), to_python(schema)
        self._row = row_maker(schema.names)

    def exists(self) -> bool:
        """See PySpark."""
        return self.found("checking map state exists").exists()

    def getValue(self, key: Tuple) -> Row | None:
        """See PySpark; unlike other states, Spark's map returns a `Row`."""
        value = self.found("getting value").get(_stored("getting value", self._key, key))
        return None if value is None else self._row(value if self._python is None else self._python(value))

    def containsKey(self, key: Tuple) -> bool:
        """See PySpark."""
        doing = "checking if map state contains key"
        return self.found(doing).get(_stored(doing, self._key, key)) is not None

    def updateValue(self, key: Tuple, value: Tuple) -> None:
        """See PySpark."""
        doing = "updating map state value"
        self.found(doing).set(_stored(doing, self._key, key), _stored(doing, self._stored, value))

    def iterator(self) -> Iterator[tuple[Tuple, Tuple]]:
        """See PySpark."""
        for key, value in self.found("getting map state").items():
            yield (
                key if self._python_key is None else self._python_key(key),
                value if self._python is None else self._python(value),
            )

    def keys(self) -> Iterator[Tuple]:
        """See PySpark."""
        return (key for key, _ in self.iterator())

    def values(self) -> Iterator[Tuple]:
        """See PySpark."""
        return (value for _, value in self.iterator())

    def removeKey(self, key: Tuple) -> None:
        """See PySpark."""
        doing = "removing key from map state"
        self.found(doing).set(_stored(doing, self._key, key), None)

    def clear(self) -> None:
        """See PySpark."""
        self.found("clearing map state").clear()


UPDATING = "updating value state"


def _stored(doing: str, convert: Callable[[Any], Stores], value: Any) -> Stores:
    try:
        return convert(value)
    except ValueError as wrong:
        fail(doing, str(wrong))
