"""The campaign's results, as a table and as JSON; kept in the repository if the environment requests it."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from faults_cases import FILE_POINTS, POINTS, Case, Cost, Played

KEEP_VARIABLE = "BINSHIFT_KEEP_FAULTS"
"""Environment variable: if set, results are merged into the kept ones and the page is rewritten."""
ROOT = Path(__file__).resolve().parents[3]
KEPT = ROOT / "runtime" / "tests" / "cluster" / "results" / "faults.json"
PAGE = ROOT / "docs" / "faults.md"
BEGIN, END = "<!-- faults -->", "<!-- end -->"
COLUMNS = (
    *(("python", False), ("executor", False), ("worker", False), ("driver", False), ("master", False), ("all", False)),
    *(("python", True), ("machine", True), ("worker", True), ("driver", True)),
)

Results = dict[str, dict[str, Any]]


def merged(kept: Results, played: Iterable[Played]) -> Results:
    """The kept results, replaced by newer ones."""
    return kept | {str(each.case): each.case._asdict() | each.cost._asdict() for each in played}


def table(results: Results) -> str:
    """Points as rows, victims as columns; each cell has the slow epochs and the longest silence."""
    by_case = {(r["point"], r["victim"], r["stop"]): r for r in results.values()}
    used = [column for column in COLUMNS if any(key[1:] == column for key in by_case)]
    heads = [f"{victim} {'stopped' if stop else 'killed'}" for victim, stop in used]
    lines = ["| point | " + " | ".join(heads) + " |", "|---" * (len(heads) + 1) + "|"]
    for point in (*POINTS, *FILE_POINTS):
        cells = [cell(by_case.get((point, *column))) for column in used]
        if any(cells):
            lines.append(f"| `{point}` | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def cell(result: Mapping[str, Any] | None) -> str:
    """Slow epochs and longest silence in seconds; the result was correct, otherwise it would not be listed."""
    return "" if result is None else f"{result['epochs']} ({result['silence']:.1f} s)"


def case_of(result: Mapping[str, Any]) -> Played:
    """A kept result in its original form."""
    case = Case(*(result[name] for name in Case._fields))
    return Played(case, Cost(*(result[name] for name in Cost._fields)))


def report_text(played: list[Played]) -> str:
    """The table of the current results; also kept, if requested."""
    now = merged({}, played)
    if os.environ.get(KEEP_VARIABLE):
        kept = merged(json.loads(KEPT.read_text()) if KEPT.exists() else {}, played)
        KEPT.parent.mkdir(exist_ok=True)
        KEPT.write_text(json.dumps(dict(sorted(kept.items())), indent=1) + "\n")
        before, _, rest = PAGE.read_text().partition(BEGIN)
        after = rest.partition(END)[2]
        PAGE.write_text(f"{before}{BEGIN}\n\n{table(kept)}\n\n{END}{after}")
    return table(now)
