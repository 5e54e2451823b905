"""Compiles an aggregation of a program once, at the start of a query, to an `AggregatePlan`.

Spark itself analyses the program and evaluates every expression, the final ones included, so results, types and
column names are the same as in Spark. This module adds the cut between them (see `decomposition`), the key that decides
when a group is closed, and a description of the state's layout.

It must never execute anything, and never accept what it cannot compute as Spark would: it rejects that by name.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructField, StructType

from binshift.errors import Unsupported
from binshift.invariants import invariant
from binshift.operators.add_stored import STORED_PREFIX
from binshift.operators.merge import MergeSpec
from binshift.spark.plan.catalyst import Catalyst, Expression, children, class_name, sequence
from binshift.spark.plan.eventtime import expiry_ms, marked
from binshift.spark.stages.aggregateplan import AggregatePlan, difference
from binshift.spark.stages.buffers import ORDER_COLUMN
from binshift.spark.stages.decomposition import Decomposition, by_name
from binshift.spark.stages.keytypes import check_keys
from binshift.spark.stages.windows import key_text

__all__ = ["AggregatePlan", "compile_aggregate", "difference"]

SESSION_WINDOW_KEY = "spark.sessionWindow"
"""Column metadata with which Spark's analysis marks session windows."""


def session_key(node: Any) -> int | None:
    """The position of a session window among the keys of Spark's analysed ``Aggregate``."""
    keys = [] if class_name(node) == "Distinct" else sequence(node.groupingExpressions())
    marked = (class_name(key) == "AttributeReference" and key.metadata().contains(SESSION_WINDOW_KEY) for key in keys)
    return next((at for at, is_session in enumerate(marked) if is_session), None)


def compile_aggregate(rows: DataFrame, node: Any, output_mode: str = "update") -> AggregatePlan:
    """Compile an aggregation.

    Args:
        rows: its input, streaming or not; only its columns matter. Its event time is marked with `WATERMARK_KEY`.
        node: Spark's analysed `Aggregate` of these rows, or `Distinct`.
        output_mode: Spark's ``append``, ``update`` or ``complete``.

    Raises:
        Unsupported: something that cannot be kept as mergeable state (named in the message); or append without a watermark on a key.
        AnalysisException: Spark's own error, for what Spark itself rejects.
    """
    catalyst = Catalyst(rows.sparkSession)
    if class_name(node) == "Distinct":
        grouping = outputs = sequence(node.child().output())
    else:
        grouping, outputs = (sequence(each) for each in (node.groupingExpressions(), node.aggregateExpressions()))
    schema = StructType.fromJson(json.loads(node.schema().json()))
    return _Compilation(catalyst, rows, node, grouping, outputs, schema).plan(output_mode)


