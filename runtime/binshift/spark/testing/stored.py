"""The state of a variable as values of Python."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from binshift.entries import Entries
from binshift.log.records.schemas import SchemasFile
from binshift.operators.decoding import decode
from binshift.operators.processor.evolution import Encoding, History
from binshift.operators.processor.variables import Kind
from binshift.state.variables import USER_KEY, to_schemas, variable_rows


def values_of(history: History, keys: StructType, found: Iterable[Entries]) -> dict[tuple[Any, ...], Any]:
    """By key the value of a variable, the list of its elements, or the dictionary of its entries."""
    schemas = to_schemas("op", Encoding.AVRO, to_arrow_schema(keys, timezone="UTC"), [history])
    (rows,) = variable_rows(SchemasFile(number=1, operators=(schemas,)), "op")
    values: dict[tuple[Any, ...], Any] = {}
    for entries in found:
        decoded = decode(rows, entries, 0)
        for key, value in zip(decoded.keys.to_pylist(), decoded.values.to_pylist(), strict=True):
            user_key = key.pop(USER_KEY) if history.kind is Kind.MAP else {}
            at, one = tuple(key.values()), tuple(value.values())
            match history.kind:
                case Kind.VALUE:
                    values[at] = one
                case Kind.LIST:
                    values.setdefault(at, []).append(one)
                case Kind.MAP:
                    values.setdefault(at, {})[tuple(user_key.values())] = one
    return values
