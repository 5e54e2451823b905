"""Compiles a program, given by its analysed plan, to the pipeline that every epoch runs: one case for each kind of node."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyspark.sql import DataFrame

from binshift.errors import Unsupported
from binshift.operators.aggregate import OutputMode
from binshift.settings import ENABLED_CONF
from binshift.spark.plan.catalyst import Catalyst, analyzed, class_name, sequence
from binshift.spark.plan.eventtime import marked
from binshift.spark.plan.graph import Node, cut
from binshift.spark.plan.pipeline import Pipeline, assemble
from binshift.spark.plan.stage import Stage
from binshift.spark.plan.template import Templates
from binshift.spark.stages.aggregates import compile_aggregate, session_key
from binshift.spark.stages.aggregation import AggregationStage
from binshift.spark.stages.joins import compile_join
from binshift.spark.stages.pandas_state import compile_pandas_state
from binshift.spark.stages.processors import compile_processor
from binshift.spark.stages.rowstages import compile_deduplication, compile_limit
from binshift.spark.stages.sessions import SessionStage

UNSUPPORTED = {
    "FlatMapGroupsWithState": "flatMapGroupsWithState",
    "TransformWithState": "transformWithState in Scala",
}
"""What nodes are in a program."""


def check_by_spark(frame: DataFrame, output_mode: str) -> None:
    """Let Spark check the whole program as a stream.

    Raises:
        AnalysisException: Spark's own: the output mode does not fit, or an operation is not supported on streams.
    """
    session: Any = frame.sparkSession
    checker = session._jvm.org.apache.spark.sql.catalyst.analysis.UnsupportedOperationChecker
    mode = getattr(session._jvm.org.apache.spark.sql.streaming.OutputMode, output_mode.capitalize())()
    checker.checkForStreaming(analyzed(frame), mode)


def compile_program(frame: DataFrame, templates: Templates, output_mode: str, bins: int) -> Pipeline:
    """The pipeline of a streaming frame.

    Args:
        frame: the program's, with state.
        templates: of its session.
        output_mode: "append", "update" or "complete".
        bins: the number of bins.

    Raises:
        Unsupported: the message names what is not supported, and an alternative.
    """
    graph = cut(frame, templates, complete=output_mode == "complete")

    def compile(node: Node, inputs: Sequence[DataFrame]) -> Stage:
        match class_name(node.plan):
            case "Aggregate":
                return _aggregation(inputs[0], node.plan, output_mode, bins)
            case "Distinct":
                return AggregationStage(
                    compile_aggregate(inputs[0], node.plan, output_mode), OutputMode(output_mode), bins
                )
            case "Deduplicate" | "DeduplicateWithinWatermark":
                return compile_deduplication(inputs[0], node.plan, bins)
            case "Join":
                return compile_join(inputs, node.plan, bins)
            case "GlobalLimit":
                return compile_limit(inputs[0], node.plan, bins)
            case "FlatMapGroupsInPandasWithState":
                return compile_pandas_state(inputs[0], node.plan, output_mode, bins)
            case "TransformWithStateInPySpark":
                return compile_processor(inputs[0], node.initial, node.plan, node.event_time, bins)
            case other:
                raise Unsupported(f"{UNSUPPORTED.get(other, other)} on a stream is not supported yet")

    try:
        return assemble(graph, compile, templates)
    except Unsupported as refused:
        raise Unsupported(
            f"{refused}. Spark runs the query, without rescaling, with the conf {ENABLED_CONF}=false"
        ) from None


def _aggregation(rows: DataFrame, node: Any, output_mode: str, bins: int) -> Stage:
    plan, mode = compile_aggregate(rows, node, output_mode), OutputMode(output_mode)
    session = session_key(node)
    if session is None:
        return AggregationStage(plan, mode, bins)
    if len(sequence(node.groupingExpressions())) == 1:
        raise Unsupported("session_window needs another key, as in Spark; group by a constant column for one session")
    late = bool(marked([sequence(node.groupingExpressions())[session]]))
    return SessionStage(plan, session, mode, late, bins, Catalyst(rows.sparkSession))
