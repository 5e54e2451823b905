"""One query that is filled, left calm, moved from 2 workers to 4 and back, and measured throughout."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from footprint import watched
from latency import latencies_of
from measuring import Bench, await_batch
from moving import SETTLE_SECONDS, Times, columns
from pyspark.sql import functions as F

import binshift

MOVE_SECONDS_MAX = 500.0


@dataclass(frozen=True)
class Case:
    """How state is moved."""

    keys: int
    bins: int
    strategy: str = "Optimized"
    pre_copy: bool = True
    batch_size: int = 256
    rate: int = 10_000

    def name(self) -> str:
        """A short name."""
        return f"{self.keys:,} keys, {self.strategy}{'' if self.pre_copy else ' without pre-copy'}"


def start(running: Bench, case: Case) -> Any:
    """The count and a sum, on the first two of the workers."""
    stream = running.stream(keys=case.keys, prefill=case.keys, rate=case.rate)
    frame = stream.groupBy("k").agg(F.count("*").alias("n"), F.sum("value").alias("total"))
    writer = (
        binshift.writeStream(frame, workers=2, bins=case.bins, batch_size=case.batch_size)
        .format("noop")
        .outputMode("update")
    )
    return writer.option("checkpointLocation", running.checkpoint()).start()


Begin = Callable[[Bench, Case], Any]
"""Starts the query of a case."""


def warm(running: Bench, case: Case, seconds: float, begin: Begin = start) -> None:
    """Run such a query with few keys, unmeasured: until the JVMs have compiled, every epoch is slow, and a move shows no spike."""
    few = Case(min(case.keys, 100_000), case.bins, rate=case.rate)
    query = begin(running, few)
    await_batch(query, 8)
    time.sleep(seconds / 2)
    for workers in (4, 2):
        query.rescale(workers).wait(MOVE_SECONDS_MAX)
        time.sleep(seconds / 4)
    query.stop()


def out_and_back(
    running: Bench, case: Case, settle_epochs: int, calm_seconds: float, begin: Begin = start
) -> list[dict[str, Any]]:
    """Fill, wait until calm, move out, wait, move back, wait; a row for each of the two moves."""
    query = begin(running, case)
    await_batch(query, settle_epochs)
    time.sleep(SETTLE_SECONDS)
    moves = list(_moves(running, query, case, calm_seconds))
    query.stop()
    found = latencies_of(query.recentProgress, case.keys, case.rate)
    rows = []
    for workers, times, memory in moves:
        epochs = [each for each in query.timings if times.began <= each.committed_at <= times.ended]
        row: dict[str, Any] = {"keys": case.keys, "bins": case.bins, "strategy": case.strategy}
        row |= {"pre_copy": case.pre_copy, "to": workers} | columns(found, times)
        row |= {"rows_per_s": case.keys / 2 / (times.ended - times.began)}
        row |= {"epochs": len(epochs), "reruns": sum(each.runs - 1 for each in epochs)} | memory
        row |= {"_epoch_ms": epoch_ms(query.timings, times)}
        rows.append(row)
    return rows


def epoch_ms(timings: Sequence[Any], times: Times) -> dict[str, tuple[float, float]]:
    """Mean milliseconds of each part of an epoch, in calm times and while moving."""
    calm = [each.seconds for each in timings if times.calm_from <= each.committed_at < times.began]
    moving = [each.seconds for each in timings if times.began <= each.committed_at <= times.ended]
    parts = dict.fromkeys(part for seconds in [*calm, *moving] for part in seconds)
    return {part: (_mean_ms(calm, part), _mean_ms(moving, part)) for part in parts}


def _mean_ms(epochs: Sequence[Mapping[str, float]], part: str) -> float:
    return round(1000 * sum(each.get(part, 0.0) for each in epochs) / max(1, len(epochs)), 1)


def _moves(
    running: Bench, query: Any, case: Case, calm_seconds: float
) -> Iterator[tuple[int, Times, dict[str, object]]]:
    for workers in (4, 2):
        calm_from = time.time()
        time.sleep(calm_seconds)
        with watched(running.cluster) as memory:
            began = time.time()
            query.rescale(workers, strategy=case.strategy, pre_copy=case.pre_copy).wait(MOVE_SECONDS_MAX)
            ended = time.time()
        time.sleep(SETTLE_SECONDS + calm_seconds)
        yield workers, Times(calm_from, began, ended, time.time()), memory.columns()
