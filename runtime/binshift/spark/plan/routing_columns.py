"""F: a row's bin and the partition it goes to, as Catalyst expressions (generated Java code, no Python).

``bin = pmod(xxhash64(keys), bins)``, Megaphone's F operator. The partition of a bin is an element of an array literal, which is no part of
Spark's generated code: that of one route is that of each other. In standing tasks the partition is the bin, so that a new route needs no new
plan either.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from binshift.model import Worker
from binshift.operators.contract import BIN_COLUMN
from binshift.routing import Route

PARTITION_COLUMN = "__partition"
"""The partition of the epoch's exchange that a row goes to."""


def bin_of(keys: Sequence[Column], bins: int) -> Column:
    """Each row's bin; all rows share bin 0 if there are no keys."""
    if not keys:
        return F.lit(0).cast("int")
    return F.pmod(F.xxhash64(*keys), F.lit(bins)).cast("int")


@dataclass(frozen=True, eq=False)
class Exchange:
    """Where an epoch's exchange sends rows, by their bins.

    Attributes:
        partitions: how many there are.
        of_bin: for each bin its partition.
    """

    partitions: int
    of_bin: np.ndarray

    @classmethod
    def by_owner(cls, route: Route, workers: Sequence[Worker]) -> Exchange:
        """One partition for each worker: that of the bin's owner, by its position in ``workers``."""
        position = np.zeros(max(workers) + 1, dtype=np.int32)
        position[list(workers)] = np.arange(len(workers))
        return cls(len(workers), position[route.owners])

    @classmethod
    def by_bin(cls, bins: int) -> Exchange:
        """One for each bin, whatever the route: standing tasks find the owner themselves."""
        return cls(bins, np.arange(bins, dtype=np.int32))

    def column(self, bin: Column) -> Column:
        """`PARTITION_COLUMN`: each row's partition."""
        array = F.from_json(F.lit(json.dumps(self.of_bin.tolist())), "array<int>")
        # Keys may be constants, such as a batch's time. The partition must not be one: Spark would fold it away.
        never_constant = F.spark_partition_id().bitwiseAND(F.lit(0))
        return (F.element_at(array, bin + 1) + never_constant).alias(PARTITION_COLUMN)

    def apply(self, rows: DataFrame) -> DataFrame:
        """Every row to its `PARTITION_COLUMN`."""
        return rows.repartitionById(self.partitions, F.col(PARTITION_COLUMN))


class RouteColumns:
    """The columns that F adds.

    Args:
        bin: each row's bin.
        further: other columns to add to every row.
    """

    def __init__(self, bin: Column, further: Sequence[Column] = ()) -> None:
        self._bin = bin
        self._fixed = [bin.alias(BIN_COLUMN), *further]

    def added(self, exchange: Exchange) -> list[Column]:
        """`BIN_COLUMN`, the further columns, and `PARTITION_COLUMN`."""
        return [*self._fixed, exchange.column(self._bin)]
