"""Rows of state variables on their way into the state: one by one, or many at once.

A column of many rows is compared with its type in a few calls, where to convert each value takes as long as all else that is done with it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import chain
from typing import Any

from pyspark.sql.streaming.stateful_processor_api_client import _normalize_state_value
from pyspark.sql.types import (
    BooleanType,
    ByteType,
    CharType,
    DataType,
    DoubleType,
    IntegerType,
    LongType,
    ShortType,
    StringType,
    StructType,
    VarcharType,
)

from binshift.spark.tasks.processor_types import Tuple, taken
from binshift.spark.tasks.state_values import WHOLE_NUMBER_BITS, Convert

_IMMUTABLE = frozenset({int, float, str, bool, None.__class__})
"""Values that can wait for their conversion."""


class Stored:
    """Converts users' rows, given as sequences of values, to their stored form.

    Args:
        schema: of the rows.

    >>> from pyspark.sql.types import StructField, StructType
    >>> stored = Stored(StructType([StructField("at", IntegerType()), StructField("name", StringType())]))
    >>> stored([1 << 31, True]), stored.converted([(1, "a"), (2, None)])
    ((-2147483648, 'true'), [(1, 'a'), (2, None)])
    """

    def __init__(self, schema: StructType) -> None:
        converts = [taken(field.dataType) for field in schema]
        inner = [field.dataType.toInternal if field.dataType.needConversion() else None for field in schema]
        self._steps = [
            take if to is None else partial(_both, to, take) for to, take in zip(inner, converts, strict=True)
        ]
        self._stay = [_staying(field.dataType) for field in schema]
        self._waits = None not in self._stay

    def __call__(self, values: Any) -> Tuple:
        """One row.

        Raises:
            ValueError: it has another number of values.
        """
        normal = tuple(values)
        if len(normal) != len(self._steps):
            raise ValueError(
                "Input row doesn't have expected number of values required by the schema. "
                f"{len(self._steps)} fields are required while {len(normal)} values are provided."
            )
        return tuple([step(value) for step, value in zip(self._steps, normal, strict=True)])

    def deferred(self, rows: Iterable[Any]) -> list[Tuple]:
        """Many rows, to be converted by `converted` later: now only if that could give another result.

        Raises:
            ValueError: as above.
        """
        given = list(map(tuple, rows))
        waits = self._waits and _IMMUTABLE.issuperset(map(type, chain.from_iterable(given)))
        return given if waits and set(map(len, given)) == {len(self._steps)} else list(map(self, given))

    def converted(self, rows: Sequence[Tuple]) -> list[Tuple]:
        """The rows that `deferred` has returned, converted; and converted ones as they are."""
        if not self._waits:
            return list(rows)
        columns = list(zip(*rows, strict=True))
        stays = [stay is not None and stay(column) for stay, column in zip(self._stay, columns, strict=False)]
        if all(stays):
            return list(rows)
        parts = zip(stays, self._steps, columns, strict=True)
        return list(zip(*(column if stays else map(step, column) for stays, step, column in parts), strict=True))


def _both(inner: Convert, take: Convert, value: Any) -> Any:
    return take(inner(_normalize_state_value(value)))


def _staying(kind: DataType) -> Callable[[Tuple], bool] | None:
    """Whether the JVM takes all of these values as they are; False if that is not certain.

    None for a type to which a value of `_IMMUTABLE` may be converted with an error, or with another result if it is already.
    """
    match kind:
        case LongType() | IntegerType() | ShortType() | ByteType():
            high = (1 << (WHOLE_NUMBER_BITS[kind.__class__] - 1)) - 1
            return lambda values: set(map(type, values)) == {int} and min(values) >= -high - 1 and max(values) <= high
        case StringType() | CharType() | VarcharType():
            return lambda values: {str, None.__class__}.issuperset(map(type, values))
        case DoubleType():
            return lambda values: set(map(type, values)) == {float}
        case BooleanType():
            return lambda values: {bool, None.__class__}.issuperset(map(type, values))
        case _:
            return None
