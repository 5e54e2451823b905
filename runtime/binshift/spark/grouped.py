# ruff: noqa: N802, N803 (PySpark's own names, for methods and for their parameters)
"""`groupBy(...)` of a stateful frame: where the stateful operator is chosen.

An operator is analysed when it is chosen: Spark computes the result's columns and rejects invalid expressions with its own
errors. Aggregates that binshift does not support are found when the query starts, by `binshift.spark.aggregates`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import NumericType, StructType

from binshift.errors import InvalidQuery, Unsupported
from binshift.operators.vectorised import StateFunction
from binshift.spark.buffers import is_storable
from binshift.spark.definition import ArrowState, GroupedAggregation, Operator
from binshift.spark.stage import quoted
from binshift.spark.streaming_plan import opaque, positions
from binshift.spark.unsupported import GROUPED, unsupported

if TYPE_CHECKING:
    from binshift.spark.frame import StatefulFrame

SESSION_WINDOW_KEY = "spark.sessionWindow"
"""Spark's mark on a session_window column."""

DICT_FUNCTIONS = {"average": "avg", "mean": "avg", "size": "count"}
"""Names that `agg({column: name})` treats as aliases."""

OUTPUT_MODES = ("append", "update")


class StatefulGroupedData:
    """Rows grouped by keys, as `pyspark.sql.GroupedData`; made by `StatefulFrame.groupBy`.

    Args:
        frame: the stream.
        columns: the keys, unresolved.
        finish: makes the frame after the operator, from its analysed stand-in and the operator.
    """

    def __init__(
        self, frame: DataFrame, columns: tuple[Column, ...], finish: Callable[[DataFrame, Operator], StatefulFrame]
    ) -> None:
        self._frame = frame
        self._columns = columns
        self._finish = finish

    def agg(self, *exprs: Column | dict[str, str]) -> StatefulFrame:
        """As `GroupedData.agg`.

        Args:
            exprs: aggregates, or one dict of column name to function name.

        Raises:
            AnalysisException: Spark's own.
            Unsupported: a session window.
        """
        columns = self._from_dict(exprs[0]) if len(exprs) == 1 and isinstance(exprs[0], dict) else exprs
        wrong = [each for each in columns if not isinstance(each, Column)]
        if wrong or not columns:
            raise InvalidQuery(f"agg got {wrong[0] if wrong else 'nothing'!r}; it takes Columns, or one dict")
        aggregates = tuple(each for each in columns if isinstance(each, Column))
        analysed = self._frame.groupBy(*self._columns).agg(*aggregates)
        if any(SESSION_WINDOW_KEY in field.metadata for field in analysed.schema):
            raise Unsupported(
                "groupBy(session_window(...)) is not supported: not yet; use window, or applyInArrowWithState"
            )
        return self._finish(opaque(analysed), GroupedAggregation(self._columns, aggregates))

    def count(self) -> StatefulFrame:
        """As `GroupedData.count`."""
        return self.agg(F.count(F.lit(1)).alias("count"))

    def sum(self, *cols: str) -> StatefulFrame:
        """As `GroupedData.sum`."""
        return self._numeric(F.sum, cols)

    def avg(self, *cols: str) -> StatefulFrame:
        """As `GroupedData.avg`."""
        return self._numeric(F.avg, cols)

    mean = avg

    def min(self, *cols: str) -> StatefulFrame:
        """As `GroupedData.min`."""
        return self._numeric(F.min, cols)

    def max(self, *cols: str) -> StatefulFrame:
        """As `GroupedData.max`."""
        return self._numeric(F.max, cols)

    def applyInArrowWithState(
        self,
        func: StateFunction,
        outputStructType: StructType | str,
        stateStructType: StructType | str,
        outputMode: str,
        timeoutConf: str,
    ) -> StatefulFrame:
        """Keeps a state per key; ``func`` handles many keys at once, as Arrow tables.

        ``func(keys, rows, state) -> (output, state)`` is called for groups of bins with all keys that got rows: ``keys``
        (a `pyarrow.RecordBatch`, each key once), ``rows`` (all columns, grouped by key) and ``state`` (key and state columns
        of the keys that have a state). It returns output rows and the new state; a key without a row in the new state loses its
        state. It must be deterministic: an epoch may run again.

        Strings are Spark's: bytes that need not be UTF-8. As in `DataFrame.mapInArrow`, most functions of
        `pyarrow.compute` take any bytes; `to_pylist` and `to_pandas` raise an error for a string that is not UTF-8.

        Args:
            func: the function; must be picklable.
            outputStructType: the columns it returns, a `StructType` or as DDL.
            stateStructType: the columns of the state, without the keys.
            outputMode: "update" or "append", the same as the writer's.
            timeoutConf: "NoTimeout".

        Raises:
            Unsupported: another timeout, the output mode "complete", a computed key, or a key of a type with an
                equality of its own (a map, a collated string).
            InvalidQuery: an argument does not fit, there are no keys, or two columns have the same name.
        """
        if not self._columns:
            raise InvalidQuery("applyInArrowWithState needs keys: groupBy('user'), or a constant column for one state")
        if timeoutConf != "NoTimeout":
            raise unsupported("StatefulGroupedData", f"applyInArrowWithState(timeoutConf={timeoutConf!r})", "not yet")
        if not callable(func):
            raise InvalidQuery(f"applyInArrowWithState got {func!r}, which is not a function")
        mode = checked_output_mode(outputMode)
        output, state = (_struct(each) for each in (outputStructType, stateStructType))
        keys = self._key_names()
        repeated = {name for name in keys if [*keys, *state.names].count(name) > 1}
        if repeated:
            raise InvalidQuery(f"keys {keys} and state {state.names} share the names {sorted(repeated)}; rename them")
        return self._finish(opaque(self._frame, output), ArrowState(func, self._columns, output, state, mode))

    def _numeric(self, function: Callable[[Column], Column], names: tuple[str, ...]) -> StatefulFrame:
        given = names or [quoted(f.name) for f in self._frame.schema if isinstance(f.dataType, NumericType)]
        columns = [function(F.col(name)) for name in given]
        if names:  # Spark's name of a nested field contains an alias
            sparks = getattr(self._frame.groupBy(*self._columns), function.__name__)(*names)
            columns = self._named(columns, sparks.columns[-len(names) :])
        return self.agg(*columns)

    def _from_dict(self, functions: dict[str, str]) -> tuple[Column, ...]:
        """The aggregates of `agg({column: name})`, with Spark's names and in Spark's order."""
        grouped = self._frame.groupBy(*self._columns)
        names = {column: grouped.agg({column: name}).columns[-1] for column, name in functions.items()}
        order = grouped.agg(functions).columns[-len(functions) :] if functions else []
        sorted_names = sorted(functions, key=lambda column: order.index(names[column]))
        columns = [
            F.call_function(
                DICT_FUNCTIONS.get(functions[column].lower(), functions[column].lower()),
                F.lit(1) if column == "*" else F.col(column),
            )
            for column in sorted_names
        ]
        return tuple(self._named(columns, [names[column] for column in sorted_names]))

    def _named(self, columns: Sequence[Column], names: Sequence[str]) -> list[Column]:
        """The columns with these names; one that already has its name keeps Spark's mark of a generated name."""
        own = self._frame.groupBy(*self._columns).agg(*columns).columns[-len(names) :] if columns else []
        return [each if was == name else each.alias(name) for each, was, name in zip(columns, own, names, strict=True)]

    def _key_names(self) -> list[str]:
        """The names of the keys, resolved on a separate frame, as in every epoch."""
        names = self._frame.columns
        repeated = sorted({name for name in names if names.count(name) > 1})
        if repeated:
            raise InvalidQuery(
                f"the stream has several columns named {repeated}, which a table of rows cannot; rename them"
            )
        try:
            return [names[at] for at in key_positions(opaque(self._frame), self._columns)]
        except AnalysisException as error:
            error.add_note("As keys take names, F.col('name'), or columns of the StatefulFrame itself.")
            raise

    def __getattr__(self, name: str) -> Any:
        if name in GROUPED:
            raise unsupported("StatefulGroupedData", name, GROUPED[name])
        raise AttributeError(f"StatefulGroupedData has no method {name!r}")


