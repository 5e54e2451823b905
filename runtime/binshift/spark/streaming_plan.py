"""What Spark's analyser knows about a streaming frame: which of its operators keep state, and what it rejects.

binshift uses Spark's answer wherever Spark has one, so that columns, types, output modes and messages are Spark's own.
The two checks here need the logical plan; it is read, never changed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql.types import StructType

from binshift.errors import InvalidQuery, Unsupported
from binshift.spark.catalyst import analyzed, sequence
from binshift.spark.stage import numbered

WATERMARK_NODE = "EventTimeWatermark"
"""Keeps no state in a stream: Spark follows the event time there, and writes the watermark to its offset log."""

STATE_NODES = ("Aggregate", "Deduplicate", "FlatMapGroups", "GlobalLimit", "TransformWithState")
"""Name prefixes of logical nodes that keep state, or need an order, if their input is a stream."""


def opaque(frame: DataFrame, schema: StructType | None = None) -> DataFrame:
    """A frame with the same schema, or with ``schema``, that hides its origin.

    An epoch passes a new frame to the operator, and the operator returns another: references to the columns behind them cannot be
    resolved there, so they must not be resolvable when the query is defined. The frame is only analysed, never run.
    """
    # Renamed columns, because PySpark's mapInArrow cannot resolve duplicate names or names with a dot.
    return numbered(frame).mapInArrow(_same, frame.schema if schema is None else schema)


def positions(frame: DataFrame, columns: Sequence[Column]) -> list[int | None]:
    """The position in the frame of each of ``columns``; None for one that is computed.

    Raises:
        AnalysisException: Spark's own, for an unknown column.
    """
    known = [attribute.exprId().id() for attribute in sequence(analyzed(frame).output())]
    chosen = [attribute.exprId().id() for attribute in sequence(analyzed(frame.select(*columns)).output())]
    return [known.index(each) if each in known else None for each in chosen]


def _same(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield from batches


def state_nodes(frame: DataFrame) -> list[str]:
    """Spark's stateful operators in a frame's plan, from the last to the first."""
    return [name for name in _nodes(_analysed(frame)) if name.startswith((*STATE_NODES, "Join"))]


def has_watermark(frame: DataFrame) -> bool:
    """Whether Spark follows an event time in a stream."""
    return WATERMARK_NODE in _nodes(_analysed(frame))


def refuse_state(frame: DataFrame) -> None:
    """Reject a frame with Spark state in it.

    Raises:
        Unsupported: names the operator.
    """
    for name in state_nodes(frame):
        raise Unsupported(
            f"the stream has a stateful operator of Spark in it ({name}), whose state could not be rescaled; "
            "a stateful query has one stateful operator, called on the StatefulFrame"
        )


def check_output_mode(frame: DataFrame, output_mode: str) -> None:
    """Let Spark check the whole query as a stream, with its own error messages.

    Raises:
        InvalidQuery: the output mode does not fit, or an operation is not supported on streams.
    """
    session: Any = frame.sparkSession
    checker = session._jvm.org.apache.spark.sql.catalyst.analysis.UnsupportedOperationChecker
    mode = getattr(session._jvm.org.apache.spark.sql.streaming.OutputMode, output_mode.capitalize())()
    try:
        checker.checkForStreaming(_analysed(frame), mode)
    except Exception as error:  # Spark's AnalysisException; the message without the plan is sufficient
        raise InvalidQuery(f"Spark rejects this query: {str(error).partition(';')[0].strip()}") from None


def _analysed(frame: DataFrame) -> Any:
    plan: Any = frame._jdf
    return plan.queryExecution().analyzed()


def _nodes(plan: Any) -> Iterator[str]:
    """The names of the streaming nodes; a join of two streams has its own name, one with a static frame does not."""
    if not plan.isStreaming():
        return
    name = str(plan.nodeName())
    children = _children(plan)
    if name != "Join" or all(child.isStreaming() for child in children):
        yield name
    for child in children:
        yield from _nodes(child)


def _children(plan: Any) -> list[Any]:
    children, found = plan.children().iterator(), []
    while children.hasNext():
        found.append(children.next())
    return found
