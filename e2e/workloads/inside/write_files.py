"""Runs in a pod: writes files with rows, at a rate that another file states and that can change, whether or not anything reads them.

Each row has the number of its file. Stops once the rate is 0, and prints how many rows each file has.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path

import pyarrow as pa
from pyarrow import parquet

PERIOD_SECONDS = 0.5


def main() -> None:
    """Feed until the rate is 0."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("rate", type=Path, help="the file with the rate, in rows per second")
    given = parser.parse_args()
    given.folder.mkdir(exist_ok=True)
    written, due = list[int](), time.monotonic()
    while rate := float(given.rate.read_text(encoding="utf-8") or 0):
        rows = max(1, round(rate * PERIOD_SECONDS))
        place = given.folder / f".{len(written):06}"
        parquet.write_table(pa.table({"file": pa.array([len(written)] * rows, pa.int64())}), place)
        place.rename(given.folder / f"{len(written):06}.parquet")
        written.append(rows)
        due += PERIOD_SECONDS
        time.sleep(max(0.0, due - time.monotonic()))
    json.dump(written, sys.stdout)


if __name__ == "__main__":
    main()
