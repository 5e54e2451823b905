"""`rescale`: two workers to four, all at once, prepared, and by Spark's own means; the move that users make.

Spark's way is to stop the query, rewrite its state offline, and start it again; rows that are due meanwhile wait. The conditions favour
Spark, as in `bench_respark`: its executors are running and warm, and its session is kept.
"""

from __future__ import annotations

import math
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from functools import partial
from typing import Any

from latency import Latencies, latencies_of
from measuring import Bench, await_batch
from targets import Row, Target

from nexmark.engines import writer
from nexmark.figures import over_time, pictures, prose
from nexmark.figures.experiment import Experiment, Rows
from nexmark.figures.loads import LOADS, Load
from nexmark.figures.spikes import Shot, calm, recovered, together
from nexmark.figures.stage import FILL_SECONDS_MAX, Pace
from nexmark.figures.ways import ALL_AT_ONCE, OPTIMIZED, WORKERS, Rescale, chosen
from nexmark.queries import QUERIES

SPARK = "spark"
CAUGHT_UP_SECONDS = 20.0
SPARK_SETTLE_EPOCHS = 12
"""Unmeasured, after its state is filled: Spark's epochs are several times as long."""
PARTITIONS = "spark.sql.shuffle.partitions"


def options(parser: ArgumentParser) -> None:
    """Those of `latency`, and whether Spark is measured too."""
    over_time.options(parser, ("q3", "q8"), (ALL_AT_ONCE.name, OPTIMIZED.name))
    parser.add_argument("--no-spark", action="store_true", help="without Spark's own stop, repartition and start")
    parser.add_argument("--spark-seconds", type=float, default=CAUGHT_UP_SECONDS, help="after Spark has started again")


def count(options: Namespace, pace: Pace) -> int:
    """Moves of all queries; one of Spark's each."""
    spark = 0 if options.no_spark else 1
    return len(options.queries) * (pace.count(chosen(options.ways)) + spark)


def run(running: Bench, options: Namespace, pace: Pace) -> Rows:
    """binshift's ways, then Spark's."""
    yield from over_time.run(Rescale, running, options, pace)
    for query in [] if options.no_spark else options.queries:
        row = by_spark(running, query, LOADS[query].chosen(options), options.spark_seconds, pace)
        yield {"query": query, "strategy": SPARK, **row}
        pace.done()


def by_spark(running: Bench, query: str, load: Load, seconds: float, pace: Pace) -> Row:
    """Stop, repartition, start; it has ended when latency is as low as before."""
    place = running.checkpoint()
    started = _started(running, query, load, place, WORKERS // 2)
    await_batch(started, SPARK_SETTLE_EPOCHS, FILL_SECONDS_MAX)
    calm_from = time.time()
    time.sleep(3 * pace.calm_seconds)
    state = sum(each["numRowsTotal"] for each in started.lastProgress["stateOperators"])
    began = time.time()
    started.stop()
    stopped, before = time.time(), started.recentProgress
    running.spark._streamingCheckpointManager.repartition(place, WORKERS, enforce_exactly_once_sink=False)
    rewritten = time.time()
    started = _started(running, query, load, place, WORKERS)
    await_batch(started, before[-1]["batchId"] + 4, FILL_SECONDS_MAX)
    time.sleep(seconds)
    started.stop()
    found = latencies_of([*before, *started.recentProgress], load.prefill, load.rate)
    shot = _until_recovered(found, Shot(SPARK, calm_from, began, rewritten, time.time()))
    parts = {"stop_s": stopped - began, "rewrite_s": rewritten - stopped}
    return {"state_rows": state, **together(found, [shot], [shot]), **parts}


def _started(running: Bench, query: str, load: Load, place: str, partitions: int) -> Any:
    running.spark.conf.set(PARTITIONS, str(partitions))
    try:  # from its start on, the query has a session of its own
        frame = QUERIES[query].build(load.stream(running.spark))
        return writer(frame, QUERIES[query], place).format("noop").start()
    finally:
        running.spark.conf.set(PARTITIONS, str(WORKERS // 2))


def _until_recovered(found: Latencies, shot: Shot) -> Shot:
    """The same, ended when records are as early as before; at the end of the run if they never were."""
    before = Shot(shot.way, shot.calm_from, shot.began, shot.began, shot.began)
    seconds = recovered(found, max(calm(found, [before]), default=math.inf), shot.began)
    ended = min(shot.began + seconds, shot.calm_to)
    return Shot(shot.way, shot.calm_from, shot.began, ended, ended)


def sentence(rows: Sequence[Row]) -> str:
    """The longest silences."""
    silent = {
        name: prose.between(prose.of(rows, "silent_s", prose.way(name)), " s")
        for name in (SPARK, ALL_AT_ONCE.name, OPTIMIZED.name)
    }
    return (
        f"The longest time between two commits is {silent[OPTIMIZED.name]} where the move is prepared, {silent[ALL_AT_ONCE.name]} all at "
        f"once, and {silent[SPARK]} by Spark's own means. {prose.spikes(rows)}"
    )


RESCALE = Experiment(
    name="rescale",
    title="Two workers to four",
    paper="Rhino, changes of rate; not in Megaphone, whose set of workers is fixed",
    finding=(
        "Megaphone places Structured Streaming among the systems that stop and restart. Rhino reports that a reconfiguration is 15 times "
        "faster than by the best system before, and latency lower by three orders of magnitude."
    ),
    method=(
        "Half of the state moves from two warm workers to four, which share the two cores. Four to two is not measured. Spark stops the query, "
        "repartitions the state offline from two partitions to four, and starts again; it is measured once."
    ),
    minutes=10,
    case=("query", "strategy"),
    columns=(*over_time.COLUMNS_OF_MOVES, "silent_s", "stop_s", "rewrite_s"),
    targets=(Target("longest silence", "silent_s", 1.5, of=prose.is_prepared, unit=" s"), *over_time.TARGETS[:2]),
    named=over_time.named,
    sentence=sentence,
    paint=partial(pictures.over_time, by="query"),
    options=options,
    quick=over_time.QUICK | {"spark_seconds": 2.0},
    count=count,
    run=run,
)
