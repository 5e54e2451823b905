"""The result of a conformance run: one line per program while it runs, and a Markdown table by kind at the end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from conformance.outcome import Outcome
from conformance.program import Program

DIFFERENCES_MAX = 8
"""Differences of one run that are listed; the rest is counted."""


@dataclass(frozen=True)
class Result:
    """A program with the outcome of each of its runs.

    Attributes:
        program: the program.
        expected: on Spark.
        runs: the name of each run that is compared with Spark's -> its outcome.
        moves: how often bins were moved in the run with moves, by strategy; None without such a run.
        seconds: of all runs together.
    """

    program: Program
    expected: Outcome
    runs: dict[str, Outcome]
    moves: Counter[str] | None
    seconds: float

    @property
    def refused(self) -> str:
        """Why binshift refused the program; empty if it did not."""
        return next((each.refused for each in self.runs.values() if each.refused), "")

    def same(self, run: str) -> bool:
        """Whether this run was compared and gave what Spark gave."""
        return run in self.runs and not any(self.runs[run].differences(self.expected)) and not self.runs[run].refused

    def problems(self) -> Iterator[str]:
        """Everything that is wrong with this result; a refusal is not."""
        if self.program.fails != bool(self.expected.error):
            error = f"{self.expected.error or 'none'} {self.expected.detail}".strip()
            yield f"Spark: error {error}; the program declares fails={self.program.fails}"
        if not self.expected.rows and not self.program.fails:
            yield "Spark: no step has rows, so the comparison proves nothing"
        if self.moves is not None and not self.moves.total() and not self.refused and not self.expected.error:
            yield "no bin was moved, so the run with moves proves nothing"
        for name, outcome in self.runs.items():
            found = [] if outcome.refused else list(outcome.differences(self.expected))
            yield from (f"{name}: {each}" for each in found[:DIFFERENCES_MAX])
            if len(found) > DIFFERENCES_MAX:
                yield f"{name}: and {len(found) - DIFFERENCES_MAX} more"

    def line(self) -> str:
        """One line for the terminal."""
        state = "DIFFERENT" if any(self.problems()) else "refused" if self.refused else "same"
        steps = " ".join(str(len(step)) for step in self.expected.steps)
        what = f"rows per step {steps}" if not self.expected.error else self.expected.error
        moved = f", {self.moves.total()} moves" if self.moves else ""
        return f"{state:9} {self.program.kind}/{self.program.name} ({what}{moved}; {self.seconds:.1f} s)"


def table(results: Sequence[Result], names: Sequence[str]) -> str:
    """Markdown: for each kind the number of programs, and in how many of them each run gave what Spark gave.

    Args:
        results: of all programs.
        names: of the runs that were compared.
    """
    heads = ["kind", "programs", *(f"same, {name}" for name in names), "refused"]
    lines = [_cells(heads), _cells(["---", *("---:" for _ in heads[1:])])]
    kinds = list(dict.fromkeys(each.program.kind for each in results))
    for kind in [*kinds, "all"]:
        those = [each for each in results if kind in (each.program.kind, "all")]
        counts = [sum(each.same(name) for each in those) for name in names]
        lines.append(_cells([kind, str(len(those)), *map(str, counts), str(sum(bool(each.refused) for each in those))]))
    return "\n".join([*lines, "", *_ran(results), *_details(results)])


def _ran(results: Sequence[Result]) -> Iterator[str]:
    """How long all runs took, and how often each strategy moved bins, by kind of program."""
    yield from (f"All runs took {sum(each.seconds for each in results) / 60:.0f} minutes.", "")
    used: dict[str, Counter[str]] = {}
    for each in results:
        if each.moves:
            used.setdefault(each.program.kind, Counter()).update(each.moves)
    if used:
        names = sorted({name for counts in used.values() for name in counts})
        yield from (_cells(["moves", *names]), _cells(["---", *("---:" for _ in names)]))
        total = sum(used.values(), Counter[str]())
        yield from (
            _cells([kind, *(str(counts[name]) for name in names)]) for kind, counts in [*used.items(), ("all", total)]
        )
        yield ""


def _details(results: Sequence[Result]) -> Iterator[str]:
    different = [(each, list(each.problems())) for each in results if any(each.problems())]
    if different:
        yield from ("## Different", "")
        for result, problems in different:
            yield f"- `{result.program.kind}/{result.program.name}` ({result.program.source}): {result.program.purpose}"
            yield from (f"  - {each}" for each in problems)
        yield ""
    refused = [each for each in results if each.refused]
    if refused:
        yield from ("## Refused", "")
        yield from (f"- `{each.program.kind}/{each.program.name}`: {each.refused.splitlines()[0]}" for each in refused)
        yield ""


def _cells(values: Sequence[str]) -> str:
    return f"| {' | '.join(values)} |"
