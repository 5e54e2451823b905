"""What a processor's ``init`` defines, found out on the driver: its state variables, with schemas given as DDL parsed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import cast

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.streaming.stateful_processor import ListState, MapState, ValueState
from pyspark.sql.types import DataType, StructType

from binshift.errors import InvalidQuery
from binshift.operators.processor.evolution import Rules, Wanted, evolve, variables_of
from binshift.operators.processor.operator import TimeMode
from binshift.operators.processor.variables import Kind, Variable
from binshift.spark.tasks.processor_calls import unpickled
from binshift.spark.tasks.processor_handle import Handle, Phase, Schema
from binshift.spark.tasks.processor_states import List, Map, Value

Parse = Callable[[str], DataType]
"""Makes a schema of a text."""


@dataclass(frozen=True)
class Definitions:
    """A processor's state.

    Attributes:
        wanted: the variables, by name.
        deleted: names that ``init`` deletes and does not define again.
        parsed: by DDL text, the schema.
        schemas: by variable, the user's schema of what it holds, and that of a map's keys.
    """

    wanted: tuple[Wanted, ...]
    deleted: frozenset[str]
    parsed: Mapping[str, StructType]
    schemas: Mapping[str, tuple[StructType, StructType | None]]

    @cached_property
    def variables(self) -> tuple[Variable, ...]:
        """Those of a query without state, numbered by their names' order."""
        return variables_of(evolve((), self.wanted, (), Rules()), self.wanted)


def defined(command: bytes, time: TimeMode, parse: Parse = StructType.fromDDL) -> Definitions:
    """Call ``init`` and ``close`` of a new instance of a processor.

    Args:
        command: the pickled processor.
        time: the mode.
        parse: of schemas given as DDL; Spark's own needs a session.

    Raises:
        PySparkRuntimeError: Spark's own: a variable is defined twice, a time to live without processing time, and the like.
        Exception: whatever the user's code raises.
    """
    processor, handle = unpickled(command), _DriverHandle(time, parse)
    processor.init(handle)
    processor.close()
    wanted = tuple(handle.found[name] for name in sorted(handle.found))
    schemas = {name: handle.schemas[name] for name in handle.found}
    return Definitions(wanted, frozenset(handle.deleted - handle.found.keys()), handle.parsed, schemas)


class _DriverHandle(Handle):
    def __init__(self, time: TimeMode, parse: Parse) -> None:
        super().__init__(time, Phase.PRE_INIT)
        self._parse = parse
        self.found: dict[str, Wanted] = {}
        self.schemas: dict[str, tuple[StructType, StructType | None]] = {}
        self.deleted: set[str] = set()
        self.parsed: dict[str, StructType] = {}

    def _value(self, name: str, schema: Schema, ttl_ms: int | None) -> ValueState:
        return Value(name, None, self._record(name, Kind.VALUE, schema, ttl_ms)[0])

    def _list(self, name: str, schema: Schema, ttl_ms: int | None) -> ListState:
        return List(name, None, self._record(name, Kind.LIST, schema, ttl_ms)[0])

    def _map(self, name: str, user_key: Schema, schema: Schema, ttl_ms: int | None) -> MapState:
        values, keys = self._record(name, Kind.MAP, schema, ttl_ms, user_key)
        return Map(name, None, cast(StructType, keys), values)

    def _record(
        self, name: str, kind: Kind, schema: Schema, ttl_ms: int | None, user_key: Schema | None = None
    ) -> tuple[StructType, StructType | None]:
        found = self._schema(schema), None if user_key is None else self._schema(user_key)
        values, keys = (None if each is None else _arrow(each) for each in found)
        self.schemas[name] = found
        self.found[name] = Wanted(name, kind, cast(pa.Schema, values), keys, ttl_ms or None)
        return found

    def _forget(self, name: str) -> None:
        self.found.pop(name, None)
        self.deleted.add(name)

    def _schema(self, schema: Schema) -> StructType:
        if not isinstance(schema, str):
            return schema
        if schema not in self.parsed:
            self.parsed[schema] = self._struct(schema)
        return self.parsed[schema]

    def _struct(self, ddl: str) -> StructType:
        parsed = self._parse(ddl)
        if not isinstance(parsed, StructType):
            raise InvalidQuery(
                f"a state variable has the schema {ddl!r}, a single type; name its columns, as in 'value long'"
            )
        return parsed


def _arrow(schema: StructType) -> pa.Schema:
    return to_arrow_schema(schema, timezone="UTC", prefers_large_types=False)
