"""`dropDuplicates`, `dropDuplicatesWithinWatermark` and `limit` as stages: whole rows pass, or do not."""

from __future__ import annotations

import json
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql.types import StructField, StructType

from binshift.operators.deduplicate import Deduplicate, Retention
from binshift.operators.expiry import EXPIRY_COLUMN
from binshift.operators.limit import Limit
from binshift.spark.plan.catalyst import Catalyst, analyzed, class_name, sequence
from binshift.spark.plan.eventtime import delay_ms, expiry_ms, marked
from binshift.spark.plan.stage import Due, RowsStage, arrow_schema, numbered_schema
from binshift.spark.stages.keytypes import check_keys


def compile_deduplication(rows: DataFrame, node: Any, bins: int) -> RowsStage:
    """Compile Spark's analysed ``Deduplicate`` or ``DeduplicateWithinWatermark`` of ``rows``.

    Raises:
        UnsupportedOperationException, Unsupported: a type of a key, see `check_keys`.
    """
    attributes = sequence(analyzed(rows).output())
    ids = [each.exprId().id() for each in attributes]
    keys = [ids.index(each.exprId().id()) for each in sequence(node.keys())]
    schema = numbered_schema(rows.schema)
    check_keys("dropDuplicates by", [StructField(rows.columns[at], schema[at].dataType) for at in keys])
    times = marked(attributes)
    within = class_name(node) == "DeduplicateWithinWatermark"
    retention = Retention.WATERMARK if within else Retention.EVENT_TIME if {*times} & {*keys} else Retention.FOREVER
    delay = delay_ms(attributes[times[0]]) if within else 0
    further = []
    if times:
        timed = schema[times[0]]
        further = [expiry_ms(Catalyst(rows.sparkSession), timed.name, timed.dataType).alias(EXPIRY_COLUMN)]
    operator = Deduplicate(
        arrow_schema(rows.sparkSession, StructType([schema[at] for at in keys])),
        arrow_schema(rows.sparkSession, schema),
        bool(times),
        retention,
        delay,
    )
    stored = operator.stored()[0]
    names = ", ".join(f"{rows.columns[at]} as {schema[at].dataType.simpleString()}" for at in keys)
    return RowsStage(
        "dedupeWithinWatermark" if within else "dedupe",
        operator,
        keys,
        schema,
        bins,
        f"distinct by {names}; kept {retention.value}",
        further,
        due=Due.WATERMARK,
        stored=(stored.named([rows.columns[at] for at in keys], stored.values.names),),
    )


def compile_limit(rows: DataFrame, node: Any, bins: int) -> RowsStage:
    """Compile Spark's analysed ``GlobalLimit`` of ``rows``."""
    limit = json.loads(str(node.limitExpr().eval(None)))
    schema = numbered_schema(rows.schema)
    operator = Limit(arrow_schema(rows.sparkSession, schema), limit)
    text = f"the first {limit} rows"
    return RowsStage("globalLimit", operator, (), schema, bins, text, stored=operator.stored())
