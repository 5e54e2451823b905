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
from binshift.routing import Route

PARTITION_COLUMN = "__partition"
"""Which partition of the epoch's exchange a row goes to."""


def bin_of(keys: Sequence[Column], bins: int) -> Column:
    """Each row's bin; all rows share bin 0 where there are no keys."""
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
    """Builds the partition column and keeps it as long as the route stays."""

    def __init__(self) -> None:
        self._cache: Mapping[tuple[Route, tuple[Worker, ...]], Column] = {}

    def partition(self, bin: Column, route: Route, workers: tuple[Worker, ...]) -> Column:
        """The partition of a row, from its bin, as `PARTITION_COLUMN`."""
        if (route, workers) not in self._cache:
            text = "[" + ",".join(map(str, partitions_of(route, workers).tolist())) + "]"
            array = F.from_json(F.lit(text), "array<int>")
            self._cache = {(route, workers): F.element_at(array, bin + 1).alias(PARTITION_COLUMN)}
        return self._cache[route, workers]


def exchanged(rows: DataFrame, workers: int) -> DataFrame:
    """The epoch's one exchange: every row to the partition of its bin's owner."""
    return rows.repartitionById(workers, F.col(PARTITION_COLUMN))
