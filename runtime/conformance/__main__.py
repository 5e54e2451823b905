"""The command line: ``python -m conformance``, or ``make conformance``."""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

from pyspark.sql import SparkSession

from binshift.errors import BinshiftError
from conformance import report, runner
from conformance.cluster import Sessions, sessions
from conformance.moves import Moves
from conformance.outcome import Outcome
from conformance.program import Program
from conformance.programs import PROGRAMS

REPORT = Path("build/conformance.md")
AGAIN, CALM, MOVED = "again", "calm", "with moves"
EPILOG = """\
Each program runs on Spark, then on binshift without moves, then on binshift with bins moved after every step. Rows are compared
with Spark's step by step. Exit status: 0 if every program gave what Spark gave or was refused, else 1.

  python -m conformance --list              name, output mode and purpose of every program
  python -m conformance                     everything; writes build/conformance.md
  python -m conformance -k session -k limit programs with "session" or "limit" in kind/name
  python -m conformance --engine spark      check the programs: Spark must give the same result twice
  python -m conformance --engine binshift   without moves, which saves a third of the time
"""


def arguments(given: Sequence[str] | None) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m conformance",
        description="Compare binshift with Spark on small streaming programs.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--engine", choices=["all", "spark", "binshift"], default="all", help="the runs (see below)")
    parser.add_argument("-k", metavar="TEXT", action="append", default=[], help="only programs whose kind/name has it")
    parser.add_argument("--list", action="store_true", help="list the programs and exit")
    parser.add_argument("--report", metavar="FILE", type=Path, default=REPORT, help=f"the table; {REPORT} by default")
    return parser.parse_args(given)


def main(given: Sequence[str] | None = None) -> int:
    """Run what the command line requests; returns the exit status."""
    options = arguments(given)
    chosen = [
        each for each in PROGRAMS if not options.k or any(text in f"{each.kind}/{each.name}" for text in options.k)
    ]
    if not chosen:
        _write(f"no program has {' or '.join(map(repr, options.k))} in its name; --list shows all")
        return 1
    if options.list:
        for each in chosen:
            _write(f"{each.kind}/{each.name} [{each.output_mode}] {each.purpose}")
        return 0
    names = {"all": [CALM, MOVED], "binshift": [CALM], "spark": [AGAIN]}[options.engine]
    with tempfile.TemporaryDirectory(prefix="conformance-", ignore_cleanup_errors=True) as directory:
        try:
            with sessions(Path(directory) / "cluster", cluster=options.engine != "spark") as made:
                results = _all(chosen, made, names, Path(directory))
        except BinshiftError as failed:
            _write(str(failed))
            return 1
    text = report.table(results, names)
    options.report.parent.mkdir(parents=True, exist_ok=True)
    options.report.write_text(text, encoding="utf-8")
    _write(f"\n{text}\nwritten to {options.report}")
    return 1 if any(problem for each in results for problem in each.problems()) else 0


def _all(chosen: Sequence[Program], made: Sessions, names: Sequence[str], folder: Path) -> list[report.Result]:
    """Compare all of them; Spark runs its own in a thread, ahead of the comparison."""
    tried = made.spark.newSession() if names == [AGAIN] else made.binshift()
    folders = [folder / f"{each.kind}-{each.name}".replace(" ", "-") for each in chosen]
    results = []
    with ThreadPoolExecutor(1) as thread:
        expected = [
            thread.submit(runner.run, each, made.spark, own / "spark")
            for each, own in zip(chosen, folders, strict=True)
        ]
        try:
            for number, (program, own, spark) in enumerate(zip(chosen, folders, expected, strict=True), start=1):
                result = _one(program, spark, tried, names, own, Moves(number))
                results.append(result)
                _write(f"{number}/{len(chosen)} {result.line()}")
                for problem in result.problems():
                    _write(f"    {problem}")
        finally:
            thread.shutdown(wait=False, cancel_futures=True)
    return results


def _one(
    program: Program, expected: Future[Outcome], tried: SparkSession, names: Sequence[str], folder: Path, moves: Moves
) -> report.Result:
    began, runs = time.monotonic(), dict[str, Outcome]()
    for name in (each for each in names if each != MOVED or not program.calm):
        runs[name] = runner.run(program, tried, folder / name, moves if name == MOVED else None)
        if runs[name].refused:
            break
    return report.Result(
        program, expected.result(), runs, moves.settled if MOVED in runs else None, time.monotonic() - began
    )


def _write(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
