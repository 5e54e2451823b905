"""One run of one query, and whether it returned what the oracle and another run returned."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from binshift.errors import Unsupported
from binshift.spark.session.jvm import install
from nexmark.engines import for_small_batches, writer
from nexmark.inputs import Inputs
from nexmark.moves import Calm, Proof
from nexmark.oracle import Oracle
from nexmark.query import Query
from nexmark.results import Results, Sink, clock

ERROR_LETTERS_MAX = 500


@dataclass
class Checked:
    """One run of one query.

    Attributes:
        system: which run it was.
        problems: differences to the oracle and to another run, errors, and what was not proved.
        refused: why binshift does not run the query.
        rows: the rows that it returned.
        seconds: how long it took.
        proof: what happened meanwhile.
    """

    query: str
    system: str
    problems: list[str] = field(default_factory=list)
    refused: str = ""
    rows: int = 0
    seconds: float = 0.0
    proof: Proof = field(default_factory=Proof)

    @property
    def verdict(self) -> str:
        """One word."""
        return "refused" if self.refused else "differs" if self.problems else "equal"

    def row(self) -> dict[str, Any]:
        """The figures, for the results."""
        shown = {"query": self.query, "system": self.system, "verdict": self.verdict, "rows": self.rows}
        return shown | {
            "moved": self.proof.moved or None,
            "meanwhile": self.proof.meanwhile or None,
            "seconds": round(self.seconds, 1),
            "_problems": [*self.problems, *([self.refused] if self.refused else [])],
        }


@dataclass(frozen=True)
class Places:
    """The folders of a run's rows and of its checkpoint."""

    folder: Path

    def rows(self, query: str, system: str) -> Path:
        """Where its sink keeps its rows."""
        return self.folder / "rows" / query / system

    def checkpoint(self, query: str, system: str) -> Path:
        """What it continues from."""
        return self.folder / "checkpoints" / query / system


@dataclass(frozen=True)
class Runner:
    """Runs queries over the same events; several at the same time, each in a thread of its own."""

    spark: SparkSession
    inputs: Inputs
    places: Places

    def run(self, query: Query, system: str, disturbance: Calm | None = None, **settings: Any) -> Checked:
        """Run a query to the end of its input: on binshift with these settings, on Spark without settings."""
        found, began, disturbed = Checked(query.name, system), time.monotonic(), disturbance or Calm()
        install(self.spark)  # Spark uses a class of it, too
        sink, session = Sink(self.places.rows(query.name, system)), self.spark.newSession()
        checkpoint = str(self.places.checkpoint(query.name, system))
        for name, value in ({} if settings else for_small_batches(query)).items():
            session.conf.set(name, value)
        started: Any = None
        try:
            made = writer(query.build(self.inputs.stream(session)), query, checkpoint, **settings)
            started = made.foreachBatch(disturbed.sink(sink)).start()
            disturbed.disturb(started)
            started.processAllAvailable()
        except Unsupported as refused:
            found.refused = str(refused)
        except Exception as failed:
            # Whatever ends a query is a finding, and the next one runs.
            found.problems.append(error_text(failed))
        finally:
            if started is not None:
                started.stop()
        found.seconds = time.monotonic() - began
        if found.verdict == "equal":
            found.proof = disturbed.proof(started)
            found.problems += found.proof.problems
        return found


def error_text(error: Exception) -> str:
    """An error in one line."""
    return f"{type(error).__name__}: {' '.join(str(error).split())[:ERROR_LETTERS_MAX]}"


@dataclass(frozen=True)
class Judge:
    """Compares the rows of runs.

    Attributes:
        oracle: of these inputs.
        inputs: what the runs have read.
        places: of their rows.
        is_beginning: whether the run to compare with has read more, so that only batches with data compare.
    """

    oracle: Oracle
    inputs: Inputs
    places: Places
    is_beginning: bool = False
    _one: threading.Lock = field(default_factory=threading.Lock)

    def judged(self, query: Query, run: Checked, compared: str = "") -> Checked:
        """The run with its rows and what is different about them."""
        rows = Results(self.places.rows(query.name, run.system))
        if rows.exist:
            with self._one:
                run.rows = rows.rows()
                run.problems += self._differences(query, run.system, rows, compared)
        return run

    def _differences(self, query: Query, system: str, rows: Results, compared: str) -> Iterator[str]:
        checkpoint = self.places.checkpoint(query.name, system)
        expected = self.oracle.expected(query, clock(checkpoint) if query.by_clock else None)
        if found := rows.against(expected, query.key):
            yield f"oracle: {found}"
        if compared and not query.by_clock:
            other = Results(self.places.rows(query.name, compared))
            if found := rows.against_run(other, self.inputs.steps, beginning=self.is_beginning):
                yield f"{compared}, batch by batch: {found}"
