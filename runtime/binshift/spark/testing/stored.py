"""The state of a variable as values of Python."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from binshift.entries import Entries
from binshift.operators.decoding import decode
from binshift.operators.processor.decoding import variable_rows
from binshift.operators.processor.evolution import History
from binshift.operators.processor.variables import Kind


def values_of(history: History, keys: StructType, found: Iterable[Entries]) -> dict[tuple[Any, ...], Any]:
    """By key the value of a variable, the list of its elements, or the dictionary of its entries."""
    rows = variable_rows(history, to_arrow_schema(keys, timezone="UTC"))
    values: dict[tuple[Any, ...], Any] = {}
    for entries in found:
        key, *others = (column.to_pylist() for column in decode(rows, entries, 0).columns)
        for at, *user_key, value in zip(map(_tuple, key), *others, strict=True):
            one = _tuple(value["value"] if history.expires else value)
            match history.kind:
                case Kind.VALUE:
                    values[at] = one
                case Kind.LIST:
                    values.setdefault(at, []).append(one)
                case Kind.MAP:
                    values.setdefault(at, {})[_tuple(*user_key)] = one
    return values


def _tuple(struct: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple(struct.values())
