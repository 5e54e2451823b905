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
from binshift.spark.plan.sharing import columns_in
from binshift.spark.plan.stateful import (
    EVENT_TIME_NODE,
    PROCESSOR_NODE,
    WATERMARK_NODE,
    has_state,
    keeps_state,
    operators_of,
)
from binshift.spark.plan.template import Templates


@dataclass(frozen=True)
class Leaf:
    """A stream without state, by its number."""

    number: int


@dataclass(frozen=True)
class Output:
    """What a stateful node returns, by the node's number: all of its columns (None), or the ones at these positions."""

    node: int
    columns: tuple[int, ...] | None = None


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


def cut(frame: DataFrame, templates: Templates, *, complete: bool = False) -> Graph:
    """The graph of a streaming frame.

    Args:
        frame: the program's.
        templates: of its session.
        complete: whether the output mode is "complete".

    Raises:
        Unsupported: a node that cannot be run; the message names it.
    """
    plan = templates.reduced(analyzed(frame))
    cutter = _Cutter(templates, complete, operators_of(plan, complete=complete))
    result = cutter.segment(plan)
    return Graph(tuple(cutter.leaves), tuple(cutter.nodes), result)


@dataclass
class _Cutter:
    templates: Templates
    complete: bool
    operators: list[Any]
    """The program's stateful operators, in Spark's order."""
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
        if keeps_state(plan, complete=self.complete):
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

    def _hole(self, plan: Any, origin: Leaf | Output, holes: dict[DataFrame, Leaf | Output]) -> Any:
        hole = self.templates.hole(plan.output())
        holes[hole] = origin
        return analyzed(hole)

    def _node(self, plan: Any, event_time: Any = None) -> Output:
        for number, known in enumerate(self.nodes):
            if (columns := columns_in(known.plan, plan, self.templates)) is not None:
                self.entered += len(operators_of(plan, complete=self.complete))  # Spark runs these again
                return _output(number, known.plan, columns)
        spark, widest = self._widest(plan)
        self.entered += 1
        self._add(widest, spark, event_time)
        return _output(len(self.nodes) - 1, widest, columns_in(widest, plan, self.templates))

    def _widest(self, plan: Any) -> tuple[int, Any]:
        """Of the operators that have what ``plan`` returns, the one with most columns, and Spark's number of it."""
        having = [(self.entered, plan)]
        if class_name(plan) == "Aggregate":
            later = enumerate(self.operators[self.entered + 1 :], start=self.entered + 1)
            having += [each for each in later if columns_in(each[1], plan, self.templates) is not None]
        return max(having, key=lambda found: int(found[1].output().size()))

    def _add(self, plan: Any, spark: int, event_time: Any) -> None:
        children = sequence(plan.children())
        if class_name(plan) == "GlobalLimit":  # the local limit below it saves work only
            children = [each.child() if class_name(each) == "LocalLimit" else each for each in children]
        if class_name(plan) == PROCESSOR_NODE:
            children = [self._user_columns(plan.child(), plan.leftAttributes())]
        inputs = tuple(self.segment(child) for child in children if child.isStreaming())
        self.nodes.append(Node(plan, inputs, spark, self._initial(plan), event_time))

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


def _output(node: int, plan: Any, columns: tuple[int, ...] | None) -> Output:
    """Some of a node's columns; all of them also for None."""
    return Output(node, None if columns == tuple(range(plan.output().size())) else columns)
