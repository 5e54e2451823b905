"""The rows of a processor's operator, made of the variables and timers that Spark has kept.

Rows of all variables come together, each with the columns of its own variable (`binshift.operators.processor.adopting`).
"""

from __future__ import annotations

from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, StructType

from binshift.errors import Unsupported
from binshift.operators.contract import BIN_COLUMN
from binshift.operators.processor.adopting import (
    EXPIRY_COLUMN,
    TIMER,
    VARIABLE_COLUMN,
    ends_column,
    user_key_column,
    value_column,
)
from binshift.operators.processor.operator import KEY_PREFIX
from binshift.operators.processor.variables import Kind, Variable
from binshift.operators.stored import TTL
from binshift.spark.adoption.reading import KINDS, SparkState, SparkVariable, check_types, numbered_struct
from binshift.spark.plan.routing_columns import bin_of
from binshift.spark.stages.processors import TIME_MODES, ProcessorStage

COLUMNS = {Kind.VALUE: "value", Kind.LIST: "list_value", Kind.MAP: "user_map_value"}
USER_KEY = "user_map_key"
TIME = "expiration_timestamp_ms"


def processor_rows(stage: ProcessorStage, state: SparkState) -> DataFrame:
    """The rows of all variables, and the timers.

    Raises:
        Unsupported: the program has another time mode, lacks a variable, or has another one of that name; the message names it.
    """
    time = TIME_MODES.get(state.time)
    if time is not stage.operator.time:
        raise Unsupported(
            f"the checkpoint has a processor with the time mode {state.time}, the program one with {stage.operator.time.value}"
        )
    known = {each.name: each for each in stage.operator.variables}
    frames = []
    for name, found in state.variables.items():
        if name not in known:
            raise Unsupported(
                f"the checkpoint has the state variable {name!r}, and the processor has {', '.join(sorted(known)) or 'none'}: "
                "start the program that has written the checkpoint"
            )
        frames.append(_variable(stage, known[name], found))
    if state.timers is not None:
        times = {VARIABLE_COLUMN: F.lit(TIMER), EXPIRY_COLUMN: F.col(TIME)}
        frames.append(_rows(stage, state.timers, times))
    if not frames:
        raise Unsupported(f"the checkpoint has no state of {state.operator}: start the program without adopt")
    return reduce(lambda one, other: one.unionByName(other, allowMissingColumns=True), frames)


def _variable(stage: ProcessorStage, variable: Variable, found: SparkVariable) -> DataFrame:
    schema, user_key = stage.defined.schemas[variable.name]
    if KINDS[found.kind] is not variable.kind or found.expires != (variable.ttl_ms is not None):
        ours, theirs = variable.ttl_ms is not None, found.expires
        raise Unsupported(
            f"the checkpoint has {variable.name!r} as {KINDS[found.kind].value}{_ending(theirs)}, the processor as "
            f"{variable.kind.value}{_ending(ours)}"
        )
    column, what = COLUMNS[variable.kind], f"columns of the state variable {variable.name!r}"
    type = found.rows.schema[column].dataType
    stored = type.elementType if isinstance(type, ArrayType) else type
    assert isinstance(stored, StructType)
    check_types(_struct(stored, "value") if found.expires else stored, schema, what)
    value, ends = (f"{column}.value", F.col(f"{column}.{TTL}")) if found.expires else (column, None)
    columns: dict[str, Column] = {VARIABLE_COLUMN: F.lit(variable.number), value_column(variable): F.col(value)}
    if user_key is not None:
        check_types(_struct(found.rows.schema, USER_KEY), user_key, f"keys of {what}")
        columns[user_key_column(variable)] = F.col(USER_KEY)
    if ends is not None:
        columns[ends_column(variable) if variable.kind is Kind.LIST else EXPIRY_COLUMN] = ends
    return _rows(stage, found.rows, columns)


def _rows(stage: ProcessorStage, frame: DataFrame, columns: dict[str, Column]) -> DataFrame:
    """Rows with their bins and grouping keys."""
    keys = _struct(frame.schema, "key")
    check_types(keys, stage.keys)
    named = F.col("key").cast(numbered_struct(KEY_PREFIX, keys)).alias("key")
    rows = frame.select(named, *(column.alias(name) for name, column in columns.items()))
    bin = bin_of([F.col(f"key.{name}") for name in stage.keys.names], stage.bins)
    return rows.select(bin.alias(BIN_COLUMN), "key.*", *columns)


def _struct(schema: StructType, name: str) -> StructType:
    type = schema[name].dataType
    assert isinstance(type, StructType)
    return type


def _ending(expires: bool) -> str:
    return " with a time to live" if expires else ""
