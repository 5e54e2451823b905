"""`vectorised(function)`: a stateful function of many keys at once, where PySpark calls one for each key.

PySpark's ``applyInPandasWithState`` takes it in the place of an ordinary function, and its schemas, checks and plan node are
PySpark's. The node's pickled function is a `Vectorised`, by which binshift recognises it.
"""

from __future__ import annotations

import itertools
import json
from typing import Any, cast

from pyspark import cloudpickle
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from binshift.errors import InvalidQuery, Unsupported
from binshift.operators.vectorised import StateFunction, VectorisedState
from binshift.spark.plan.catalyst import analyzed, sequence
from binshift.spark.plan.stage import RowsStage
from binshift.spark.stages.buffers import is_storable

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


def compile_vectorised(rows: DataFrame, node: Any, output_mode: str, bins: int) -> RowsStage:
    """Compile Spark's analysed ``FlatMapGroupsInPandasWithState`` of ``rows``.

    Raises:
        Unsupported: the function is not `vectorised`, a timeout, or a key of a type with an equality of its own (a map, a
            collated string).
        InvalidQuery: two columns have the same name, or the output modes differ.
    """
    function = _function(node)
    timeout = str(node.timeout())
    if timeout != "NoTimeout":
        raise Unsupported(f"applyInPandasWithState with {timeout}: timeouts are not supported yet; give it 'NoTimeout'")
    mode = str(node.outputMode()).lower()
    if mode != output_mode:
        raise InvalidQuery(
            f"applyInPandasWithState was given the output mode {mode!r}, and the writer {output_mode!r}; give both the same"
        )
    output, state = (StructType.fromJson(json.loads(each.json())) for each in (node.schema(), node.stateType()))
    keys_at = _key_positions(rows, node)
    keyed = StructType([rows.schema[at] for at in keys_at])
    _check_names(rows, keyed, state)
    zone = rows.sparkSession.conf.get("spark.sql.session.timeZone")
    schemas = (to_arrow_schema(StructType(list(each)), timezone=zone) for each in (keyed, rows.schema, state, output))
    described = f"keys {keyed.simpleString()}; state {state.simpleString()}"
    operator, text = VectorisedState(function, *schemas), f"vectorised: {described}"
    return RowsStage("applyInPandasWithState", operator, keys_at, output, bins, text, stored=operator.stored())


def _function(node: Any) -> StateFunction:
    command = bytes(node.functionExpr().func().command().unsafeArray())
    try:
        found = cast(Any, cloudpickle).loads(command)[0]
    except RuntimeError:  # broadcast variables, which only executors can unpickle; a vectorised function has none
        found = None
    if not isinstance(found, Vectorised):
        raise Unsupported(
            "applyInPandasWithState calls its function once a key, which is not supported yet; give it "
            "binshift.vectorised(function), which gets the rows and states of many keys as Arrow tables"
        )
    return found.function


def _key_positions(rows: DataFrame, node: Any) -> tuple[int, ...]:
    known = [attribute.exprId().id() for attribute in sequence(analyzed(rows).output())]
    keys = tuple(known.index(attribute.exprId().id()) for attribute in sequence(node.groupingAttributes()))
    for key in (rows.schema[at] for at in keys):
        if not is_storable(key.dataType):
            raise Unsupported(
                f"applyInPandasWithState groups by {key.name!r}, a key of type {key.dataType.simpleString()}; "
                "group by a string made of it"
            )
    return keys


def _check_names(rows: DataFrame, keys: StructType, state: StructType) -> None:
    names: list[str] = rows.columns
    for where, given in (("the rows", names), ("keys and state", [*keys.names, *state.names])):
        repeated = sorted({name for name in given if given.count(name) > 1})
        if repeated:
            raise InvalidQuery(f"{where} of a vectorised function have several columns named {repeated}; rename them")
