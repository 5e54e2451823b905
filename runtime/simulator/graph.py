"""Which operator reads what: the operators of a simulated query in order, its leaves, and its watermarks.

A *leaf* is a stream without state; a query with several leaves has one stream of rows, each with the number of its leaf in the column
`LEAF`, as binshift has on Spark. Between two operators rows may be converted or dropped, without state. Several operators may read
one, and one may read several: as a union, or as the sides of a join.

The order in which an operator returns rows depends on its workers. Its readers therefore sort them (`Read.rows`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from binshift.invariants import invariant
from binshift.operators.contract import Operator
from binshift.operators.delayed import Delayed
from simulator.flows import Flow, Row

LEAF = "leaf"
"""The column with the number of a row's leaf."""

Convert = Callable[[Row], Row | None]
"""Makes the row that is read of a row; None drops it."""


@dataclass(frozen=True)
class Read:
    """What an operator reads.

    Attributes:
        origin: the name of another operator, the number of a leaf, or None: every row of the stream.
        convert: what happens to each row on the way; None: nothing.
    """

    origin: str | int | None = None
    convert: Convert | None = None

    def rows(self, stream: Sequence[Row], outputs: Mapping[str, Sequence[Row]]) -> list[Row]:
        """The rows, given those of the stream and of the operators before."""
        match self.origin:
            case None:
                found = list(stream)
            case int():
                found = [row for row in stream if row[LEAF] == self.origin]
            case _:
                found = sorted(outputs[self.origin], key=repr)
        if self.convert is None:
            return found
        return [row for row in map(self.convert, found) if row is not None]


@dataclass(frozen=True)
class Node:
    """An operator in its place.

    Attributes:
        flow: the operator.
        inputs: what it reads.
    """

    flow: Flow
    inputs: tuple[Read, ...] = (Read(),)

    @property
    def behind(self) -> frozenset[str]:
        """The operators that it reads."""
        return frozenset(read.origin for read in self.inputs if isinstance(read.origin, str))


@dataclass(frozen=True)
class Mark:
    """A watermark.

    Attributes:
        column: the event time of the rows, in milliseconds.
        delay_ms: how far it is behind the latest event.
        leaf: whose rows count; None: all.
    """

    column: str
    delay_ms: int
    leaf: int | None = None


@dataclass(frozen=True)
class Graph:
    """The operators of a query, each behind the ones that it reads.

    Attributes:
        nodes: by name.
        marks: its watermarks; the lowest one is the query's.
    """

    nodes: Mapping[str, Node]
    marks: tuple[Mark, ...] = ()

    def __post_init__(self) -> None:
        known = set[str]()
        for name, node in self.nodes.items():
            invariant(node.behind <= known, f"{name} reads {sorted(node.behind - known)}, which do not come before it")
            known.add(name)

    @classmethod
    def of(cls, given: Flow | Mapping[str, Flow] | Graph) -> Graph:
        """A graph; or operators side by side, each of which reads every row and marks it with its own delay."""
        if isinstance(given, Graph):
            return given
        flows = given if isinstance(given, Mapping) else {given.name: given}
        marks = tuple(Mark(flow.time, flow.delay_ms) for flow in flows.values() if flow.delay_ms is not None)
        return cls({name: Node(flow) for name, flow in flows.items()}, marks)

    @property
    def flows(self) -> dict[str, Flow]:
        """The operators."""
        return {name: node.flow for name, node in self.nodes.items()}

    def delay_ms(self, name: str) -> int:
        """How far the watermark of an operator is behind the query's: as far as the operators before it hold rows back."""
        return max(
            (self.delay_ms(each) + self.nodes[each].flow.holds_back_ms for each in self.nodes[name].behind), default=0
        )

    def operator(self, name: str) -> Operator:
        """What the tasks of an operator run."""
        operator, delay_ms = self.nodes[name].flow.operator, self.delay_ms(name)
        return Delayed(operator, delay_ms) if delay_ms else operator

    def inputs(self, name: str, stream: Sequence[Row], outputs: Mapping[str, Sequence[Row]]) -> list[list[Row]]:
        """The rows of each input of an operator."""
        return [read.rows(stream, outputs) for read in self.nodes[name].inputs]
