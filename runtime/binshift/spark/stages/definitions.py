"""What a processor's ``init`` defines, found out on the driver: its state variables, with schemas given as DDL parsed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.streaming.stateful_processor import ListState, MapState, ValueState
from pyspark.sql.types import StructType

from binshift.errors import InvalidQuery
from binshift.operators.processor.decoding import timer_rows, variable_rows
from binshift.operators.processor.operator import TimeMode
from binshift.operators.processor.variables import Kind, Variable, inner_schema
from binshift.operators.stored import StoredRows
from binshift.spark.tasks.processor_calls import unpickled
from binshift.spark.tasks.processor_handle import Handle, Phase, Schema
from binshift.spark.tasks.processor_states import List, Map, Value


@dataclass(frozen=True)
class Definitions:
    """A processor's state.

    Attributes:
        variables: numbered by their names' order.
        parsed: by DDL text, the schema.
        schemas: by variable, the user's schema of what it holds, and that of a map's keys.
    """

    variables: tuple[Variable, ...]
    parsed: Mapping[str, StructType]
    schemas: Mapping[str, tuple[StructType, StructType | None]]

    def stored(self, keys: pa.Schema, time: TimeMode) -> tuple[StoredRows, ...]:
        """The rows of each variable, and of timers if the processor can have them; ``keys`` are the grouping columns."""
        schemas = {
            name: (_arrow(schema), None if user_key is None else _arrow(user_key))
            for name, (schema, user_key) in self.schemas.items()
        }
        variables = tuple(variable_rows(each, keys, *schemas[each.name]) for each in self.variables)
        return variables if time is TimeMode.NONE else (*variables, timer_rows(keys))


def defined(command: bytes, time: TimeMode) -> Definitions:
    """Call ``init`` and ``close`` of a new instance of a processor.

    Raises:
        PySparkRuntimeError: Spark's own: a variable is defined twice, a time to live without processing time, and the like.
        Exception: whatever the user's code raises.
    """
    processor, handle = unpickled(command), _DriverHandle(time)
    processor.init(handle)
    processor.close()
    named = sorted(handle.found.items())
    return Definitions(
        tuple(
            Variable(
                number,
                name,
                kind,
                inner_schema(_arrow(schema)),
                None if user_key is None else inner_schema(_arrow(user_key)),
                ttl_ms,
            )
            for number, (name, (kind, schema, user_key, ttl_ms)) in enumerate(named)
        ),
        handle.parsed,
        {name: (schema, user_key) for name, (_, schema, user_key, _) in named},
    )


class _DriverHandle(Handle):
    def __init__(self, time: TimeMode) -> None:
        super().__init__(time, Phase.PRE_INIT)
        self.found: dict[str, tuple[Kind, StructType, StructType | None, int | None]] = {}
        self.parsed: dict[str, StructType] = {}

    def _value(self, name: str, schema: Schema, ttl_ms: int | None) -> ValueState:
        self.found[name] = Kind.VALUE, self._schema(schema), None, ttl_ms or None
        return Value(name, None, self._schema(schema))

    def _list(self, name: str, schema: Schema, ttl_ms: int | None) -> ListState:
        self.found[name] = Kind.LIST, self._schema(schema), None, ttl_ms or None
        return List(name, None, self._schema(schema))

    def _map(self, name: str, user_key: Schema, schema: Schema, ttl_ms: int | None) -> MapState:
        self.found[name] = Kind.MAP, self._schema(schema), self._schema(user_key), ttl_ms or None
        return Map(name, None, self._schema(user_key), self._schema(schema))

    def _forget(self, name: str) -> None:
        self.found.pop(name, None)

    def _schema(self, schema: Schema) -> StructType:
        if not isinstance(schema, str):
            return schema
        if schema not in self.parsed:
            self.parsed[schema] = _struct(schema)
        return self.parsed[schema]


def _arrow(schema: StructType) -> pa.Schema:
    return to_arrow_schema(schema, timezone="UTC")


def _struct(ddl: str) -> StructType:
    parsed = StructType.fromDDL(ddl)
    if not isinstance(parsed, StructType):
        raise InvalidQuery(
            f"a state variable has the schema {ddl!r}, a single type; name its columns, as in 'value long'"
        )
    return parsed
