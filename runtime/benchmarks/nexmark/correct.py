"""Whether every query returns what the oracle returns: on Spark, on binshift, and on binshift while bins move and an executor dies."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from measuring import Bench

from binshift.errors import Unsupported
from nexmark.engines import writer
from nexmark.inputs import Inputs
from nexmark.moves import Script
from nexmark.oracle import Oracle
from nexmark.query import Query
from nexmark.results import Results, Sink, clock

WORKERS = 2


@dataclass
class Checked:
    """One run of one query.

    Attributes:
        system: which run it was.
        problems: differences to the oracle and to the run without moves, and errors.
        refused: why binshift does not run the query.
        rows: the rows that it returned.
        seconds: how long it took.
        moved_by: the batch at which the last move had ended.
    """

    query: str
    system: str
    problems: list[str] = field(default_factory=list)
    refused: str = ""
    rows: int = 0
    seconds: float = 0.0
    moved_by: int | None = None

    @property
    def verdict(self) -> str:
        """One word."""
        return "refused" if self.refused else "differs" if self.problems else "equal"

    def row(self) -> dict[str, Any]:
        """The figures, for the results."""
        shown = {"query": self.query, "system": self.system, "verdict": self.verdict, "rows": self.rows}
        return shown | {
            "seconds": round(self.seconds, 1),
            "moved_by": self.moved_by,
            "_problems": [*self.problems, *([self.refused] if self.refused else [])],
        }


@dataclass(frozen=True)
class Checker:
    """Runs queries over the same events and compares their rows."""

    running: Bench
    inputs: Inputs
    oracle: Oracle
    bins: int

    def check(self, query: Query, scripts: list[Script]) -> Iterator[Checked]:
        """A run on Spark, one on binshift, and one for each script; for a query without state only the first."""
        yield self._run(query, "spark")
        if not query.state:
            return
        yield self._run(query, "calm", compared="spark", bins=self.bins, workers=WORKERS)
        for script in scripts:
            during = partial(script.run, cluster=self.running.cluster)
            bins = script.bins(self.bins)
            yield self._run(query, str(script), compared="calm", during=during, bins=bins, workers=WORKERS)

    def _run(
        self,
        query: Query,
        system: str,
        *,
        compared: str = "",
        during: Callable[[Any], int] | None = None,
        **settings: Any,
    ) -> Checked:
        found, began = Checked(query.name, system), time.monotonic()
        rows, checkpoint = Results(self._folder(query, system)), self.running.checkpoint()
        try:
            frame = query.build(self.inputs.stream(self.running.spark))
            started: Any = writer(frame, query, checkpoint, **settings).foreachBatch(Sink(rows.folder)).start()
        except Unsupported as refused:
            found.refused = str(refused)
            return found
        try:
            found.moved_by = None if during is None else during(started)
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
        return self.running.directory / "results" / query.name / system.replace(", ", "-").replace(" ", "-")
