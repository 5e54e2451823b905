"""Cuts a program's analysed plan at its stateful operators.

What remains are *leaves* (streams without state: Spark's own streaming plan runs them), *nodes* (stateful operators, in an
order in which each comes after its inputs) and, between them, stateless *segments*: templates over the rows of leaves and
nodes. Whatever is stateless stays Spark's, in any form.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import DataFrame

from binshift.errors import Unsupported
from binshift.invariants import invariant
from binshift.spark.plan.catalyst import analyzed, class_name, sequence
from binshift.spark.plan.template import Templates

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


@dataclass(frozen=True)
class Leaf:
    """A stream without state, by its number."""

    number: int


@dataclass(frozen=True)
class Output:
    """What a stateful node returns, by the node's number."""

    node: int


@dataclass(frozen=True)
class Segment:
    """A stateless part.

    Attributes:
        frame: the template.
        holes: where the rows of each of its holes come from.
    """

    frame: DataFrame
    holes: Mapping[DataFrame, Leaf | Output]


@dataclass(frozen=True)
class Node:
    """A stateful operator.

    Attributes:
        plan: Spark's analysed node, whose children are those of the program.
        inputs: its input rows; two for a join.
        spark: the number that Spark gives the operator: as it meets them from the result down.
        initial: the rows of the initial state of a processor; None without one.
        event_time: the attribute of a processor's output that is the event time behind it; None without one.
    """

    plan: Any
    inputs: tuple[Segment, ...]
    spark: int
    initial: DataFrame | None = None
    event_time: Any = None


@dataclass(frozen=True)
class Graph:
    """A program.

    Attributes:
        leaves: the streams.
        nodes: its stateful operators, each after its inputs.
        result: the rows for the sink.
    """

    leaves: tuple[DataFrame, ...]
    nodes: tuple[Node, ...]
    result: Segment


def has_state(plan: Any) -> bool:
    """Whether Spark would keep state for this analysed plan."""
    return bool(plan.isStreaming()) and (
        _is_stateful(plan) or any(has_state(each) for each in sequence(plan.children()))
    )


def has_watermark(frame: DataFrame) -> bool:
    """Whether Spark follows an event time in a stream."""
    return _contains(analyzed(frame), WATERMARK_NODE)


def cut(frame: DataFrame, templates: Templates, *, complete: bool = False) -> Graph:
    """The graph of a streaming frame.

    Args:
        frame: the program's.
        templates: of its session.
        complete: whether the output mode is "complete".

    Raises:
        Unsupported: a node that cannot be run; the message names it.
    """
    cutter = _Cutter(templates, complete)
    result = cutter.segment(templates.reduced(analyzed(frame)))
    return Graph(tuple(cutter.leaves), tuple(cutter.nodes), result)


