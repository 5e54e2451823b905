"""F: a row's bin and the partition it goes to, as Catalyst expressions (generated Java code, no Python).

``bin = pmod(xxhash64(keys), bins)``, Megaphone's F operator. The route of the epoch is an array literal: it changes
from epoch to epoch without changing the shape of the plan, so Spark reuses its generated code.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

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


def partitions_of(route: Route, workers: Sequence[Worker]) -> np.ndarray:
    """For each bin the partition (position in ``workers``) of its owner."""
    position = np.zeros(max(workers) + 1, dtype=np.int32)
    position[list(workers)] = np.arange(len(workers))
    partitions: np.ndarray = position[route.owners]
    return partitions


class RouteColumns:
    """Builds the columns that F adds and keeps them while the route is unchanged: each call into the JVM costs time.

    Args:
        bin: each row's bin.
        further: other columns to add to every row.
    """

    def __init__(self, bin: Column, further: Sequence[Column] = ()) -> None:
        self._bin = bin
        self._fixed = [bin.alias(BIN_COLUMN), *further]
        self._cache: Mapping[tuple[Route, tuple[Worker, ...]], list[Column]] = {}

    def added(self, route: Route, workers: tuple[Worker, ...]) -> list[Column]:
        """`BIN_COLUMN`, the further columns, and `PARTITION_COLUMN`."""
        if (route, workers) not in self._cache:
            text = "[" + ",".join(map(str, partitions_of(route, workers).tolist())) + "]"
            array = F.from_json(F.lit(text), "array<int>")
            # Keys may be constants, such as a batch's time. The partition must not be one: Spark would fold it away.
            never_constant = F.spark_partition_id().bitwiseAND(F.lit(0))
            partition = (F.element_at(array, self._bin + 1) + never_constant).alias(PARTITION_COLUMN)
            self._cache = {(route, workers): [*self._fixed, partition]}
        return self._cache[route, workers]


def exchanged(rows: DataFrame, workers: int) -> DataFrame:
    """The epoch's one exchange: every row to the partition of its bin's owner."""
    return rows.repartitionById(workers, F.col(PARTITION_COLUMN))
