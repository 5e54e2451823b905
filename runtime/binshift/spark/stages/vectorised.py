"""`vectorised(function)`: a stateful function of many keys at once, where PySpark calls one for each key.

PySpark's ``applyInPandasWithState`` takes it in the place of an ordinary function, and its schemas, checks and plan node are
PySpark's. The node's pickled function is a `Vectorised`, by which binshift recognises it.
"""

from __future__ import annotations

import itertools
from typing import Any, cast

from pyspark import cloudpickle

from binshift.errors import InvalidQuery, Unsupported
from binshift.operators.vectorised import StateFunction

_NUMBERS = itertools.count()
_MADE: dict[int, Vectorised] = {}
"""By number; for the life of the driver, as the plans that refer to them."""


class Vectorised:
    """A function for ``applyInPandasWithState`` that binshift calls for many keys at once; made by `vectorised`.

    It is pickled as a number: what PySpark keeps in the plan is small, whatever the function refers to. PySpark would make
    a broadcast variable, which a driver cannot unpickle, of more than a megabyte.
    """

    def __init__(self, function: StateFunction) -> None:
        self.function = function
        self._number = next(_NUMBERS)
        _MADE[self._number] = self

    def __reduce__(self) -> tuple[Any, ...]:
        """Its number."""
        return _made, (self._number,)

    def __call__(self, key: object, rows: object, state: object) -> Any:
        """PySpark's form of the call; only Spark itself makes it."""
        raise Unsupported("a vectorised function runs in binshift only: start the query with binshift.writeStream(df)")


def _made(number: int) -> Vectorised:
    """The function of that number; elsewhere than in its driver, one that only raises an error."""
    return _MADE[number] if number in _MADE else object.__new__(Vectorised)


def vectorised(function: StateFunction) -> Vectorised:
    """Mark a function as one of many keys at once, for ``applyInPandasWithState``.

    ``function(keys, rows, state) -> (output, state)`` is called for groups of bins with all keys that got rows: ``keys``
    (a `pyarrow.RecordBatch`, each key once), ``rows`` (all columns, grouped by key) and ``state`` (key and state columns
    of the keys that have a state). It returns output rows and the new state; a key without a row in the new state loses its
    state. It must be deterministic: an epoch may run again.

    With a timeout, ``keys`` has two more columns: ``timed_out``, whether the key gets this call because it has timed out and has no
    rows, and ``now``, the time of the batch or the watermark. ``state`` and the new state have a last column ``timeout``
    (`pyarrow.int64`): the key times out when ``now`` is later; null means never. All are milliseconds since 1970. A timeout stays
    until the function returns another one, so a key with a timeout that has passed times out in every epoch.

    Strings are Spark's: bytes that need not be UTF-8. As in `DataFrame.mapInArrow`, most functions of
    `pyarrow.compute` take any bytes; `to_pylist` and `to_pandas` raise an error for a string that is not UTF-8.

    Args:
        function: must be picklable.

    Raises:
        InvalidQuery: it is not a function.
    """
    if not callable(function):
        raise InvalidQuery(f"vectorised got {function!r}, which is not a function")
    return Vectorised(function)


def vectorised_of(node: Any) -> StateFunction | None:
    """The vectorised function of Spark's ``FlatMapGroupsInPandasWithState``; None if it has an ordinary one."""
    command = bytes(node.functionExpr().func().command().unsafeArray())
    try:
        found = cast(Any, cloudpickle).loads(command)[0]
    except RuntimeError:  # broadcast variables, which only executors can unpickle; a vectorised function has none
        return None
    return found.function if isinstance(found, Vectorised) else None
