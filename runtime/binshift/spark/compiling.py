"""From what the user's program says to the stage that every epoch runs."""

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
from binshift.spark.stage import Stage, VectorisedStage


def compile_stage(definition: Definition, output_mode: str) -> Stage:
    """The stage of a definition.

    Raises:
        Unsupported: by name.
    """
    match definition.operator:
        case GroupedAggregation():
            return _aggregation(definition, definition.operator, output_mode)
        case ArrowState():
            return _vectorised(definition, definition.operator, output_mode)
        case _:
            assert_never(definition.operator)


def _aggregation(definition: Definition, operator: GroupedAggregation, output_mode: str) -> Stage:
    watermark = definition.watermark
    plan = compile_aggregate(
        definition.source,
        operator.group_columns,
        operator.agg_columns,
        None if watermark is None else (watermark.column, watermark.delay_ms),
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
    keyed = source.select(*operator.keys)
    if any(name not in source.columns for name in keyed.columns):
        raise Unsupported(
            f"applyInArrowWithState groups by the columns {keyed.columns}; compute them with withColumn first, so that the "
            "function finds them in its rows"
        )
    zone = source.sparkSession.conf.get("spark.sql.session.timeZone")
    keys, rows, state, output = (
        to_arrow_schema(StructType(list(each)), timezone=zone)
        for each in (keyed.schema, source.schema, operator.state_schema, operator.output_schema)
    )
    described = f"keys {keyed.schema.simpleString()}; state {operator.state_schema.simpleString()}"
    return VectorisedStage(
        operator=VectorisedState(operator.func, keys, rows, state, output),
        keys=tuple(keyed.columns),
        output=operator.output_schema,
        bins=definition.settings.bins,
        fingerprint=hashlib.blake2b(described.encode(), digest_size=16).hexdigest(),
        description=f"applyInArrowWithState: {described}",
    )