@dataclass(frozen=True)
class _Compilation:
    """One compilation; each property is one part of the plan.

    Attributes:
        catalyst: the session's expression trees.
        frame: the grouped frame.
        node: Spark's analysis of the whole.
        grouping: the grouping expressions as Spark resolved them.
        named: the output expressions as Spark resolved them.
        wanted: the schema that Spark gives it.
    """

    catalyst: Catalyst
    frame: DataFrame
    node: Any
    grouping: Sequence[Expression]
    named: Sequence[Expression]
    wanted: StructType

    def plan(self, output_mode: str) -> AggregatePlan:
        """Build the plan, find the types of its parts, and check that its schema is the one that Spark would return."""
        if self.catalyst.asks_for_time(self.node):
            self._check_times()
        names = [f"k{i}" for i in range(len(self.keys))]
        partial = self.frame.select(*self.keys, *self.inputs).groupBy(*names).agg(*self.partials)
        fields = [_plain(field) for field in partial.schema]
        key_type, buffer_type, merged = (
            StructType(part) for part in (fields[: len(names)], fields[len(names) :], fields)
        )
        self._check_keys(key_type)
        self._check_result(partial.select(*self.finals).schema)
        zone = self.frame.sparkSession.conf.get("spark.sql.session.timeZone")
        position = self._event_time_position(output_mode)
        return AggregatePlan(
            keys=self.keys,
            inputs=self.inputs,
            partials=self.partials,
            finals=self.finals,
            key_schema=to_arrow_schema(key_type, timezone=zone),
            buffer_schema=to_arrow_schema(buffer_type, timezone=zone),
            merges=tuple(
                MergeSpec(g.merge, c, g.overflow, self.parts.labels[g]) for g, c in self.parts.columns.items()
            ),
            merged_type=merged,
            event_time_key=None
            if position is None
            else expiry_ms(self.catalyst, merged[position].name, merged[position].dataType),
            description=self._description(merged, position),
            keyless=not self.grouping,
            ordered=bool(self.parts.opaque),
            parts=self.parts,
            key_names=self._key_names,
            buffer_names=self.parts.buffer_names(),
            merged_by_spark={
                name: each.merged(f"{STORED_PREFIX}{name}", name)
                for group, each in self.parts.opaque.items()
                for name in self.parts.columns[group]
                if not each.listed
            },
        )

    @cached_property
    def outputs(self) -> list[Expression]:
        """The output expressions as Spark resolved them, without their names."""
        return [output.child() if class_name(output) == "Alias" else output for output in self.named]

    @cached_property
    def parts(self) -> Decomposition:
        """The inputs and buffers of all outputs."""
        return Decomposition(self.catalyst, self.grouping, self.outputs, listed=session_key(self.node) is not None)

    @cached_property
    def keys(self) -> tuple[Column, ...]:
        """The keys, named. Spark's optimiser must not recognise the key of a global aggregate as a constant: it would drop it
        from the grouping and move all rows to a partition of its own choice."""
        columns = [self.catalyst.column(tree) for tree in self.grouping]
        return tuple(
            column.alias(f"k{i}") for i, column in enumerate(columns or [F.spark_partition_id().bitwiseAND(F.lit(0))])
        )

    @cached_property
    def inputs(self) -> tuple[Column, ...]:
        """The columns that are needed of each row in addition to the keys."""
        found = self.parts.inputs()
        ordered = any(ORDER_COLUMN in _identifiers(each) for group in self.parts.columns for each in group.partials)
        if ordered or self.parts.opaque:
            found.append(F.monotonically_increasing_id().alias(ORDER_COLUMN))
        return tuple(found)

    @cached_property
    def partials(self) -> tuple[Column, ...]:
        """The partial aggregates over prepared rows."""
        return tuple(
            (self.parts.opaque[group].partial if group in self.parts.opaque else _sql(partial)).alias(name)
            for group, names in self.parts.columns.items()
            for partial, name in zip(group.partials, names, strict=True)
        )

    @cached_property
    def finals(self) -> tuple[Column, ...]:
        """The output columns with the names, metadata and nullability that Spark gives them."""
        columns = []
        for tree, field in zip(self.parts.finals(), self.wanted, strict=True):
            column = self.catalyst.column(tree if field.nullable else self.catalyst.not_null(tree))
            columns.append(
                column.alias(field.name, metadata=field.metadata) if field.metadata else column.alias(field.name)
            )
        return tuple(columns)

    def _event_time_position(self, output_mode: str) -> int | None:
        """The position of the key that carries the event time, as Spark's analysis has followed it."""
        found = marked(self.grouping)
        if len(found) > 1:
            raise Unsupported(
                "groupBy has several keys made of the event time; keep one (a window or the column itself)"
            )
        if output_mode == "append" and not found:
            raise Unsupported(
                "output mode append emits a group when it is closed, so one key must be the event-time column of "
                "withWatermark or a window over it; add one, or use output mode update or complete"
            )
        return found[0] if found and output_mode != "complete" else None

    @property
    def _key_names(self) -> tuple[str, ...]:
        named = ("AttributeReference", "Alias")
        return tuple(
            str(tree.name()) if class_name(tree) in named else by_name(self.catalyst, tree) for tree in self.grouping
        )

    def _check_times(self) -> None:
        """Let Spark reject what it rejects in a stream's first batch: the batch's time within an aggregate."""
        found, trees = [], list(self.outputs)
        while trees:
            tree = trees.pop()
            if class_name(tree) != "AggregateExpression":
                trees += children(tree)
            elif self.catalyst.asks_for_time(tree):
                found.append(self.catalyst.column(self.catalyst.batch_time(tree)))
        if found:
            self.frame.agg(*found)

    def _check_keys(self, keys: StructType) -> None:
        names = [str(tree.sql()) for tree in self.grouping]
        check_keys("groupBy", [StructField(name, key.dataType) for name, key in zip(names, keys, strict=False)])

    def _check_result(self, found: StructType) -> None:
        ours, sparks = ([(f.name, f.dataType.simpleString()) for f in schema] for schema in (found, self.wanted))
        invariant(ours == sparks, f"compiled to {ours} where Spark returns {sparks}")

    def _description(self, merged: StructType, event_time: int | None) -> tuple[str, ...]:
        texts = [key_text(self.catalyst, self.node.child(), key) for key in self.grouping]
        keys = [f"key: {text} as {field.dataType.simpleString()}" for text, field in zip(texts, merged, strict=False)]
        expires = [] if event_time is None else [f"a group is over by its key {event_time + 1}"]
        buffers = [
            f"{self.parts.describe(group)} as {', '.join(merged[name].dataType.simpleString() for name in names)}"
            for group, names in self.parts.columns.items()
        ]
        return (*(keys or ["no key"]), *expires, *buffers)


def _plain(field: StructField) -> StructField:
    return StructField(field.name, field.dataType, field.nullable)


def _identifiers(partial: str) -> list[str]:
    return re.findall(r"\w+", partial)


def _sql(partial: str) -> Column:
    product = re.fullmatch(r"product\((.*)\)", partial)  # the one aggregate that has no SQL name
    return F.product(F.expr(product[1])) if product else F.expr(partial)
