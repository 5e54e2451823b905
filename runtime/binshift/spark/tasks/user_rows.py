"""PySpark's `Row`s and their values for users' code, made in a third of the time and read in a twentieth.

PySpark finds a column of a row by its name among all names, in Python, and sets the names of each row. Here the rows of one schema have a
class of their own, a subclass of `Row`, whose attributes are the columns. To the user's code they are `Row`s in all else.
"""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable, Iterable
from functools import lru_cache, partial
from typing import Any

import pandas as pd
import pyarrow as pa
from pyspark.sql.types import Row

SCHEMAS_MAX = 256
"""Classes that are kept, the newest ones."""


def row_maker(names: Iterable[str]) -> Callable[[Iterable[Any]], Row]:
    """What makes a row with these column names of its values, of which there must be as many.

    >>> make = row_maker(["key", "count"])
    >>> row = make((1, 2))
    >>> row, row.key, row["count"], row == Row(key=1, count=2)
    (Row(key=1, count=2), 1, 2, True)
    """
    return partial(tuple.__new__, _row_class(tuple(names)))


@lru_cache(SCHEMAS_MAX)
def _row_class(names: tuple[str, ...]) -> type[Row]:
    """A class of rows; names of `Row`'s own attributes, and names with two underscores, stay what they are in a `Row`."""
    places = [f"column{at}" for at in range(len(names))]
    # Its descriptors read any tuple, in C. The class must have a name here: without one it is garbage, and loses them.
    kind = namedtuple("Columns", places)  # type: ignore[misc]
    columns = {
        name: vars(kind)[place]
        for name, place in reversed([*zip(names, places, strict=True)])  # of equal names, the first counts
        if not (name.startswith("__") or hasattr(Row, name))
    }
    return type("Row", (Row,), {"__module__": Row.__module__, "__fields__": Row(*names), **columns})


def values_of(column: pa.Array) -> list[Any]:
    """The same as ``column.to_pylist()``; of timestamps in UTC, pandas makes the objects."""
    if column.type != pa.timestamp("us", "UTC"):
        return column.to_pylist()  # type: ignore[no-any-return]
    try:
        present = pd.DatetimeIndex(column.drop_null().to_numpy()).tz_localize(pa.lib.string_to_tzinfo("UTC"))
        times = iter(present.to_pydatetime().tolist())
    except ValueError:  # a year that Python does not have
        return column.to_pylist()  # type: ignore[no-any-return]
    return [next(times) if there else None for there in column.is_valid().to_pylist()]
