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

RULES = (
    "optimizer.ReplaceExpressions",
    "analysis.RewriteCollationJoin",
    "optimizer.InsertMapSortInAggregate",
    "optimizer.PushDownPredicates",
    "optimizer.InferFiltersFromConstraints",
    "optimizer.PushDownPredicates",
    "optimizer.ExtractPythonUDFFromJoinCondition",
    "optimizer.ColumnPruning",
)
"""Of Spark's optimiser, by their names within Catalyst."""

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

    def session(self) -> SparkSession:
        """A clone of the session, whose conf can be changed."""
        return self._jvm.clone_session(self._spark)

    def frame(self, plan: Any) -> DataFrame:
        """The frame of an analysed plan."""
        return self._jvm.frame(self._spark, plan)

    def reduced(self, plan: Any) -> Any:
        """The plan with its filters as far down as they can be, and without columns that nothing needs, by Spark's own rules.

        Streams read and state gets less, as in Spark, and the conditions of joins become parts of them. Keys with a collation are joined
        by bytes that are equal if they are, and maps are grouped by in the order of their keys. Rows whose key is null leave before
        a join where Spark infers that they have no match: in streams, Spark's joins themselves take null for equal to null.
        """
        return self._jvm.optimize(plan, RULES)

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

        Without a time the current time stays what it is, in a template made of templates. A template without holes is returned as
        it is.
        """
        return self._jvm.fill(template, list(filling.items()), time_ms) if filling else template
