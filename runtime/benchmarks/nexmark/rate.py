"""Rows a second of the same query on Spark and on binshift, which take turns on the same events.

Both read the events as fast as they can, a fixed number a batch, and write to the noop sink. Spark runs with two state partitions,
binshift with two workers: as many tasks at a time. What the events cost alone is measured by Q0, which has no state.
"""

from __future__ import annotations

import statistics
from argparse import Namespace
from collections.abc import Mapping
from functools import partial
from typing import Any

from measuring import Bench, System, Turn, open_loop, take_turns
from pyspark.sql import DataFrame

from nexmark.config import Config
from nexmark.engines import writer
from nexmark.events import streams
from nexmark.query import Query

SYSTEMS = ("spark", "binshift")


def compare(running: Bench, query: Query, args: Namespace) -> dict[str, Any]:
    """A row of figures for one query."""
    config = Config(group=args.group, in_flight_auctions=args.in_flight, rate=args.event_rate)
    systems: dict[str, System] = {"spark": partial(_start, running, query, config, {})}
    if query.state:
        systems["binshift"] = partial(_start, running, query, config, {"bins": args.bins, "workers": 2})
    found = take_turns(
        systems,
        lambda: open_loop(running.spark, keys=1, batch=args.batch),
        turns=args.turns,
        seconds=args.seconds,
        warm=tuple(systems),
        warm_seconds=args.warm_seconds,
    )
    return {"query": query.name, "state": ", ".join(query.state) or "none"} | figures(found, args.batch)


def _start(running: Bench, query: Query, config: Config, settings: Mapping[str, Any], stream: DataFrame) -> Any:
    frame = query.build(streams(stream.selectExpr("value AS n"), config))
    return writer(frame, query, running.checkpoint(), **settings).format("noop").start()


def figures(found: Mapping[str, Turn], batch: int) -> dict[str, Any]:
    """Rows a second of each system: those of a batch over the median time from trigger to commit."""
    rates = {f"{name}_rows_per_s": batch / statistics.median(turn.seconds) for name, turn in found.items()}
    row: dict[str, Any] = {**rates, "batches": min(len(turn.seconds) for turn in found.values())}
    if "binshift" in found:
        row["over_spark"] = rates["binshift_rows_per_s"] / rates["spark_rows_per_s"]
    return row
