"""docs/nexmark.md from the results, between the markers of `benchmarks/page.py`, and its plots. Computes no figure itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from archive import Row, load
from page import DOCS, MARKED, machine, measured
from plots import FAINT, INK, OTHER, OURS, plotted
from tables import markdown
from targets import Target, summary

from nexmark.queries import QUERIES
from nexmark.query import Query

PAGE = DOCS / "nexmark.md"
PAPER: Mapping[str, str] = {
    "q3": "> 100 ms / 10 ms",
    "q4": "> 2 s / <= 100 ms",
    "q5": "10 times the calm latency / no spike",
    "q6": "> 2 s / <= 100 ms",
    "q7": "> 2 s / <= 100 ms",
    "q8": "20 times and more / about 10 times",
}
"""Megaphone's peaks with all-at-once and batched migration (PVLDB 12(9), section 5.2, on 16 workers)."""
PREPARED = ("Batched", "Optimized")
LATENCY_TARGETS = (
    Target("spike of a prepared move over calm p99", "spike", 1.25, of=lambda row: row["strategy"] in PREPARED),
)
RATE_TARGETS = (
    Target(
        "rows a second over Spark's own", "over_spark", 1.0, at_least=True, of=lambda row: "With" not in row["state"]
    ),
    Target(
        "rows a second over Spark's own, processors",
        "over_spark",
        5.0,
        at_least=True,
        of=lambda row: "With" in row["state"],
    ),
)
LATENCY = ("query", "move", "strategy", "calm_p50_s", "calm_p99_s", "moving_max_s", "spike", "seconds")


def write(*, check: bool) -> int:
    """Write page and plots; or, with ``check``, only compare: 1 if the page is out of date."""
    before = PAGE.read_text(encoding="utf-8")
    after = rendered(before)
    if check:
        print("docs/nexmark.md " + ("is up to date" if before == after else "does not match the results"))
        return int(before != after)
    PAGE.write_text(after, encoding="utf-8")
    for name, paint in (("nexmark-latency", _latency), ("nexmark-rate", _rate)):
        if rows := load(name.replace("-", "_")):
            print(plotted(paint, rows, DOCS / "images" / f"{name}.png").name)
    return 0


def rendered(page: str) -> str:
    """The page with every marked place filled."""
    return MARKED.sub(lambda found: f"{found[1]}\n{block(found[2])}\n\n{found[3]}", page)


def block(name: str) -> str:
    """The text between two markers."""
    if name == "machine":
        return machine()
    if name == "queries":
        return markdown([_described(each) for each in QUERIES.values()])
    if name == "targets":
        return markdown(_targets())
    rows = load(f"nexmark_{name}")
    if not rows:
        return f"*Not measured yet: `make nexmark NEXMARK={name}`.*"
    shown = {"correct": verdicts, "latency": _latencies}.get(name, list)(rows)
    return f"{markdown(shown)}\n\n{measured(rows)}"


def verdicts(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """A line for each query: its verdict on Spark, calm, and of all moved runs and killed drivers."""
    lines = []
    for query in dict.fromkeys(row["query"] for row in rows):
        of = {row["system"]: row for row in rows if row["query"] == query}
        moved = {name: row for name, row in of.items() if name not in ("spark", "calm", "driver killed")}
        line = {"query": query, "rows": of["spark"]["rows"] if "spark" in of else None}
        line |= {name: of[name]["verdict"] if name in of else None for name in ("spark", "calm")}
        line["moved"] = "; ".join(f"{name}: {row['verdict']}" for name, row in moved.items()) or None
        lines.append(line | {"driver killed": of["driver killed"]["verdict"] if "driver killed" in of else None})
    return lines


def _described(query: Query) -> dict[str, Any]:
    return {
        "query": query.name,
        "question": query.title,
        "operators": ", ".join(query.state) or "none",
        "mode": query.mode,
    }


def _latencies(rows: Sequence[Row]) -> list[dict[str, Any]]:
    return [
        {**{column: row[column] for column in LATENCY}, "Megaphone: all at once / batched": PAPER.get(row["query"])}
        for row in rows
    ]


def _targets() -> list[dict[str, Any]]:
    of_rate = summary(load("nexmark_rate"), RATE_TARGETS, lambda row: str(row["query"]))
    return of_rate + summary(load("nexmark_latency"), LATENCY_TARGETS, _case)


def _case(row: Row) -> str:
    return f"{row['query']}, {row['move']}, {row['strategy']}"


def _latency(figure: Any, rows: Sequence[Row]) -> None:
    """A line of axes for each query, a column for each kind of move; strategies in one."""
    queries, moves = (list(dict.fromkeys(row[name] for row in rows)) for name in ("query", "move"))
    figure.set_size_inches(10, 2.1 * len(queries) + 0.6)
    grid = figure.subplots(len(queries), len(moves), squeeze=False)
    for axes_row, query in zip(grid, queries, strict=True):
        for axes, move in zip(axes_row, moves, strict=True):
            for row in (each for each in rows if (each["query"], each["move"]) == (query, move)):
                color = OURS if row["strategy"] in PREPARED else OTHER
                axes.plot(*zip(*row["_latency"], strict=True), color=color, linewidth=1.2, label=row["strategy"])
                axes.axvspan(0, row["_took"], color=color, alpha=0.1, linewidth=0)
            paper = f"   Megaphone: {PAPER[query]}" if query in PAPER else ""
            axes.set_title(f"{query}, {move}{paper}", loc="left", fontsize=9, color=INK)
            axes.set_ylim(bottom=0)
            axes.tick_params(colors=FAINT)
            axes.legend(frameon=False, fontsize=7, loc="upper right")
        axes_row[0].set_ylabel("worst latency, s", color=INK)
    for axes in grid[-1]:
        axes.set_xlabel("seconds after the request", color=INK)


def _rate(figure: Any, rows: Sequence[Row]) -> None:
    some = [row for row in rows if row.get("over_spark") is not None][::-1]
    axes = figure.subplots()
    axes.barh([row["query"] for row in some], [row["over_spark"] for row in some], color=OURS)
    axes.axvline(1.0, color=OTHER, linewidth=1)
    axes.set_title("rows a second, over Spark's own", loc="left", fontsize=10, color=INK)
    axes.tick_params(colors=FAINT)
