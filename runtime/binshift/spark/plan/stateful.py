"""Which nodes of an analysed plan keep state, and which follow the event time, if their input is a stream."""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame

from binshift.spark.plan.catalyst import analyzed, class_name, sequence

WATERMARK_NODE = "EventTimeWatermark"
"""Keeps no state in a stream: Spark follows the event time there, and writes the watermark to its offset log."""

PROCESSOR_NODE = "TransformWithStateInPySpark"

EVENT_TIME_NODE = "UpdateEventTimeWatermarkColumn"
"""Names the event time of a processor's output; right above the processor, or above a projection of it."""

STATE_NODES = (
    "Aggregate",
    "Deduplicate",
    "DeduplicateWithinWatermark",
    "Distinct",
    "FlatMapGroupsInPandasWithState",
    "FlatMapGroupsWithState",
    "GlobalLimit",
    "TransformWithState",
    PROCESSOR_NODE,
)
"""Logical nodes that keep state if their input is a stream."""


def has_state(plan: Any) -> bool:
    """Whether Spark would keep state for this analysed plan."""
    return bool(plan.isStreaming()) and (
        _is_stateful(plan) or any(has_state(each) for each in sequence(plan.children()))
    )


def has_watermark(frame: DataFrame) -> bool:
    """Whether Spark follows an event time in a stream."""
    return _contains(analyzed(frame), WATERMARK_NODE)


def keeps_state(plan: Any, *, complete: bool) -> bool:
    """Whether this node of a stream keeps state, in output mode "complete" or another one.

    A limit behind an aggregation whose every group is emitted in every epoch keeps none.
    """
    limits_all_groups = class_name(plan) == "GlobalLimit" and complete and _contains(plan, "Aggregate")
    return _is_stateful(plan) and not limits_all_groups


def operators_of(plan: Any, *, complete: bool) -> list[Any]:
    """The stateful operators of a plan, as Spark meets them from the result down."""
    if not plan.isStreaming():
        return []
    own = [plan] if keeps_state(plan, complete=complete) else []
    return own + [each for child in sequence(plan.children()) for each in operators_of(child, complete=complete)]


def _contains(plan: Any, name: str) -> bool:
    if not plan.isStreaming():
        return False
    return class_name(plan) == name or any(_contains(each, name) for each in sequence(plan.children()))


def _is_stateful(plan: Any) -> bool:
    name = class_name(plan)
    if name == "Join":
        return all(child.isStreaming() for child in sequence(plan.children()))
    return name in STATE_NODES
