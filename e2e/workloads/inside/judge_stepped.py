"""Runs in a pod: compares the rows that the stepped program counted with those of its input, and states how long each file had waited.

Prints one JSON object: the files that are missing or counted wrong, and for each file when it was written and its wait, in seconds.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from pyarrow import parquet


def main(inputs: str, results: str) -> None:
    """Judge and print."""
    files = sorted(Path(inputs).glob("*.parquet"))
    expected = {int(file.stem): parquet.read_metadata(file).num_rows for file in files}
    written = {int(file.stem): file.stat().st_mtime for file in files}
    counted, seen = dict[int, int](), dict[int, float]()
    for file in sorted(Path(results).glob("epoch=*/*.parquet"), key=lambda each: int(each.parent.name.split("=")[1])):
        found, at = parquet.read_table(file, partitioning=None).to_pydict(), file.stat().st_mtime
        for number, rows in zip(found["file"], found["rows"], strict=True):
            counted[number], seen[number] = rows, max(at, seen.get(number, 0.0))
    wrong = sorted(number for number, rows in expected.items() if counted.get(number) != rows)
    waits = [[written[number], round(seen[number] - written[number], 2)] for number in sorted(seen)]
    json.dump({"wrong": wrong, "files": len(expected), "waits": waits}, sys.stdout)


if __name__ == "__main__":
    main(*sys.argv[1:])
