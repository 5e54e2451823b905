"""Analysed plans with holes: what an epoch runs is analysed once, when the query starts, and filled in for each epoch.

A *hole* is a frame without rows that stands for rows to come: the batch, or what a stateful operator returns. Any frame over
holes is a template. Filling it in replaces each hole by a frame with the same columns, by position, and the current time by the
batch's; nothing is analysed again, so names and types are those of the user's program.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from binshift.spark.plan.catalyst import analyzed
from binshift.spark.session.jvm import Jvm

Filling = Mapping[DataFrame, DataFrame]
"""By hole, the frame with its rows."""


class Templates:
    """Makes and fills templates of one session.

    Args:
        spark: the user's session, whose conf the program is analysed by.
        jvm: binshift's Java classes.
    """

    def __init__(self, spark: SparkSession, jvm: Jvm) -> None:
        self._spark = spark
        self._jvm = jvm

    def frame(self, plan: Any) -> DataFrame:
        """The frame of an analysed plan."""
        return self._jvm.frame(self._spark, plan)

    def reduced(self, plan: Any) -> Any:
        """The plan with its filters as far down as they can be, and without columns that nothing needs, by Spark's own rules.

        Streams read and state gets less, as in Spark, and the conditions of joins become parts of them.
        """
        return self._jvm.optimize(plan, ("ReplaceExpressions", "PushDownPredicates", "ColumnPruning"))

    def scala_sequence(self, values: list[Any]) -> Any:
        """A Scala sequence of Java objects."""
        return self._jvm.scala_sequence(values)

    def hole(self, attributes: Any) -> DataFrame:
        """A hole with these columns: a Scala sequence of attributes, whose ids it keeps."""
        return self._jvm.hole(self._spark, attributes)

    def hole_of(self, schema: StructType) -> DataFrame:
        """A hole with the columns of a schema."""
        return self.hole(analyzed(self._spark.createDataFrame([], schema)).output())

    def fill(self, template: DataFrame, filling: Filling, time_ms: int | None = None) -> DataFrame:
        """The template with frames in its holes, in the frames' session, as of a batch's time (milliseconds since 1970).

        Without a time the current time stays what it is, in a template made of templates.
        """
        return self._jvm.fill(template, list(filling.items()), time_ms)
