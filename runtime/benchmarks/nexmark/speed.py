"""Each query with state on Spark and on binshift, side by side: the same events in the same batches, on the same two executors."""

from __future__ import annotations

import statistics
import tempfile
from argparse import Namespace
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from archive import Row, save
from measuring import Bench, bench
from options import WATCH
from rich.progress import track
from tables import text
from targets import Target, verdicts

from nexmark.engines import CONF, writer
from nexmark.inputs import Inputs
from nexmark.queries import QUERIES
from nexmark.query import Query

WORKERS = 2
WARM_BATCHES = 24
"""Of each run, not measured: plans are made, and the JVMs compile."""
CASE = ("query",)


def _by_processor(row: Row) -> bool:
    return QUERIES[row["query"]].needs_processor


TARGETS = (
    Target("events a second over Spark's", "ratio", 1.0, at_least=True, of=lambda row: not _by_processor(row)),
    Target("the same, by transformWithState", "ratio", 5.0, at_least=True, of=_by_processor),
)


@dataclass(frozen=True)
class Measured:
    """The measured batches of a run, or of two.

    Attributes:
        events: of a batch.
        seconds: of each, from trigger to commit.
    """

    events: int
    seconds: tuple[float, ...]

    @property
    def rate(self) -> float:
        """Events per second."""
        return self.events * len(self.seconds) / sum(self.seconds)

    def joined(self, other: Measured) -> Measured:
        """The batches of both runs."""
        return Measured(self.events, self.seconds + other.seconds)

    @property
    def median(self) -> float:
        """Seconds of a batch."""
        return statistics.median(self.seconds)


def run(options: Namespace, inputs: Inputs) -> int:
    """Measure, print and keep the results."""
    WATCH.start()
    chosen = [query for query in (QUERIES[name] for name in options.queries) if query.state]
    with bench(WORKERS, CONF) as running:
        inputs.write(running.spark)
        rows = list(_each(track(chosen, description="queries"), running, inputs, options))
    print(text([{name: value for name, value in row.items() if not name.startswith("_")} for row in rows]))
    print(text(verdicts(rows, TARGETS, named)))
    return 0


def named(row: Row) -> str:
    """A short name of a row."""
    return str(row["query"])


def _each(queries: Any, running: Bench, inputs: Inputs, options: Namespace) -> Iterator[Row]:
    settings = {"bins": options.bins, "workers": WORKERS}
    for query in queries:
        # A run of binshift lasts a few seconds, and one of Spark a minute, in which the machine's speed changes.
        before = _measured(query, "before", running, inputs, settings)
        spark = _measured(query, "spark", running, inputs, {})
        after = _measured(query, "after", running, inputs, settings)
        row = row_of(query.name, spark, before.joined(after))
        print(f"{query.name}: {row['binshift']:,.0f} events/s, Spark {row['spark']:,.0f}", flush=True)
        if not options.no_save:
            save("nexmark_speed", [row], CASE, elsewhere=WATCH.cores())
        yield row


def row_of(query: str, spark: Measured, binshift: Measured) -> Row:
    """The figures, for the results.

    >>> row_of("q5", Measured(1000, (2.0, 1.0, 1.0)), Measured(1000, (0.5, 0.5, 0.5)))["ratio"]
    2.667
    """
    return {
        "query": query,
        "events": spark.events,
        "spark": spark.rate,
        "binshift": binshift.rate,
        "ratio": round(binshift.rate / spark.rate, 3),
        "spark_batch_s": spark.median,
        "binshift_batch_s": binshift.median,
    }


def _measured(query: Query, name: str, running: Bench, inputs: Inputs, settings: dict[str, Any]) -> Measured:
    checkpoint = f"{running.directory}/{query.name}-{name}"
    made = writer(query.build(inputs.stream(running.spark.newSession())), query, checkpoint, **settings)
    started = made.format("noop").start()
    try:
        started.processAllAvailable()
        with_rows = [each for each in started.recentProgress if each["numInputRows"]]
    finally:
        started.stop()
    seconds = [each["durationMs"]["triggerExecution"] / 1000 for each in with_rows[WARM_BATCHES:]]
    return Measured(inputs.per_step, tuple(seconds))


def with_inputs(options: Namespace, config: Any) -> int:
    """`run` in a folder that is removed afterwards."""
    with tempfile.TemporaryDirectory(prefix="nexmark-") as name:
        return run(options, Inputs(Path(name) / "in", config, options.events, options.steps))
