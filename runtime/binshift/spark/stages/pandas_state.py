"""``applyInPandasWithState`` as a stage, with an ordinary function or a vectorised one."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql.types import StructType

from binshift.errors import InvalidQuery, Unsupported
from binshift.operators.contract import Operator
from binshift.operators.expiry import EXPIRY_COLUMN
from binshift.operators.group_states import GroupStates
from binshift.operators.timed_states import Timeout
from binshift.operators.vectorised import StateFunction, VectorisedState
from binshift.operators.vectorised_timeouts import NOW_COLUMN, TIMED_OUT_COLUMN, TIMEOUT_COLUMN, TimedVectorisedState
from binshift.spark.plan.catalyst import Catalyst, analyzed, sequence
from binshift.spark.plan.eventtime import expiry_ms, marked
from binshift.spark.plan.stage import Due, RowsStage, arrow_schema, numbered_schema
from binshift.spark.stages.processor_conf import frame_conf
from binshift.spark.stages.statetypes import is_storable
from binshift.spark.stages.vectorised import vectorised_of
from binshift.spark.tasks.pandas_calls import PandasFunction

DUE = {Timeout.NONE: Due.NEVER, Timeout.EVENT_TIME: Due.WATERMARK, Timeout.PROCESSING_TIME: Due.CLOCK}


def compile_pandas_state(rows: DataFrame, node: Any, output_mode: str, bins: int) -> RowsStage:
    """Compile Spark's analysed ``FlatMapGroupsInPandasWithState`` of ``rows``.

    Raises:
        Unsupported: a function that refers to broadcast variables, or a key of a type with an equality of its own (a map, a
            collated string).
        InvalidQuery: two columns have the same name, or the output modes differ.
    """
    mode = str(node.outputMode()).lower()
    if mode != output_mode:
        raise InvalidQuery(
            f"applyInPandasWithState was given the output mode {mode!r}, and the writer {output_mode!r}; give both the same"
        )
    function = vectorised_of(node)
    output, state = (StructType.fromJson(json.loads(each.json())) for each in (node.schema(), node.stateType()))
    keys_at = _key_positions(rows, node)
    keyed = StructType([rows.schema[at] for at in keys_at])
    timeout = Timeout(str(node.timeout()))
    _check_names(rows, keyed, state, vectorised=function is not None, timeouts=timeout is not Timeout.NONE)
    times = marked(sequence(analyzed(rows).output()))
    compiled = _Compiled(rows, keyed, state, output, timeout, bool(times))
    late = timeout is Timeout.EVENT_TIME and bool(times)
    kind = "a function of keys" if function is None else "vectorised"
    operator = compiled.ordinary(node, late) if function is None else compiled.vectorised(function, late)
    return RowsStage(
        "applyInPandasWithState",
        operator,
        keys_at,
        output,
        bins,
        f"{kind}: keys {keyed.simpleString()}; state {state.simpleString()}; {timeout.value}",
        [_late_by(rows, times[0])] if late else [],
        due=DUE[timeout],
        stored=operator.stored() if type(operator) is VectorisedState else (),
    )


@dataclass(frozen=True)
class _Compiled:
    """What a node declares."""

    rows: DataFrame
    keys: StructType
    state: StructType
    output: StructType
    timeout: Timeout
    watermark: bool

    def vectorised(self, function: StateFunction, late: bool) -> Operator:
        """Runs a vectorised function."""
        if self.timeout is Timeout.NONE:
            return VectorisedState(function, *self._schemas())
        return TimedVectorisedState(function, *self._schemas(), timeout=self.timeout, late=late)

    def ordinary(self, node: Any, late: bool) -> Operator:
        """Runs an ordinary function."""
        function = node.functionExpr().func()
        if function.broadcastVars().size():
            raise Unsupported(
                "the function given to applyInPandasWithState refers to broadcast variables, or is itself larger than a "
                "megabyte, which PySpark broadcasts; read what it needs from a file"
            )
        keys, rows, state, output = self._schemas()
        called = PandasFunction(
            bytes(function.command().unsafeArray()),
            self.state,
            self.output,
            output,
            self.timeout.value,
            self.watermark,
            frame_conf(self.rows.sparkSession),
        )
        return GroupStates(called, keys, rows, state, output, self.timeout, late)

    def _schemas(self) -> tuple[pa.Schema, pa.Schema, pa.Schema, pa.Schema]:
        """Of keys, rows, state and output."""
        keys, rows, state, output = (
            arrow_schema(self.rows.sparkSession, StructType(list(each)))
            for each in (self.keys, self.rows.schema, self.state, self.output)
        )
        return keys, rows, state, output


def _late_by(rows: DataFrame, at: int) -> Column:
    """When rows are late, by the column at a position."""
    timed = numbered_schema(rows.schema)[at]
    return expiry_ms(Catalyst(rows.sparkSession), timed.name, timed.dataType).alias(EXPIRY_COLUMN)


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


def _check_names(rows: DataFrame, keys: StructType, state: StructType, *, vectorised: bool, timeouts: bool) -> None:
    names: list[str] = rows.columns
    added = [TIMED_OUT_COLUMN, NOW_COLUMN, TIMEOUT_COLUMN] if timeouts else []
    together = [*keys.names, *state.names, *added] if vectorised else []
    for where, given in (("the rows", names), ("keys and state", together)):
        repeated = sorted({name for name in given if given.count(name) > 1})
        if repeated:
            raise InvalidQuery(f"{where} of applyInPandasWithState have several columns named {repeated}; rename them")
