"""Results as JSON: the figures, their targets, and the machine that they were measured on.

A file has rows of several runs: a repeated row replaces that of the same case, and the others stay, each with its own date and
commit. Ratios are between rows of one run; rows of different runs must not be compared.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results"
MEASURED_WITH = ("binshift", "pyspark", "pyarrow", "lmdb")

Row = dict[str, Any]


def save(
    name: str, rows: Sequence[Mapping[str, Any]], case: Sequence[str], folder: Path = RESULTS, elsewhere: float = 0.0
) -> list[Row]:
    """Keep rows, each identified by its columns ``case``; returns all rows of the file, in a stable order.

    ``elsewhere``: cores that other processes used meanwhile.
    """
    when = {
        "_date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M"),
        "_commit": commit(),
        "_elsewhere": round(elsewhere, 2),
    }
    rows = merged(load(name, folder), [{**row, **when} for row in rows], case)
    folder.mkdir(exist_ok=True)
    lines = ",\n  ".join(json.dumps(row) for row in rows)
    text = f'{{\n "machine": {json.dumps(machine())},\n "rows": [\n  {lines}\n ]\n}}\n'
    (folder / f"{name}.json").write_text(text, encoding="utf-8")
    return rows


def load(name: str, folder: Path = RESULTS) -> list[Row]:
    """All kept rows; none if the file does not exist."""
    path = folder / f"{name}.json"
    return list(json.loads(path.read_text(encoding="utf-8"))["rows"]) if path.exists() else []


def merged(old: Sequence[Row], new: Sequence[Row], case: Sequence[str]) -> list[Row]:
    """Old and new rows; a new one replaces the old one of its case.

    >>> merged([{"n": 1, "v": 1}, {"n": 2, "v": 1}], [{"n": 1, "v": 2}], ["n"])
    [{'n': 1, 'v': 2}, {'n': 2, 'v': 1}]
    """
    found = {tuple(row.get(column) for column in case): row for row in [*old, *new]}
    return list(found.values())


def machine() -> dict[str, object]:
    """The machine, without anything that identifies it."""
    pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    facts: dict[str, object] = {"cores": len(os.sched_getaffinity(0)), "memory_gib": round(pages / (1 << 30), 1)}
    facts |= {"architecture": platform.machine(), "python": platform.python_version()}
    for package in MEASURED_WITH:
        try:
            facts[package] = version(package)
        except PackageNotFoundError:
            facts[package] = None
    return facts


def commit() -> str:
    """The measured commit; with a + if files were changed since."""
    here = Path(__file__).parent
    try:
        done = subprocess.run(
            ["git", "describe", "--always", "--dirty=+", "--exclude=*"],
            cwd=here,
            capture_output=True,
            text=True,
            check=True,
        )
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return done.stdout.strip()
