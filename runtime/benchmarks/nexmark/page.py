"""docs/nexmark.md from the results, between the markers of `benchmarks/page.py`. Computes no figure itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from archive import Row, load
from page import DOCS, MARKED, machine, measured
from tables import markdown
from targets import summary

from nexmark.figures import sections
from nexmark.queries import QUERIES
from nexmark.query import Query
from nexmark.speed import TARGETS, named
from nexmark.suite import BINSHIFT, CALM, RUNS, SPARK

PAGE = DOCS / "nexmark.md"
SYSTEMS = (SPARK, BINSHIFT, *RUNS[1:])
SHOWN = {BINSHIFT: CALM}


def write(*, check: bool) -> int:
    """Write the page; or, with ``check``, only compare: 1 if the page is out of date."""
    before = PAGE.read_text(encoding="utf-8")
    after = rendered(before)
    if check:
        print("docs/nexmark.md " + ("is up to date" if before == after else "does not match the results"))
        return int(before != after)
    PAGE.write_text(after, encoding="utf-8")
    for picture in sections.draw():
        print(picture.name)
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
    if name == "experiments":
        return sections.described()
    if name == "figures":
        return sections.sections()
    rows = load(f"nexmark_{name}")
    if not rows:
        return f"*Not measured yet: `make nexmark NEXMARK={name}`.*"
    shown = speeds(rows) if name == "speed" else markdown(verdicts(rows))
    return f"{shown}\n\n{measured(rows)}"


def speeds(rows: Sequence[Row]) -> str:
    """How fast each query is on both, and how many meet the target."""
    ordered = sorted(rows, key=lambda row: list(QUERIES).index(row["query"]))
    shown = [
        {
            "query": row["query"],
            "binshift, events/s": round(row["binshift"]),
            "Spark, events/s": round(row["spark"]),
            "ratio": round(row["ratio"], 2),
            "binshift, s a batch": round(row["binshift_batch_s"], 2),
            "Spark, s a batch": round(row["spark_batch_s"], 2),
        }
        for row in ordered
    ]
    return f"{markdown(shown)}\n\n{markdown(summary(ordered, TARGETS, named))}"


def verdicts(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """A line for each query: its rows, the verdict on each run, and what moved in all of them."""
    lines = []
    for query in sorted({row["query"] for row in rows}, key=list(QUERIES).index):
        of = {row["system"]: row for row in rows if row["query"] == query}
        line = {"query": query, "rows": of[BINSHIFT if BINSHIFT in of else SPARK]["rows"]}
        line |= {SHOWN.get(name, name): of[name]["verdict"] if name in of else None for name in SYSTEMS}
        totals = {name: sum(row.get(name) or 0 for row in of.values()) for name in ("moved", "meanwhile")}
        lines.append(line | {name: total or None for name, total in totals.items()})
    return lines


def _described(query: Query) -> dict[str, Any]:
    return {
        "query": query.name,
        "question": query.title,
        "operators": ", ".join(query.state) or "none",
        "mode": query.mode,
    }
