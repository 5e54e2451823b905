"""Whether every query returns what the oracle returns, on Spark and on binshift."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from measuring import Bench

from binshift.errors import Unsupported
from nexmark.engines import writer
from nexmark.inputs import Inputs
from nexmark.oracle import Oracle
from nexmark.query import Query
from nexmark.results import Results, Sink, clock

WORKERS = 2


@dataclass
class Checked:
    """One run of one query.

    Attributes:
        system: which run it was.
        problems: differences to the oracle and to the run on Spark, and errors.
        refused: why binshift does not run the query.
        rows: the rows that it returned.
        seconds: how long it took.
    """

    query: str
    system: str
    problems: list[str] = field(default_factory=list)
    refused: str = ""
    rows: int = 0
    seconds: float = 0.0

    @property
    def verdict(self) -> str:
        """One word."""
        return "refused" if self.refused else "differs" if self.problems else "equal"

    def row(self) -> dict[str, Any]:
        """The figures, for the results."""
        shown = {"query": self.query, "system": self.system, "verdict": self.verdict, "rows": self.rows}
        return shown | {
            "seconds": round(self.seconds, 1),
            "_problems": [*self.problems, *([self.refused] if self.refused else [])],
        }


@dataclass(frozen=True)
class Checker:
    """Runs queries over the same events and compares their rows."""

    running: Bench
    inputs: Inputs
    oracle: Oracle
    bins: int

    def check(self, query: Query) -> Iterator[Checked]:
        """A run on Spark, and one on binshift; for a query without state only the first."""
        yield self._run(query, "spark")
        if query.state:
            yield self._run(query, "binshift", compared="spark", bins=self.bins, workers=WORKERS)

    def _run(self, query: Query, system: str, *, compared: str = "", **settings: Any) -> Checked:
        found, began = Checked(query.name, system), time.monotonic()
        rows, checkpoint = Results(self._folder(query, system)), self.running.checkpoint()
        try:
            frame = query.build(self.inputs.stream(self.running.spark))
            started: Any = writer(frame, query, checkpoint, **settings).foreachBatch(Sink(rows.folder)).start()
        except Unsupported as refused:
            found.refused = str(refused)
            return found
        try:
            started.processAllAvailable()
        except Exception as failed:
            # Whatever ends a query is a finding, and the next one runs.
            found.problems.append(f"{type(failed).__name__}: {' '.join(str(failed).split())[:500]}")
            return found
        finally:
            started.stop()
            found.seconds = time.monotonic() - began
        found.rows = rows.rows()
        found.problems += self._differences(query, rows, Path(checkpoint), compared)
        return found

    def _differences(self, query: Query, rows: Results, checkpoint: Path, compared: str) -> Iterator[str]:
        expected = self.oracle.expected(query, clock(checkpoint) if query.by_clock else None)
        if found := rows.against(expected, query.key):
            yield f"oracle: {found}"
        if compared and not query.by_clock:
            other = Results(self._folder(query, compared))
            if found := rows.against_run(other, self.inputs.steps):
                yield f"{compared}, batch by batch: {found}"

    def _folder(self, query: Query, system: str) -> Path:
        return self.running.directory / "results" / query.name / system
