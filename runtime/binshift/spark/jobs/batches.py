"""Spark's stream as the engine sees it: the recorded input of a batch, and requests for further batches.

A batch without data closes the groups that the previous batch's watermark has ended. For the stateful operators of its own
plan, Spark runs such a batch after each one that moved the watermark. Spark sees no stateful operator in the plan of a binshift
query, so binshift requests these batches, by the same rule and the same conf. It does so before the epoch ends, because a query
that runs what is available (`availableNow`) ends as soon as no further batch is requested.

Moves of bins need an epoch without input also where Spark would run none: batches without data are disabled, or nothing in the query
becomes due. It keeps the time and the watermark of the one before, so that no group ends in it, and no row of the next one is late.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from binshift.engine.epoch_plan import BatchOffsets
from binshift.log.storage.contract import Storage
from binshift.model import Epoch
from binshift.spark.plan.pipeline import Pipeline
from binshift.spark.plan.stage import Due
from binshift.spark.plan.stateful import has_watermark
from binshift.spark.session import offsets
from binshift.spark.session.jvm import NUDGE_FORMAT, Jvm

NO_DATA_CONF = "spark.sql.streaming.noDataMicroBatches.enabled"


@dataclass(frozen=True)
class SparkBatches:
    """The batches of one query; see `binshift.engine.ports.Batches`.

    Attributes:
        spark: the session that starts the query.
        files: Spark's checkpoint.
        jvm: binshift's Java classes.
        name: the name of the query's nudge source.
        query: Spark's id of the query.
        due: what makes an epoch without input due; nothing where the user's session has disabled them.
    """

    spark: SparkSession
    files: Storage
    jvm: Jvm
    name: str
    query: str
    due: frozenset[Due]

    @classmethod
    def of(
        cls, pipeline: Pipeline, spark: SparkSession, files: Storage, jvm: Jvm, name: str, query: str
    ) -> SparkBatches:
        """The batches of a query with that program."""
        return cls(spark, files, jvm, name, query, due(pipeline))

    def offsets(self, epoch: Epoch) -> BatchOffsets:
        """See `Batches`."""
        found = offsets.read(self.files, epoch)
        return found if self.due else replace(found, keeps_time=not offsets.has_new_input(self.files, epoch))

    def next_watermark_ms(self) -> int | None:
        """See `Batches`."""
        return self.jvm.next_watermark(self.spark, self.query) if Due.WATERMARK in self.due else None

    def wake(self, *, final: bool) -> None:
        """See `Batches`."""
        self.jvm.wake_up(self.name, require_final_epoch=final)

    def wake_at(self, time_ms: int | None) -> None:
        """See `Batches`; the clock is Spark's own, which also gives a batch its time."""
        if Due.CLOCK in self.due:
            self.jvm.wake_up_at(self.name, time_ms)


def due(pipeline: Pipeline) -> frozenset[Due]:
    """What makes an epoch of this query due that has no input; nothing where the user's session has disabled batches without data."""
    if str(pipeline.source.sparkSession.conf.get(NO_DATA_CONF)).lower() == "false":
        return frozenset()
    found = {stage.stage.due for stage in pipeline.stages} - {Due.NEVER}
    return frozenset(found if has_watermark(pipeline.source) else found - {Due.WATERMARK})


def with_nudge_source(source: DataFrame, spark: SparkSession, name: str) -> DataFrame:
    """The stream, united with a source without rows whose offset moves when an epoch is wanted without input.

    It is part of the checkpoint from batch 0 on: Spark cannot add a source later. The optimiser removes it from every
    plan, since it filters all rows away.
    """
    nudge = spark.readStream.format(NUDGE_FORMAT).option("name", name).load()
    columns = [F.lit(None).cast(field.dataType).alias(field.name) for field in source.schema]
    return source.union(nudge.select(*columns).where(F.lit(False)))
