"""A compiled aggregation: the parts of ``groupBy(...).agg(...)`` that every epoch runs.

    batch -> prepare (keys, inputs) -> exchange by worker -> partial (one row a key) -> S merges -> final

This module owns the form of the parts; `aggregates` builds them. The Columns refer to columns by name, so they fit every
micro-batch with the schema they were compiled for. It must never execute anything.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql.types import StructType

from binshift.operators.merge import MergeSpec
from binshift.spark.stages.buffers import ORDER_COLUMN
from binshift.spark.stages.decomposition import Decomposition


@dataclass(frozen=True)
class AggregatePlan:
    """The parts. The driver uses the Columns; tasks need only the schemas and merges, which can be pickled.

    Attributes:
        keys: the grouping columns, as ``k0..``, over a micro-batch. A global aggregate has one constant key.
        inputs: the columns that the aggregates read, as ``i0..``, over a micro-batch.
        partials: the partial aggregates, as ``p0..``, over prepared rows.
        finals: the user's output columns, over keys and merged buffers.
        key_schema: ``k0..`` as Arrow, as the JVM sends them.
        buffer_schema: ``p0..`` as Arrow.
        merges: how the buffers are merged with stored ones.
        merged_type: keys and buffers as a Spark type; this is what S returns.
        event_time_key: over keys: the end of a group in milliseconds since 1970, null for never. A group is closed once this is
            at or below the watermark; its rows are late from the next epoch on. None without a watermark on a key, and in complete
            mode, which keeps every group.
        description: one line for each property that determines the layout of the state.
        keyless: whether it is a global aggregate.
        ordered: whether the partial aggregates depend on the order of rows, as the ones that only Spark understands may.
        parts: how the program's aggregates are cut into buffers.
        key_names: of the grouping columns in the program.
        buffer_names: of the buffers as Spark has them, with the arguments where a name is not unique.
        merged_by_spark: by buffer that Spark merges: that merge, over the new and the stored buffer (see `opaque`).
    """

    keys: tuple[Column, ...]
    inputs: tuple[Column, ...]
    partials: tuple[Column, ...]
    finals: tuple[Column, ...]
    key_schema: pa.Schema
    buffer_schema: pa.Schema
    merges: tuple[MergeSpec, ...]
    merged_type: StructType
    event_time_key: Column | None
    description: tuple[str, ...]
    keyless: bool = False
    ordered: bool = False
    parts: Decomposition | None = None
    key_names: tuple[str, ...] = ()
    buffer_names: tuple[str, ...] = ()
    merged_by_spark: Mapping[str, Column] = field(default_factory=dict)

    @property
    def fingerprint(self) -> str:
        """Equal for two programs if and only if they can share a state; 32 hexadecimal digits."""
        return hashlib.blake2b("\n".join(self.description).encode(), digest_size=16).hexdigest()

    def prepare(self, batch: DataFrame) -> DataFrame:
        """Keys and inputs of each row. Sliding windows multiply rows; rows without event time are dropped, as in Spark."""
        return batch.select(*self.keys, *self.inputs)

    def partial(self, prepared: DataFrame, by: Sequence[str] = (), more: Sequence[Column] = ()) -> DataFrame:
        """One row per key: the columns ``by``, keys, buffers and ``more``, in this order.

        Args:
            prepared: the result of `prepare`; further columns are allowed.
            by: columns that are functions of the key. After ``repartitionById(n, "w")``, a ``by`` with ``"w"`` in it
                keeps Spark from planning a second exchange.
            more: aggregates that are not part of the state.
        """
        rows = prepared.sortWithinPartitions(ORDER_COLUMN) if self.ordered else prepared
        return rows.groupBy(*by, *self.key_schema.names).agg(*self.partials, *more)

    def final(self, merged: DataFrame) -> DataFrame:
        """The user's output, computed from rows that have keys and merged buffers; further columns are allowed."""
        return merged.select(*self.finals)


def difference(stored: Sequence[str], compiled: Sequence[str]) -> str | None:
    """The difference between two descriptions, for the error about a checkpoint of another program; None if they are equal.

    >>> print(difference(["key: bigint id", "count: count(1)"], ["key: bigint id", "sum: sum(x)"]))
    the state has
      count: count(1)
    but the program needs
      sum: sum(x)
    """
    if list(stored) == list(compiled):
        return None
    gone, new = Counter(stored) - Counter(compiled), Counter(compiled) - Counter(stored)
    if not gone and not new:
        return f"the state has its keys in the order {list(stored)}, the program needs {list(compiled)}"
    parts = [("the state has", gone), ("but the program needs", new)]
    return "\n".join(f"{title}\n  " + ("\n  ".join(lines) or "nothing else") for title, lines in parts)
