"""Takes what the query puts out: in update mode, each epoch's new values of the keys that changed.

A sink in the sense of `binshift.spark.sinks`, idempotent by epoch: an epoch that runs again replaces its rows. Arrow
tables are kept as they come, since the epoch waits while a sink writes; they are concatenated when they are read.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import pandas as pd

from binshift.spark.sinks import Guarantee
from flights_demo.reference import KEYS, STATISTICS, typed

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class Results:
    """The last word on each key."""

    name = "the demo's results"
    guarantee = Guarantee.IDEMPOTENT
    drains = False

    def __init__(self) -> None:
        self._epochs: dict[int, Any] = {}
        self._folded = typed(pd.DataFrame(columns=[*KEYS, *STATISTICS]))
        self._lock = threading.Lock()

    def write(self, result: DataFrame, epoch: int) -> None:
        """Keep an epoch's rows."""
        table = result.toArrow()
        with self._lock:
            self._epochs[epoch] = table

    def close(self) -> None:
        """The rows stay readable."""

    def latest(self, epoch: int) -> pd.DataFrame:
        """Each key with its newest values, as of ``epoch``; a committed one, as later ones may yet be replaced."""
        with self._lock:
            ready = [self._epochs.pop(each) for each in sorted(self._epochs) if each <= epoch]
        if ready:
            frames = [self._folded, *(typed(table.to_pandas(integer_object_nulls=True)) for table in ready)]
            everything = pd.concat([frame for frame in frames if len(frame)] or frames[:1])
            self._folded = everything.drop_duplicates(list(KEYS), keep="last", ignore_index=True)
        return self._folded


def worst_routes(latest: pd.DataFrame, count: int, flights_min: int) -> list[tuple[str, int, float]]:
    """Routes with the largest mean delay: name, flights, minutes."""
    routes = latest[(latest["scope"] == "route") & (latest["departed"] >= flights_min)]
    worst = routes.nlargest(count, "delay_mean")
    return [(str(row.key), int(row.flights), float(row.delay_mean)) for row in worst.itertuples()]