@dataclass
class _Cutter:
    templates: Templates
    complete: bool
    leaves: list[DataFrame] = field(default_factory=list)
    nodes: list[Node] = field(default_factory=list)
    entered: int = 0

    def segment(self, plan: Any) -> Segment:
        """The template that ends with ``plan``; the nodes and leaves below it are recorded."""
        holes: dict[DataFrame, Leaf | Output] = {}
        return Segment(self.templates.frame(self._over_holes(plan, holes)), holes)

    def _over_holes(self, plan: Any, holes: dict[DataFrame, Leaf | Output]) -> Any:
        if not plan.isStreaming():
            return plan
        if _is_stateful(plan) and not self._limits_all_groups(plan):
            return self._hole(plan, self._node(plan), holes)
        if not has_state(plan):
            return self._hole(plan, self._leaf(plan), holes)
        if class_name(plan) == WATERMARK_NODE:
            raise Unsupported(
                "withWatermark behind a stateful operator; call it before the first one, where the event time is read"
            )
        if class_name(plan) == EVENT_TIME_NODE:
            return self._with_event_time(plan, holes)
        children = [self._over_holes(child, holes) for child in sequence(plan.children())]
        return plan.withNewChildren(self.templates.scala_sequence(children))

    def _with_event_time(self, plan: Any, holes: dict[DataFrame, Leaf | Output]) -> Any:
        """The hole of a processor's output with its event time marked, in place of the node that only a stream has."""
        projected = class_name(plan.child()) == "Project"  # without columns that nothing needs
        processor = plan.child().child() if projected else plan.child()
        marked = plan.withNewChildren(self.templates.scala_sequence([processor]))
        hole = self._hole(marked, self._node(processor, plan.eventTime()), holes)
        if not projected:
            return hole
        attributes = {each.exprId().id(): each for each in sequence(hole.output())}
        needed = [attributes[each.exprId().id()] for each in sequence(plan.child().output())]
        return plan.child().copy(self.templates.scala_sequence(needed), hole)

    def _limits_all_groups(self, plan: Any) -> bool:
        """Whether it is a limit behind an aggregation whose every group is emitted in every epoch."""
        return class_name(plan) == "GlobalLimit" and self.complete and _contains(plan, "Aggregate")

    def _hole(self, plan: Any, origin: Leaf | Output, holes: dict[DataFrame, Leaf | Output]) -> Any:
        hole = self.templates.hole(plan.output())
        holes[hole] = origin
        return analyzed(hole)

    def _node(self, plan: Any, event_time: Any = None) -> Output:
        spark = self.entered
        self.entered += 1
        for number, known in enumerate(self.nodes):
            if plan.deterministic() and known.plan.sameResult(plan):
                self.entered += self._operators(plan) - 1  # Spark runs it again, with what is below it
                return Output(number)
        children = sequence(plan.children())
        if class_name(plan) == "GlobalLimit":  # the local limit below it saves work only
            children = [each.child() if class_name(each) == "LocalLimit" else each for each in children]
        if class_name(plan) == PROCESSOR_NODE:
            children = [self._user_columns(plan.child(), plan.leftAttributes())]
        inputs = tuple(self.segment(child) for child in children if child.isStreaming())
        self.nodes.append(Node(plan, inputs, spark, self._initial(plan), event_time))
        return Output(len(self.nodes) - 1)

    def _operators(self, plan: Any) -> int:
        """The number of stateful operators in a plan."""
        if not plan.isStreaming():
            return 0
        own = _is_stateful(plan) and not self._limits_all_groups(plan)
        return own + sum(map(self._operators, sequence(plan.children())))

    def _initial(self, plan: Any) -> DataFrame | None:
        if class_name(plan) != PROCESSOR_NODE or not plan.hasInitialState():
            return None
        return self.templates.frame(self._user_columns(plan.initialState(), plan.rightAttributes()))

    def _user_columns(self, plan: Any, keys: Any) -> Any:
        """The input of a processor without the grouping columns, which Spark puts before the user's and which are among these.

        The same column twice in a stream makes Spark's optimiser fail over a union.
        """
        invariant(class_name(plan) == "Project", f"a processor's input is a {class_name(plan)}, not a projection")
        columns = sequence(plan.projectList())[len(sequence(keys)) :]
        return plan.copy(self.templates.scala_sequence(columns), plan.child())

    def _leaf(self, plan: Any) -> Leaf:
        for number, known in enumerate(self.leaves):
            if plan.deterministic() and analyzed(known).sameResult(plan):
                return Leaf(number)
        self.leaves.append(self.templates.frame(plan))
        return Leaf(len(self.leaves) - 1)


def _contains(plan: Any, name: str) -> bool:
    if not plan.isStreaming():
        return False
    return class_name(plan) == name or any(_contains(each, name) for each in sequence(plan.children()))


def _is_stateful(plan: Any) -> bool:
    name = class_name(plan)
    if name == "Join":
        return all(child.isStreaming() for child in sequence(plan.children()))
    return name in STATE_NODES
