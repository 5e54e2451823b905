"""Batches without data: Spark's own way to end the groups that the rows of the batch before have brought to their end.

Spark runs them after a batch that has moved the watermark, for the stateful operators of its own plan. The plan that it
sees of a binshift query has none, so binshift asks for them, by the same rule and the same conf. The epoch asks before
it ends, as a query that runs what is available (`availableNow`) ends when nothing asks for more.
"""

from __future__ import annotations

from collections.abc import Callable

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from binshift.spark.definition import Definition, GroupedAggregation
from binshift.spark.jvm import NUDGE_FORMAT, Jvm
from binshift.spark.streaming_plan import has_watermark

NO_DATA_CONF = "spark.sql.streaming.noDataMicroBatches.enabled"


def no_data_batches(definition: Definition, jvm: Jvm, name: str, query: str) -> Callable[[int], None]:
    """What an epoch calls at its end, with its watermark: has Spark run one more if the watermark has moved on.

    Args:
        definition: of the query.
        jvm: our Java classes.
        name: of the query's nudge source.
        query: Spark's id of the query.
    """
    spark = definition.source.sparkSession
    ends_groups = isinstance(definition.operator, GroupedAggregation) and has_watermark(definition.source)
    if not ends_groups or str(spark.conf.get(NO_DATA_CONF)).lower() == "false":
        return lambda watermark_ms: None

    def owe(watermark_ms: int) -> None:
        if jvm.next_watermark(spark, query) > watermark_ms:
            jvm.nudge(name, owed=True)

    return owe


def nudged(source: DataFrame, spark: SparkSession, name: str) -> DataFrame:
    """The stream with a source of no rows beside it, whose offset moves when an epoch is wanted without input.

    It is part of the checkpoint from batch 0 on: Spark cannot add a source later. The optimiser removes it from every
    plan, since it filters all rows away.
    """
    nudge = spark.readStream.format(NUDGE_FORMAT).option("name", name).load()
    columns = [F.lit(None).cast(field.dataType).alias(field.name) for field in source.schema]
    return source.union(nudge.select(*columns).where(F.lit(False)))
