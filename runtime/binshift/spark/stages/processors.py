"""``transformWithState`` and ``transformWithStateInPandas`` as a stage: unchanged `StatefulProcessor` classes.

The driver calls the processor's ``init`` once, as Spark does, to learn its state variables. Rows of a key reach S together, in the order of
their source, and in the first epoch those of the initial state before them.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import pyarrow as pa
from pyspark import Broadcast
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructField, StructType

from binshift.errors import Unsupported
from binshift.operators.contract import BIN_COLUMN
from binshift.operators.expiry import EXPIRY_COLUMN
from binshift.operators.processor.decoding import timer_rows
from binshift.operators.processor.evolution import History, Rules, variables_of
from binshift.operators.processor.operator import (
    INITIAL_COLUMN,
    INITIAL_PREFIX,
    KEY_PREFIX,
    ROW_PREFIX,
    StatefulProcessing,
    TimeMode,
)
from binshift.operators.stored import StoredRows
from binshift.spark.plan.catalyst import Catalyst, analyzed, sequence
from binshift.spark.plan.eventtime import expiry_ms, marked
from binshift.spark.plan.routing_columns import Exchange, RouteColumns, bin_of
from binshift.spark.plan.stage import ORDER_COLUMN, Due, arrow_schema, numbered, numbered_schema, text_fingerprint
from binshift.spark.stages.definitions import Definitions, defined
from binshift.spark.stages.processor_conf import frame_conf, rules_of
from binshift.spark.stages.statetypes import is_storable
from binshift.spark.tasks.processor_calls import PickledProcessor
from binshift.spark.tasks.processor_frames import FrameFormat
from binshift.spark.tasks.processor_rows import RowFormat
from binshift.state.properties import modes_text

PANDAS = "transformWithStateInPandasExec"
ROWS = "transformWithStateInPySparkExec"

TIME_MODES = {mode.in_plans: mode for mode in TimeMode}
"""By their names in plans."""

NO_WATERMARK_MS = 1 << 61
"""How far the watermark behind a processor in processing time is held back: there is none, as in Spark."""


@dataclass
class ProcessorStage:
    """See `binshift.spark.plan.stage.Stage`. In the first epoch the inputs are the rows and, behind them, the initial state.

    Attributes:
        kind, description: see `Stage`.
        operator: what S runs.
        keys: the types of the grouping columns.
        keys_at: their positions in the rows, and in the initial state.
        output: the user's columns.
        bins: the number of bins.
        expiry: the event time of rows by which they can be late; None if they cannot.
        named_keys: the grouping columns with the user's names.
        defined: what the processor's ``init`` defines.
        rules: of changes to that while state exists.
    """

    kind: str
    operator: StatefulProcessing
    keys: StructType
    keys_at: tuple[Sequence[int], Sequence[int]]
    output: StructType
    bins: int
    description: str
    expiry: Column | None
    named_keys: pa.Schema
    defined: Definitions
    rules: Rules
    read_ahead: ClassVar[None] = None
    _columns: RouteColumns = field(init=False)

    def __post_init__(self) -> None:
        self._columns = RouteColumns(bin_of([F.col(name) for name in self.keys.names], self.bins))

    def continue_from(self, histories: Sequence[History]) -> None:
        """Read and write the variables as their histories have them."""
        self.operator = replace(self.operator, variables=variables_of(histories, self.defined.wanted))

    @property
    def stored(self) -> tuple[StoredRows, ...]:
        """The timers, if it can have them; variables have histories (`binshift.state.variables`)."""
        return () if self.operator.time is TimeMode.NONE else (timer_rows(self.named_keys),)

    @property
    def merged_schema(self) -> StructType:
        """The user's columns."""
        return self.output

    @property
    def fingerprint(self) -> str:
        """Of the description."""
        return text_fingerprint(self.description)

    @property
    def due(self) -> Due:
        """In every mode but processing time with the watermark."""
        return Due.CLOCK if self.operator.time is TimeMode.PROCESSING else Due.WATERMARK

    @property
    def holds_back_ms(self) -> int:
        """In processing time the output has no watermark."""
        return NO_WATERMARK_MS if self.operator.time is TimeMode.PROCESSING else 0

    def route(self, inputs: Sequence[DataFrame], exchange: Exchange) -> DataFrame:
        """Rows, and in the first epoch those of the initial state before them, sorted by bin, key and source order."""
        rows, first = self._rows(inputs[0]), len(inputs) > 1
        if first:
            rows = self._with_initial(rows, inputs[1])
        rows = rows.select("*", F.monotonically_increasing_id().alias(ORDER_COLUMN))
        rows = exchange.apply(rows.select("*", *self._columns.added(exchange)))
        order = [F.col(INITIAL_COLUMN).desc()] if first else []
        return rows.sortWithinPartitions(BIN_COLUMN, *self.keys.names, *order, ORDER_COLUMN)

    def finish(self, merged: DataFrame) -> DataFrame:
        """Nothing to do."""
        return merged

    def _rows(self, frame: DataFrame) -> DataFrame:
        times = [] if self.expiry is None else [self.expiry.alias(EXPIRY_COLUMN)]
        return numbered(frame).select(*self._keyed(ROW_PREFIX, self.keys_at[0]), "*", *times)

    def _with_initial(self, rows: DataFrame, initial: DataFrame) -> DataFrame:
        """Both, each with the columns of the other as nulls."""
        states = initial.toDF(*(f"{INITIAL_PREFIX}{at}" for at in range(len(initial.columns))))
        states = states.select(*self._keyed(INITIAL_PREFIX, self.keys_at[1]), "*")
        tagged = rows.withColumn(INITIAL_COLUMN, F.lit(False))
        return tagged.unionByName(states.withColumn(INITIAL_COLUMN, F.lit(True)), allowMissingColumns=True)

    def _keyed(self, prefix: str, at: Sequence[int]) -> list[Column]:
        """The grouping columns, with the types that they have in the rows."""
        return [
            F.col(f"{prefix}{place}").cast(key.dataType).alias(key.name)
            for place, key in zip(at, self.keys, strict=True)
        ]


