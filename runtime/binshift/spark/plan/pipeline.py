"""A program as epochs run it: its source, its stateful stages one after the other, and the result; all compiled once.

    batch -> segment -> F => S -> segment -> F => S -> ... -> result

Each part is a template over the batch's rows and over what the stages before it return (see `template`).
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from binshift.invariants import invariant
from binshift.model import Worker
from binshift.operators.contract import Operator
from binshift.operators.delayed import Delayed, DelayedReader
from binshift.operators.stored import StoredRows
from binshift.routing import Route
from binshift.spark.plan.catalyst import analyzed, class_name, contains, optimized, sequence
from binshift.spark.plan.graph import Graph, Leaf, Node, Output, Segment
from binshift.spark.plan.readahead import ReadAhead
from binshift.spark.plan.routing_columns import Exchange
from binshift.spark.plan.stage import Stage, numbered, numbered_schema, selected
from binshift.spark.plan.template import Filling, Templates
from binshift.spark.tasks.task import pickled

UNREAD_NODES = ("GlobalLimit", "LocalLimit", "MapInArrow", "MapInPandas", "Offset", "Sample", "Sort", "Tail")
"""Nodes that may leave rows unread, as functions over an iterator of batches may, or that read the rows twice."""

OBSERVED_NODES = ("CollectMetrics",)
"""Nodes of `DataFrame.observe`."""

LEAF_COLUMN = "__leaf"
"""In a stream of several leaves: the number of a row's leaf."""

Compile = Callable[[Node, Sequence[DataFrame]], Stage]
"""Compiles a node over the frames of its inputs, which have the columns, ids included, of the plan's."""


@dataclass
class CompiledStage:
    """A stateful operator in its place.

    Attributes:
        name: its name on the log.
        stage: what is done with its rows.
        inputs: templates of its input rows.
        merged: the hole for the rows that S returns.
        delay_ms: how far its watermark is behind the query's, in milliseconds.
        node: what it was compiled of.
        initial: rows that are a further input in the first epoch; None without such.
    """

    name: str
    stage: Stage
    inputs: tuple[DataFrame, ...]
    merged: DataFrame
    delay_ms: int = 0
    node: Node | None = None
    initial: DataFrame | None = None
    _routed: tuple[tuple[Route, tuple[Worker, ...], bool], DataFrame] | None = field(default=None, init=False)
    _read: tuple[DataFrame, DataFrame] | None = field(default=None, init=False)

    @property
    def operator(self) -> Operator:
        """What S runs."""
        return Delayed(self.stage.operator, self.delay_ms) if self.delay_ms else self.stage.operator

    @property
    def stored(self) -> tuple[StoredRows, ...]:
        """The rows that it keeps, for readers."""
        return tuple(replace(rows, delay_ms=self.delay_ms) for rows in self.stage.stored)

    @functools.cached_property
    def pickled(self) -> bytes:
        """The operator, for tasks."""
        return pickled(self.operator)

    @functools.cached_property
    def pickled_reader(self) -> bytes:
        """What reads the state for Spark, for tasks."""
        reader = self.read_ahead.operator
        return pickled(DelayedReader(reader, self.delay_ms) if self.delay_ms else reader)

    @property
    def read_ahead(self) -> ReadAhead:
        """What Spark computes before S; only for a stage that has it."""
        found = self.stage.read_ahead
        invariant(found is not None, f"{self.name} leaves nothing to Spark")
        return cast(ReadAhead, found)

    def read(self, templates: Templates) -> tuple[DataFrame, DataFrame]:
        """The hole for the rows that the reader returns, and the template of the rows for S."""
        if self._read is None:
            hole = templates.hole_of(self.read_ahead.read_schema(self.routed_by_bin.schema))
            self._read = hole, self.read_ahead.applied(hole)
        return self._read

    def routed(self, route: Route, workers: tuple[Worker, ...], *, first: bool = False) -> DataFrame:
        """The template of F and the exchange, in the first epoch or a later one; made again when the route changes."""
        case = (route, workers, first)
        if self._routed is None or self._routed[0] != case:
            inputs = self.inputs if self.initial is None or not first else (*self.inputs, self.initial)
            self._routed = (case, self.stage.route(inputs, Exchange.by_owner(route, workers)))
        return self._routed[1]

    @functools.cached_property
    def routed_by_bin(self) -> DataFrame:
        """The template of F and an exchange by bin, for every route; not for the first epoch."""
        return self.stage.route(self.inputs, Exchange.by_bin(self.stage.bins))


