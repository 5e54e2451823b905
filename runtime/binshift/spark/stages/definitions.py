"""What a processor's ``init`` defines, found out on the driver: its state variables, with schemas given as DDL parsed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.streaming.stateful_processor import ListState, MapState, ValueState
from pyspark.sql.types import StructType

from binshift.errors import InvalidQuery
from binshift.operators.processor.operator import TimeMode
from binshift.operators.processor.variables import Kind, Variable, inner_schema
from binshift.spark.tasks.processor_calls import unpickled
from binshift.spark.tasks.processor_handle import Handle, Phase, Schema
from binshift.spark.tasks.processor_states import List, Map, Value


@dataclass(frozen=True)
class Definitions:
    """A processor's state.

    Attributes:
        variables: numbered by their names' order.
        parsed: by DDL text, the schema.
    """

    variables: tuple[Variable, ...]
    parsed: Mapping[str, StructType]


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
            Variable(number, name, kind, schema, user_key, ttl_ms)
            for number, (name, (kind, schema, user_key, ttl_ms)) in enumerate(named)
        ),
        handle.parsed,
    )


class _DriverHandle(Handle):
    def __init__(self, time: TimeMode) -> None:
        super().__init__(time, Phase.PRE_INIT)
        self.found: dict[str, tuple[Kind, pa.Schema, pa.Schema | None, int | None]] = {}
        self.parsed: dict[str, StructType] = {}

    def _value(self, name: str, schema: Schema, ttl_ms: int | None) -> ValueState:
        self.found[name] = Kind.VALUE, self._arrow(schema), None, ttl_ms or None
        return Value(name, None, self._schema(schema))

    def _list(self, name: str, schema: Schema, ttl_ms: int | None) -> ListState:
        self.found[name] = Kind.LIST, self._arrow(schema), None, ttl_ms or None
        return List(name, None, self._schema(schema))

    def _map(self, name: str, user_key: Schema, schema: Schema, ttl_ms: int | None) -> MapState:
        self.found[name] = Kind.MAP, self._arrow(schema), self._arrow(user_key), ttl_ms or None
        return Map(name, None, self._schema(user_key), self._schema(schema))

    def _forget(self, name: str) -> None:
        self.found.pop(name, None)

    def _arrow(self, schema: Schema) -> pa.Schema:
        return inner_schema(to_arrow_schema(self._schema(schema), timezone="UTC"))

    def _schema(self, schema: Schema) -> StructType:
        if not isinstance(schema, str):
            return schema
        if schema not in self.parsed:
            self.parsed[schema] = _struct(schema)
        return self.parsed[schema]


def _struct(ddl: str) -> StructType:
    parsed = StructType.fromDDL(ddl)
    if not isinstance(parsed, StructType):
        raise InvalidQuery(
            f"a state variable has the schema {ddl!r}, a single type; name its columns, as in 'value long'"
        )
    return parsed
