"""The rows of each operator, made of the rows that Spark has kept for it: one function for each kind of operator.

A function returns the columns that the operator's ``adopt`` takes. Everything is evaluated by Spark: its own ``statestore`` source
reads the rows, and the program's expressions compute what else is needed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, assert_never, cast

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import BooleanType, StructField, StructType

from binshift.errors import Unsupported
from binshift.operators.contract import BIN_COLUMN, KEYLESS_BIN
from binshift.operators.deduplicate import Deduplicate, Retention
from binshift.operators.expiry import EXPIRY_COLUMN
from binshift.operators.group_states import GroupStates
from binshift.operators.join import MATCHED_COLUMN
from binshift.operators.limit import Limit
from binshift.operators.timed_states import EXISTS_COLUMN, TIMEOUT_COLUMN, VALUE_PREFIX, Timeout
from binshift.operators.vectorised import VectorisedState
from binshift.operators.vectorised_timeouts import TimedVectorisedState
from binshift.spark.adoption.buffers import buffer_columns
from binshift.spark.adoption.processors import processor_rows
from binshift.spark.adoption.reading import SparkState, StoredFrame, check_types
from binshift.spark.plan.catalyst import analyzed, sequence
from binshift.spark.plan.pipeline import CompiledStage
from binshift.spark.plan.routing_columns import bin_of
from binshift.spark.plan.stage import RowsStage, numbered_schema
from binshift.spark.plan.template import Templates
from binshift.spark.stages.aggregation import AggregationStage
from binshift.spark.stages.joins import JoinStage
from binshift.spark.stages.processors import ProcessorStage
from binshift.spark.stages.sessions import SessionStage

NO_TIMESTAMP = -1
"""Spark's timeout of a key without one."""

DEDUPE = "dedupe"
"""Spark's operator for `distinct`, which is an aggregation here."""

SIDE_STORES = ("left-keyWithIndexToValue", "right-keyWithIndexToValue")
"""Spark's stores of the rows of a join."""

MATCHED = "matched"


def adopted_rows(templates: Templates, stage: CompiledStage, state: SparkState) -> DataFrame:
    """The rows for the operator of a stage.

    Raises:
        Unsupported: Spark has kept another operator's rows, or in a form that is not adopted; the message names it.
    """
    kind = stage.stage
    wanted = stage.stage.kind
    if state.operator != wanted and not (state.operator == DEDUPE and isinstance(kind, AggregationStage)):
        raise Unsupported(f"the checkpoint has {state.operator} where the program has {wanted}")
    match kind:
        case AggregationStage():
            return _aggregation(templates, stage, kind, state)
        case SessionStage():
            return _sessions(templates, stage, kind, state)
        case JoinStage():
            return _join(templates, kind, state)
        case ProcessorStage():
            return processor_rows(kind, state)
        case RowsStage():
            return _rows(kind, state)
        case _:
            raise Unsupported(f"the state of {wanted} cannot be adopted yet")


def _aggregation(templates: Templates, stage: CompiledStage, kind: AggregationStage, state: SparkState) -> DataFrame:
    plan, store = kind.plan, state.store()
    keys = StructType([each for each in plan.merged_type if each.name in plan.key_schema.names])
    if plan.keyless:
        bin, rows = F.lit(KEYLESS_BIN).cast("int"), store.rows.withColumn("k0", F.lit(KEYLESS_BIN).cast("int"))
    else:
        check_types(store.keys, keys)
        bin, rows = bin_of([F.col(name) for name in keys.names], kind.bins), store.rows
    if state.operator == DEDUPE:
        buffers = [F.lit(1).cast("long").alias(name) for name in plan.buffer_schema.names]
    else:
        buffers = buffer_columns(templates, stage.inputs[0], _node(stage), plan, store.values)
    expiry = [] if plan.event_time_key is None else [plan.event_time_key.alias(EXPIRY_COLUMN)]
    return rows.select(bin.alias(BIN_COLUMN), *expiry, *keys.names, *buffers)


def _sessions(templates: Templates, stage: CompiledStage, kind: SessionStage, state: SparkState) -> DataFrame:
    """Spark's value has the grouping columns, one of which is the session, and then the buffers."""
    plan, store = kind.plan, state.store()
    count = len(plan.key_schema.names)
    keys = [name for at, name in enumerate(plan.key_schema.names) if at != kind.session]
    check_types(StructType(list(store.keys)[:-1]), StructType([plan.merged_type[name] for name in keys]))
    session = f"v{kind.session}"
    values = StructType(list(store.values)[count:])
    shifted = store.rows.select(
        *(F.col(f"k{at}").alias(name) for at, name in enumerate(keys)),
        F.col(session).alias("session"),
        *(F.col(f"v{count + at}").alias(f"v{at}") for at in range(len(values))),
    )
    buffers = buffer_columns(templates, stage.inputs[0], _node(stage), plan, values)
    bin = bin_of([F.col(name) for name in keys], kind.bins).alias(BIN_COLUMN)
    return shifted.select(bin, *keys, *kind.times("session"), *buffers)