@dataclass(frozen=True)
class Pipeline:
    """A compiled program.

    Attributes:
        source: the stream that Spark runs.
        batch: the hole for the rows of a batch of the source.
        stages: its stateful operators, in their order.
        result: the template of the rows for the sink.
        shared: holes whose rows are read several times, and must be computed once.
        drained: holes of which a reader may leave rows unread, or read them in a job of its own: S commits with its last row, so
            these rows are computed before.
        templates: fill in templates.
    """

    source: DataFrame
    batch: DataFrame
    stages: tuple[CompiledStage, ...]
    result: DataFrame
    shared: frozenset[DataFrame]
    drained: frozenset[DataFrame]
    templates: Templates

    @functools.cached_property
    def operators(self) -> dict[tuple[str, bool], bytes]:
        """Pickled: by the stage's name, what S runs (False) and what reads its state for Spark (True)."""
        reading = {(each.name, True): each.pickled_reader for each in self.stages if each.stage.read_ahead is not None}
        return reading | {(each.name, False): each.pickled for each in self.stages}

    @functools.cached_property
    def is_observed(self) -> bool:
        """Whether the program observes metrics behind a stateful operator."""
        return self.is_observed_between or contains(analyzed(self.result), OBSERVED_NODES)

    @functools.cached_property
    def is_observed_between(self) -> bool:
        """Whether it does so between two stateful operators."""
        return any(contains(analyzed(frame), OBSERVED_NODES) for stage in self.stages for frame in stage.inputs)

    def reads_batch(self, template: DataFrame) -> bool:
        """Whether a template has the batch among its holes."""
        return hole_number(self.batch) in hole_numbers(analyzed(template))

    def fill(self, template: DataFrame, filling: Filling, time_ms: int) -> DataFrame:
        """A template with the rows of one epoch, as of its batch's time (milliseconds since 1970)."""
        return self.templates.fill(template, filling, time_ms)


def assemble(graph: Graph, compile: Compile, templates: Templates) -> Pipeline:
    """Compile a graph's nodes, each over the templates of its inputs.

    Operators are named by their numbers and kinds: another graph has other names, and its checkpoint is refused.

    Raises:
        Unsupported: what ``compile`` rejects.
    """
    source = united(graph.leaves)
    batch = templates.hole(analyzed(source).output())
    stages: list[CompiledStage] = []
    reads: Counter[DataFrame] = Counter()

    def rows(segment: Segment) -> DataFrame:
        return templates.fill(segment.frame, {hole: rows_of(origin) for hole, origin in segment.holes.items()})

    def rows_of(origin: Leaf | Output) -> DataFrame:
        read = batch if isinstance(origin, Leaf) else stages[origin.node].merged
        reads[read] += 1
        if isinstance(origin, Output):
            return selected(stages[origin.node].stage.finish(read), origin.columns)
        return read if len(graph.leaves) == 1 else leaf_of(read, origin.number)

    def delay_of(segment: Segment) -> int:
        behind = [stages[origin.node] for origin in segment.holes.values() if isinstance(origin, Output)]
        return max((each.delay_ms + each.stage.holds_back_ms for each in behind), default=0)

    for number, node in enumerate(graph.nodes):
        inputs = tuple(rows(each) for each in node.inputs)
        stage = compile(node, inputs)
        merged, delay_ms = templates.hole_of(stage.merged_schema), max(delay_of(each) for each in node.inputs)
        made = CompiledStage(f"{number}.{stage.kind}", stage, inputs, merged, delay_ms, node, node.initial)
        stages.append(made)
    result = rows(graph.result)
    shared = frozenset(hole for hole, count in reads.items() if count > 1)
    drained = frozenset(each.merged for each in stages if _may_leave_rows(each.merged, stages, result))
    return Pipeline(source, batch, tuple(stages), result, shared - drained, drained, templates)


def _may_leave_rows(hole: DataFrame, stages: Sequence[CompiledStage], result: DataFrame) -> bool:
    """Whether no reader is sure to take every row of a hole in the epoch's job."""
    number = hole_number(hole)
    frames = [result, *(frame for stage in stages for frame in stage.inputs)]
    readers = [frame for frame in frames if number in hole_numbers(analyzed(frame))]
    if any(number not in hole_numbers(optimized(reader)) for reader in readers):
        return True  # the optimiser has found that the rows are not needed, as in a join with an empty frame
    return any(contains(analyzed(reader), UNREAD_NODES) for reader in readers)


def hole_number(hole: DataFrame) -> int:
    """What a hole is known by in a plan."""
    return int(analyzed(hole).rdd().id())


def hole_numbers(plan: Any) -> set[int]:
    """The numbers of the holes of a plan; other frames over an RDD have numbers, too."""
    leaves = sequence(plan.collectLeaves())
    return {int(leaf.rdd().id()) for leaf in leaves if class_name(leaf) == "LogicalRDD"}


def united(leaves: Sequence[DataFrame]) -> DataFrame:
    """One stream of all leaves: each row has the number of its leaf, and its columns in a struct of that leaf.

    Spark's `foreachBatch` has one frame. Sources, offsets, batch boundaries and watermarks are still the ones of the leaves.
    """
    if len(leaves) == 1:
        return leaves[0]
    types = [StructType(list(numbered_schema(leaf.schema))) for leaf in leaves]
    tagged = []
    for number, leaf in enumerate(leaves):
        own = F.struct(*(F.col(name) for name in types[number].names)) if types[number].names else F.struct(F.lit(0))
        columns = [
            (own if other == number else F.lit(None).cast(type)).alias(f"leaf{other}")
            for other, type in enumerate(types)
        ]
        tagged.append(numbered(leaf).select(F.lit(number).alias(LEAF_COLUMN), *columns))
    return functools.reduce(DataFrame.union, tagged)


def leaf_of(batch: DataFrame, number: int) -> DataFrame:
    """The rows of one leaf."""
    return batch.where(F.col(LEAF_COLUMN) == number).select(f"leaf{number}.*")
