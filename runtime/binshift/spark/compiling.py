"""Compiles the definition of a user's query to the stage that every epoch runs."""

from __future__ import annotations

import hashlib
from typing import assert_never

from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from binshift.errors import Unsupported
from binshift.operators.aggregate import OutputMode
from binshift.operators.vectorised import VectorisedState
from binshift.spark.aggregates import compile_aggregate
from binshift.spark.aggregation import AggregationStage
from binshift.spark.definition import ArrowState, Definition, GroupedAggregation
from binshift.spark.grouped import key_positions
from binshift.spark.stage import Stage, VectorisedStage


def compile_stage(definition: Definition, output_mode: str) -> Stage:
    """The stage of a definition.

    Raises:
        Unsupported: the message names what is not supported.
    """
    match definition.operator:
        case GroupedAggregation():
            return _aggregation(definition, definition.operator, output_mode)
        case ArrowState():
            return _vectorised(definition, definition.operator, output_mode)
        case _:
            assert_never(definition.operator)


def _aggregation(definition: Definition, operator: GroupedAggregation, output_mode: str) -> Stage:
    plan = compile_aggregate(
        definition.source,
        operator.group_columns,
        operator.agg_columns,
        output_mode,
    )
    return AggregationStage(plan, OutputMode(output_mode), definition.settings.bins)


def _vectorised(definition: Definition, operator: ArrowState, output_mode: str) -> Stage:
    if operator.output_mode.lower() != output_mode.lower():
        raise Unsupported(
            f"applyInArrowWithState was given the output mode {operator.output_mode!r}, the writer {output_mode!r}; "
            "give both the same"
        )
    source = definition.source
    keys_at = key_positions(source, operator.keys)
    keyed = StructType([source.schema[at] for at in keys_at])
    zone = source.sparkSession.conf.get("spark.sql.session.timeZone")
    keys, rows, state, output = (
        to_arrow_schema(StructType(list(each)), timezone=zone)
        for each in (keyed, source.schema, operator.state_schema, operator.output_schema)
    )
    described = f"keys {keyed.simpleString()}; state {operator.state_schema.simpleString()}"
    return VectorisedStage(
        operator=VectorisedState(operator.func, keys, rows, state, output),
        keys=keys_at,
        output=operator.output_schema,
        bins=definition.settings.bins,
        fingerprint=hashlib.blake2b(described.encode(), digest_size=16).hexdigest(),
        description=f"applyInArrowWithState: {described}",
    )