def _join(templates: Templates, kind: JoinStage, state: SparkState) -> DataFrame:
    sides = [_side(templates, kind, number, state.store(name)) for number, name in enumerate(SIDE_STORES)]
    rows = sides[0].unionByName(sides[1])
    keys = [F.col(name) for name in kind.join.keys.names]
    return rows.select(bin_of(keys, kind.bins).alias(BIN_COLUMN), "*")


def _side(templates: Templates, kind: JoinStage, number: int, store: StoredFrame) -> DataFrame:
    if not store.values.names or store.values.names[-1] != MATCHED:
        raise Unsupported("the checkpoint keeps a join in state format 1, which is not adopted")
    rows = kind.inputs[number]
    columns = StructType(list(store.values)[:-1])
    if columns.names != rows.columns:
        raise Unsupported(
            f"the checkpoint keeps the columns {', '.join(columns.names)} of a side of the join, and the program joins "
            f"{', '.join(rows.columns)}"
        )
    check_types(columns, rows.schema)
    flag = templates.hole_of(StructType([StructField(MATCHED_COLUMN, BooleanType())]))
    attributes = [each for frame in (rows, flag) for each in sequence(analyzed(frame).output())]
    hole = templates.hole(templates.scala_sequence(attributes))
    made = kind.side_rows(number, hole, [F.col(MATCHED_COLUMN)])
    given = store.rows.select(
        *(F.col(f"v{at}").alias(name) for at, name in enumerate(numbered_schema(store.values).names))
    )
    return templates.fill(made, {hole: given})


def _rows(kind: RowsStage, state: SparkState) -> DataFrame:
    store = state.store()
    match kind.operator:
        case Deduplicate() as operator:
            return _duplicates(kind, operator, store)
        case Limit():
            return store.rows.select(F.lit(KEYLESS_BIN).cast("int").alias(BIN_COLUMN), F.col("v0").alias("rows"))
        case GroupStates() | TimedVectorisedState() as operator:
            return _timed_states(kind, operator, store)
        case VectorisedState() as operator:
            return _states(kind, operator, store)
        case other:
            raise Unsupported(f"the state of {kind.kind} ({type(other).__name__}) cannot be adopted yet")


def _duplicates(kind: RowsStage, operator: Deduplicate, store: StoredFrame) -> DataFrame:
    names = [f"c{at}" for at in kind.keys]
    check_types(store.keys, StructType([kind.output[name] for name in names]))
    rows = store.rows.select("*", *(F.col(f"k{at}").alias(name) for at, name in enumerate(names)))
    return rows.select(_bin(names, kind), _expiry(kind, operator), *names)


def _expiry(kind: RowsStage, operator: Deduplicate) -> Column:
    match operator.retention:
        case Retention.FOREVER:
            return F.lit(None).cast("long").alias(EXPIRY_COLUMN)
        case Retention.EVENT_TIME:
            return kind.further[0]
        case Retention.WATERMARK:
            return F.call_function("div", F.col("v0") + F.lit(999), F.lit(1000)).alias(EXPIRY_COLUMN)
        case other:
            assert_never(other)


def _timed_states(kind: RowsStage, operator: GroupStates | TimedVectorisedState, store: StoredFrame) -> DataFrame:
    """Spark's value is a struct of the state, null if there is only a timeout, and with timeouts their times."""
    if len(store.values) != 1 + (operator.timeout is not Timeout.NONE):
        raise Unsupported(
            f"the checkpoint keeps applyInPandasWithState as {store.values.simpleString()}, the program has {operator.timeout.value}"
        )
    state = cast(StructType, store.values[0].dataType)
    check_types(store.keys, from_arrow_schema(operator.keys))
    check_types(state, from_arrow_schema(operator.state), "columns of the state")
    timeout = F.when(F.col("v1") != NO_TIMESTAMP, F.col("v1")) if len(store.values) > 1 else F.lit(None).cast("long")
    names = [f"k{at}" for at in range(len(store.keys))]
    return store.rows.select(
        bin_of([F.col(name) for name in names], kind.bins).alias(BIN_COLUMN),
        *names,
        *(F.col("v0").getField(each.name).alias(f"{VALUE_PREFIX}{at}") for at, each in enumerate(state)),
        F.col("v0").isNotNull().alias(EXISTS_COLUMN),
        timeout.alias(TIMEOUT_COLUMN),
    )


def _states(kind: RowsStage, operator: VectorisedState, store: StoredFrame) -> DataFrame:
    """Spark's value is a struct of the state, and with a timeout also its time."""
    if len(store.values) != 1:
        raise Unsupported("the state of applyInPandasWithState with a timeout cannot be adopted yet")
    names, state = operator.keys.names, operator.state.names
    rows = store.rows.select(
        *(F.col(f"k{at}").alias(name) for at, name in enumerate(names)),
        *(
            F.col("v0").getField(field.name).alias(name)
            for name, field in zip(state, cast(StructType, store.values[0].dataType), strict=True)
        ),
    )
    return rows.select(_bin(names, kind), *names, *state)


def _bin(names: Sequence[str], kind: RowsStage) -> Column:
    return bin_of([F.col(name) for name in names], kind.bins).alias(BIN_COLUMN)


def _node(stage: CompiledStage) -> Any:
    assert stage.node is not None
    return stage.node.plan
