"""Aggregations compiled over a hole, as a query's are, and applied to batches; for tests."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame

from binshift.spark.plan.catalyst import analyzed
from binshift.spark.plan.template import Templates
from binshift.spark.session.jvm import install
from binshift.spark.stages.aggregateplan import AggregatePlan
from binshift.spark.stages.aggregates import compile_aggregate


class Compiled:
    """A compiled aggregation.

    Args:
        like: a frame with the columns of the batches; its own columns may be used in keys and aggregates.
        keys: as for ``groupBy``.
        aggregates: as for ``agg``.
        output_mode: of the query.

    Attributes:
        plan: the compiled aggregation.
        templates: fill in the rows of batches.
        hole: stands for a batch.
        rows: the input of the aggregation, a template.
    """

    def __init__(
        self,
        like: DataFrame,
        keys: Sequence[Column | str],
        aggregates: Sequence[Column],
        output_mode: str = "update",
    ) -> None:
        self.templates = Templates(like.sparkSession, install(like.sparkSession))
        self.hole = self.templates.hole(analyzed(like).output())
        node = analyzed(self.hole.groupBy(*keys).agg(*aggregates))
        self.rows = self.templates.frame(node.child())
        self.plan: AggregatePlan = compile_aggregate(self.rows, node, output_mode)
        self._prepared = self.plan.prepare(self.rows)

    def partial(self, batch: DataFrame) -> DataFrame:
        """The partial aggregates of a batch."""
        return self.plan.partial(self.prepare(batch))

    def prepare(self, batch: DataFrame) -> DataFrame:
        """Keys and inputs of a batch."""
        return self.templates.fill(self._prepared, {self.hole: batch})


def compiled(
    like: DataFrame, keys: Sequence[Column | str], aggregates: Sequence[Column], output_mode: str = "update"
) -> AggregatePlan:
    """The plan of a compiled aggregation; arguments as `Compiled`."""
    return Compiled(like, keys, aggregates, output_mode).plan
