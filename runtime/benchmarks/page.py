"""Writes the results into docs/benchmarks.md and docs/scale.md, between their markers, and draws the plots.

A line ``<!-- bench: NAME -->`` begins a table and ``<!-- end -->`` ends it; NAME is a benchmark, or ``targets`` for all figures
that have a target, or ``machine``. With ``--check`` nothing is written, and the exit status shows whether the page is up to date.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import bench_adoption
import bench_bins
import bench_calm
import bench_large
import bench_log
import bench_move
import bench_operators
import bench_planner
import bench_processors
import bench_rebalance
import bench_respark
import bench_rows
import bench_scale
import bench_standby
import bench_state
import bench_takeover
import bench_timers
from archive import RESULTS, Row, load
from plots import draw
from tables import markdown
from targets import Target, summary

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGES = (DOCS / "benchmarks.md", DOCS / "scale.md")
MARKED = re.compile(r"(<!-- bench: (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)
JUDGED: Mapping[str, tuple[Sequence[Target], Callable[[Row], str]]] = {
    module.__name__.removeprefix("bench_"): (module.TARGETS, module.named)
    for module in (
        *(bench_move, bench_scale, bench_respark, bench_state, bench_calm, bench_bins, bench_log, bench_rows),
        *(bench_planner, bench_operators, bench_processors, bench_timers, bench_adoption, bench_rebalance, bench_large),
        *(bench_standby, bench_takeover),
    )
}
MOVED = ("calm_p50_s", "calm_p99_s", "after_p99_s", "moving_p50_s", "moving_max_s", "spike", "seconds")
COLUMNS: Mapping[str, Sequence[str]] = {
    "move": ("keys", "strategy", "pre_copy", "to", *MOVED, "rows_per_s", "silent_s", "skipped"),
    "memory": ("keys", "strategy", "pre_copy", "to", "mib_before", "mib_max", "own_mib_before", "own_mib_max"),
    "scale": ("keys", "to", *MOVED, "silent_s", "skipped", "start_s", "register_s", "warm_s", "copy_s", "flip_s"),
    "respark": ("system", "keys", *MOVED, "silent_s", "stop_s", "rewrite_s"),
    "state": ("keys", "bins", "to", *MOVED, "rows_per_s", "peak_over_first"),
    "chains": ("case", "engine", "p50_s", "p99_s", "over_one", "plan_ms", "plan_over_one", "compile_s"),
    "operators": ("case", "engine", "epochs", "p50_s", "rows_per_s", "over_spark"),
    "eviction": ("case", "ended", "none_s", "p50_s", "over_none", "us_per_ended"),
    "joinmove": ("case", "stored", "moves", *MOVED, "worst_spike", "silent_s", "skipped"),
    "timers": ("keys", "to", *MOVED, "silent_s", "skipped"),
    "large": ("workers", "bins", "epoch_ms", "round_ms", "move_ms", "record_kib", "manifest_kib", "log_mib", "open_s"),
    "requests": ("workers", "bins", "puts", "gets", "lists", "deletes", "dollars_per_hour"),
}
"""Columns that are shown, where not all are."""
SOURCES = {"memory": "move", "requests": "large", **dict.fromkeys(("chains", "eviction", "joinmove"), "operators")}
HAVING = {"chains": "over_one", "operators": "rows_per_s", "eviction": "over_none", "joinmove": "spike"}
"""A column of the rows that are shown, where not all are."""


def main() -> int:
    """Write the page and the plots, or check whether they are up to date."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing; fail if the page is out of date")
    check = parser.parse_args().check
    outdated = 0
    for path in PAGES:
        before = path.read_text(encoding="utf-8")
        after = rendered(before)
        if check:
            print(f"docs/{path.name} " + ("is up to date" if before == after else "does not match the results"))
            outdated += before != after
        else:
            path.write_text(after, encoding="utf-8")
    if check:
        return outdated
    for name in sorted(each.stem for each in RESULTS.glob("*.json")):
        if (picture := draw(name, load(name), DOCS / "images")) is not None:
            print(picture.name)
    return 0


def rendered(page: str) -> str:
    """The page with every marked place filled from the results."""
    return MARKED.sub(lambda found: f"{found[1]}\n{block(found[2])}\n\n{found[3]}", page)


def block(name: str) -> str:
    """The text between two markers."""
    if name == "targets":
        return markdown([line for each in JUDGED for line in judged(each)])
    if name == "machine":
        return machine()
    if name == "parts":
        found = parts(load("move"))
        return markdown(found) if found else missing("move")
    source = SOURCES.get(name, name)
    rows = [row for row in load(source) if name not in HAVING or HAVING[name] in row]
    if not rows:
        return missing(source)
    wanted = COLUMNS.get(name)
    shown = markdown([{column: row.get(column) for column in wanted} for row in rows] if wanted else rows)
    return f"{shown}\n\n{measured(rows)}"


def missing(name: str) -> str:
    """The text in place of missing results."""
    return f"*Not measured yet on a quiet machine: `make bench BENCH={name}`.*"


def parts(rows: Sequence[Row]) -> list[dict[str, object]]:
    """The time of an epoch's parts while the largest state moves out, next to calm times before."""
    out = [row for row in rows if row["to"] == 4 and row["strategy"] == "Optimized" and row["pre_copy"]]
    timed = [row for row in out if row.get("_epoch_ms")]
    if not timed:
        return []
    largest = max(timed, key=lambda row: row["keys"])
    name = f"{largest['keys']:,} keys, mean ms"
    return [
        {"part": part.replace("_", " ", 1), f"{name}, calm": calm, f"{name}, moving": moving}
        for part, (calm, moving) in largest["_epoch_ms"].items()
    ]


def judged(name: str) -> list[dict[str, object]]:
    """The figures of a benchmark next to their targets."""
    targets, named = JUDGED[name]
    return [{"benchmark": name, **line} for line in summary(load(name), targets, named)]


def measured(rows: Sequence[Row]) -> str:
    """The dates and commits of the measurements."""
    dates = sorted({row["_date"].split()[0] for row in rows})
    commits = list(dict.fromkeys(row["_commit"] for row in rows))
    busy = [row["_elsewhere"] for row in rows if "_elsewhere" in row]
    others = f"; others used {max(busy):.2f} cores meanwhile" if busy else ""
    return f"Measured {' and '.join(dates)}, commit {', '.join(commits)}{others}."


def machine() -> str:
    """The machine of the newest results."""
    kept = {max(row["_date"] for row in load(path.stem)): path for path in RESULTS.glob("*.json")}
    if not kept:
        return markdown([])
    facts = json.loads(kept[max(kept)].read_text(encoding="utf-8"))["machine"]
    return markdown([{"what": name.replace("_", " "), "figure": str(value)} for name, value in facts.items()])


if __name__ == "__main__":
    sys.exit(main())