def compile_processor(
    rows: DataFrame, initial: DataFrame | None, node: Any, event_time: Any, bins: int
) -> ProcessorStage:
    """Compile Spark's analysed ``TransformWithStateInPySpark``.

    Args:
        rows: the input.
        initial: the initial state; None without one.
        node: the node.
        event_time: the attribute of the output that operators behind take as event time; None without one.
        bins: the number of bins.

    Raises:
        Unsupported: a key of a type with an equality of its own (a map, a collated string).
        Exception: what the processor's ``init`` raises.
    """
    keys_at = _positions(node.leftAttributes(), rows)
    initial_at = [] if initial is None else _positions(node.rightAttributes(), initial)
    named = StructType([rows.schema[at] for at in keys_at])
    keys = _storable(named)
    time = TIME_MODES[str(node.timeMode())]
    command = pickled_function(node.functionExpr().func())
    found = defined(command, time)
    output = StructType.fromJson(json.loads(node.schema().json()))
    pandas = str(node.userFacingDataType()) == "pandas"
    names = rows.columns, [] if initial is None else initial.columns
    format = FrameFormat(*names, output, frame_conf(rows.sparkSession)) if pandas else RowFormat(*names, output)
    expiry = _expiry(rows) if time is TimeMode.EVENT else None
    operator = StatefulProcessing(
        PickledProcessor(command, time, named, format, found.parsed),
        arrow_schema(rows.sparkSession, keys),
        arrow_schema(rows.sparkSession, numbered_schema(rows.schema)),
        arrow_schema(rows.sparkSession, output),
        found.variables,
        time,
        late_rows=expiry is not None,
        initial=None if initial is None else arrow_schema(rows.sparkSession, numbered_schema(initial.schema)),
        event_time=None if event_time is None else str(event_time.name()),
    )
    return ProcessorStage(
        PANDAS if pandas else ROWS,
        operator,
        keys,
        (keys_at, initial_at),
        output,
        bins,
        modes_text(str(node.outputMode()), time),  # keys and variables are compared by their histories
        expiry,
        pa.schema([field.with_nullable(True) for field in arrow_schema(rows.sparkSession, named)]),
        found,
        rules_of(rows.sparkSession),
    )


def _positions(keys: Any, frame: DataFrame) -> list[int]:
    """Where the grouping columns are among a frame's."""
    ids = [each.exprId().id() for each in sequence(analyzed(frame).output())]
    return [ids.index(each.exprId().id()) for each in sequence(keys)]


def _storable(keys: StructType) -> StructType:
    for key in keys:
        if not is_storable(key.dataType):
            raise Unsupported(
                f"transformWithState groups by {key.name!r}, a key of type {key.dataType.simpleString()}; "
                "group by a string made of it"
            )
    return StructType([StructField(f"{KEY_PREFIX}{at}", key.dataType) for at, key in enumerate(keys)])


def _expiry(rows: DataFrame) -> Column | None:
    """When rows are over: by their event time, if they have one."""
    times = marked(sequence(analyzed(rows).output()))
    if not times:
        return None
    name, type = f"{ROW_PREFIX}{times[0]}", rows.schema[times[0]].dataType
    return expiry_ms(Catalyst(rows.sparkSession), name, type)


def pickled_function(function: Any) -> bytes:
    """PySpark's pickled function. PySpark makes a broadcast variable of a large one, which is read here, as tasks would.

    Raises:
        Unsupported: it refers to broadcast variables of the user.
    """
    command = bytes(function.command().unsafeArray())
    variables = list(function.broadcastVars())
    if not variables:
        return command
    large = Broadcast(path=variables[-1].value().path()).value if len(variables) == 1 else None
    if not isinstance(large, bytes):
        raise Unsupported("transformWithState with a processor that has broadcast variables; give it what they hold")
    return large
