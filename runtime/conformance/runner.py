"""Runs one program on one engine and returns its outcome.

binshift runs the query if it is installed in the session, else Spark does. Each step's files become visible, the query processes them, and what
all batches since the step before returned is the step's result. The sink keeps rows by batch, as a batch may run again.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from binshift.errors import Unsupported
from conformance import files
from conformance.outcome import Outcome, condition, text
from conformance.program import Program

PROGRAM_SECONDS_MAX = 900
"""A query that takes longer is stopped, and the program has failed."""

DETAIL_LETTERS_MAX = 300

AfterStep = Callable[[StreamingQuery, int], None]
"""Called with the query and the number of the step that it has processed."""


@dataclass
class Sink:
    """Keeps the rows of each batch since `take`; the newest run of a batch counts."""

    ordered: bool
    repeats: bool
    columns: str = ""
    batches: dict[int, list[str]] = field(default_factory=dict)
    failure: Exception | None = None
    """Why the rows of a batch could not be computed: Spark only reports that the sink has failed."""

    def __call__(self, frame: DataFrame, batch: int) -> None:
        """Keep a batch."""
        self.columns = frame.schema.simpleString()
        try:
            self.batches[batch] = [text(tuple(row)) for row in frame.collect()]
        except Exception as failed:
            self.failure = failed
            raise

    def take(self) -> tuple[str, ...]:
        """The rows of the batches since the last call; with ``repeats``, those of the newest batch so far."""
        counted = sorted(self.batches)[-1:] if self.repeats else sorted(self.batches)
        rows = [row for batch in counted for row in self.batches[batch]]
        self.batches = {batch: self.batches[batch] for batch in counted if self.repeats}
        return tuple(rows) if self.ordered else tuple(sorted(rows))


def run(program: Program, session: SparkSession, folder: Path, after_step: AfterStep | None = None) -> Outcome:
    """Run a program on the session's engine, in an empty folder."""
    sink = Sink(program.ordered, program.repeats)
    with _conf(session, program):
        try:
            query = _start(program, session, folder, sink)
        except Unsupported as refused:
            return Outcome(refused=str(refused))
        except Exception as failed:
            # Whatever a program raises is its outcome, and the next program runs.
            return Outcome(error=condition(failed), detail=_detail("at start", failed))
        with _stopped(query):
            return _steps(program, folder, query, sink, after_step)


def _start(program: Program, session: SparkSession, folder: Path, sink: Sink) -> StreamingQuery:
    source = folder / "in"
    source.mkdir(parents=True)
    frames = [files.read(session, source, number, each) for number, each in enumerate(program.inputs)]
    writer = program.build(frames).writeStream.outputMode(program.output_mode).foreachBatch(sink)
    return writer.option("checkpointLocation", str(folder / "checkpoint")).start()


def _steps(program: Program, folder: Path, query: StreamingQuery, sink: Sink, after_step: AfterStep | None) -> Outcome:
    steps: list[tuple[str, ...]] = []
    for step in range(program.steps):
        try:
            files.put(program, folder / "in", step, query)
            query.processAllAvailable()
            if after_step is not None:
                after_step(query, step)
                query.processAllAvailable()
        except Unsupported as refused:
            return Outcome(refused=str(refused))
        except Exception as failed:
            # As above.
            cause = sink.failure or failed
            return Outcome(sink.columns, tuple(steps), condition(cause), _detail(f"in step {step}", cause))
        steps.append(sink.take())
        if not query.isActive:
            return Outcome(sink.columns, tuple(steps), f"stopped after {PROGRAM_SECONDS_MAX} s", f"in step {step}")
    return Outcome(
        sink.columns, (tuple(sorted(row for rows in steps for row in rows)),) if program.whole else tuple(steps)
    )


def _detail(when: str, error: Exception) -> str:
    return f"{when}: {' '.join(str(error).split())[:DETAIL_LETTERS_MAX]}"


@contextmanager
def _stopped(query: StreamingQuery) -> Iterator[None]:
    """Stop the query at the end, and in any case after `PROGRAM_SECONDS_MAX`."""
    timer = threading.Timer(PROGRAM_SECONDS_MAX, query.stop)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        query.stop()


@contextmanager
def _conf(session: SparkSession, program: Program) -> Iterator[None]:
    before: dict[str, Any] = {name: session.conf.get(name, None) for name in program.conf}
    for name, value in program.conf.items():
        session.conf.set(name, value)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                session.conf.unset(name)
            else:
                session.conf.set(name, value)