def key_positions(rows: DataFrame, columns: Sequence[Column]) -> tuple[int, ...]:
    """The positions of `applyInArrowWithState`'s keys among the columns of ``rows``.

    Raises:
        AnalysisException: Spark's own, for a column that does not exist.
        Unsupported: a computed key, or one whose type Spark does not group by its bytes.
    """
    found = positions(rows, columns)
    if None in found:
        raise Unsupported(
            f"applyInArrowWithState groups by {rows.select(*columns).columns}, of which some are computed; make columns of "
            "them with withColumn first, so that the function finds them in its rows"
        )
    keys = tuple(at for at in found if at is not None)
    for key in (rows.schema[at] for at in keys):
        if not is_storable(key.dataType):
            raise Unsupported(
                f"applyInArrowWithState groups by {key.name!r}, a key of type {key.dataType.simpleString()}; "
                "group by a string made of it"
            )
    return keys


def checked_output_mode(output_mode: object) -> str:
    """The output mode in lower case.

    Raises:
        Unsupported: "complete".
        InvalidQuery: anything else that is not "append" or "update".
    """
    mode = output_mode.lower() if isinstance(output_mode, str) else output_mode
    if mode == "complete":
        raise Unsupported("the output mode 'complete' would send all of the state in every epoch: use 'update'")
    if mode not in OUTPUT_MODES:
        raise InvalidQuery(f"the output mode is {output_mode!r}; it must be 'append' or 'update'")
    return str(mode)


def _struct(given: StructType | str) -> StructType:
    schema = StructType.fromDDL(given) if isinstance(given, str) else given
    if not isinstance(schema, StructType):
        raise InvalidQuery(f"{given!r} is not a schema; give a StructType, or text such as 'user string, n bigint'")
    return schema
