"""The definition of a user's query as frozen data, complete before anything runs.

The frame and the writer record into these types and nothing else; the query compiles them. A definition holds Spark
objects of the driver (frames, columns, functions), so it is never pickled or stored: what must survive a restart is the
fingerprint of the compiled operator, on the log.

What follows the stateful operator is kept as calls and replayed on every epoch's result, because that result is a new
frame in each epoch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql.types import StructType

from binshift.operators.vectorised import StateFunction
from binshift.settings import Settings
from binshift.spark.sinks.contract import Sink


@dataclass(frozen=True)
class GroupedAggregation:
    """`groupBy(...).agg(...)`.

    Attributes:
        group_columns: the keys, as the user gave them: unresolved, or resolved on the source (then bound by name).
        agg_columns: the aggregates, likewise.
    """

    group_columns: tuple[Column, ...]
    agg_columns: tuple[Column, ...]


@dataclass(frozen=True)
class ArrowState:
    """`groupBy(...).applyInArrowWithState(...)`.

    Attributes:
        func: the user's function.
        keys: the grouping columns, unresolved: they hold for any frame with the source's columns.
        output_schema: the columns that it returns.
        state_schema: the state's columns, without the keys.
        output_mode: "update" or "append"; the writer's must be the same.
    """

    func: StateFunction
    keys: tuple[Column, ...]
    output_schema: StructType
    state_schema: StructType
    output_mode: str = "update"


Operator = GroupedAggregation | ArrowState
"""The stateful part of a query: a closed set."""


@dataclass(frozen=True)
class Call:
    """One stateless method called on the result of the operator.

    Attributes:
        name: the name of the method of `pyspark.sql.DataFrame`.
        args: its positional arguments.
        kwargs: its keyword arguments.
    """

    name: str
    args: tuple[Any, ...] = ()
    kwargs: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Definition:
    """A query, complete.

    Attributes:
        source: the user's stream with all stateless calls before the operator; Spark's own plan, without Spark state. It includes
            the watermarks.
        operator: the stateful part.
        after: stateless methods on its result, in order; see `replay`.
        settings: resolved and checked.
        schema: the columns that reach the sink, after all calls.
    """

    source: DataFrame
    operator: Operator
    after: tuple[Call, ...]
    settings: Settings
    schema: StructType


@dataclass(frozen=True)
class WriterOptions:
    """The arguments of `writeStream`.

    Attributes:
        query_name: None if it was not set.
        sink: the destination of each epoch's result.
        output_mode: "append" or "update".
        checkpoint_location: a directory or URL; always set.
        trigger: the arguments for Spark's `trigger`; empty for its default.
        options: the writer's options that are neither settings nor the checkpoint's location.
    """

    query_name: str | None
    sink: Sink
    output_mode: str
    checkpoint_location: str
    trigger: Mapping[str, str | bool]
    options: Mapping[str, str]


def replay(result: DataFrame, calls: Sequence[Call]) -> DataFrame:
    """An epoch's result after the recorded calls."""
    for call in calls:
        result = getattr(result, call.name)(*call.args, **call.kwargs)
    return result
