"""Runs in a pod that reaches what the minimal example put out, on a volume or on S3: holds every row against arithmetic.

The program counts the rate source's values by ``value % keys``, and Spark's own log of a query states up to which second of
the source each epoch went. So what each epoch must have put out follows from its number alone: the keys that had a value
in it, each with the count, sum and largest of all its values so far. A row that is lost, counted twice or counted in the
wrong epoch shows, in that epoch and in all that follow.

Prints one JSON object: the epochs with the second they end at and the time they were committed, and the wrong rows. It
only reads, only committed epochs, and knows nothing of workers or bins.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from typing import Any

import numpy as np
import numpy.typing as npt
import places
from pyarrow import fs, parquet

COLUMNS = ("key", "rows", "total", "newest")
EXAMPLES_MAX = 5

Rows = npt.NDArray[np.int64]


def main() -> None:
    """Judge and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("checkpoint", help="a folder, or s3://...")
    parser.add_argument("results", help="likewise")
    parser.add_argument("--rows-per-second", type=int, required=True)
    parser.add_argument("--keys", type=int, required=True)
    parser.add_argument("--from-epoch", type=int, default=0)
    given = parser.parse_args()
    checkpoint, results = places.at(given.checkpoint), places.at(given.results)
    epochs = committed(checkpoint)
    wrong, examples = 0, []
    for (_, begins, _), (epoch, ends, _) in zip([(-1, 0, 0.0), *epochs], epochs, strict=False):
        if epoch < given.from_epoch:
            continue
        want = expected(begins * given.rows_per_second, ends * given.rows_per_second, given.keys)
        count, difference_text = difference(found(results, f"epoch={epoch}"), want)
        wrong += count
        examples += [f"epoch {epoch}: {difference_text}"] if count else []
    judged = {
        "created": created(checkpoint),
        "epochs": epochs,
        "wrong": wrong,
        "examples": examples[:EXAMPLES_MAX],
    }
    json.dump(judged, sys.stdout)


def committed(checkpoint: fs.FileSystem) -> list[tuple[int, int, float]]:
    """Each committed epoch, the second of the source it ends at, and when it was committed; from epoch 0, without gaps."""
    entries = [each for each in places.files(checkpoint, "commits") if each.base_name.isdigit()]
    commits = sorted((int(each.base_name), each.mtime_ns / 1e9) for each in entries)
    if [epoch for epoch, _ in commits] != list(range(len(commits))):
        raise SystemExit(f"the commit log has gaps: {[epoch for epoch, _ in commits]}")
    return [(epoch, source_second(places.text(checkpoint, f"offsets/{epoch}")), at) for epoch, at in commits]


def source_second(offsets: str) -> int:
    """The rate source's own offset, a plain number, in an entry of Spark's offset log."""
    return next(int(line) for line in offsets.splitlines()[2:] if line.isdigit())


def created(checkpoint: fs.FileSystem) -> float:
    """When the rate source's second 0 began."""
    logs = sorted(each.path for each in places.files(checkpoint, "sources", recursive=True))
    for name in (each for each in logs if each.endswith("/0")):
        match = re.fullmatch(r"v1\n(\d{13})\n?", places.text(checkpoint, name))
        if match:
            return int(match[1]) / 1000
    raise SystemExit("no source has a start time: not the rate source")


def expected(first: int, after: int, keys: int) -> Rows:
    """What an epoch with the values ``first`` up to but not including ``after`` must put out, by key.

    >>> expected(2, 4, 3).tolist()
    [[0, 2, 3, 3], [2, 1, 2, 2]]
    """
    values = np.arange(max(first, after - keys), after, dtype=np.int64)
    key = values % keys
    rows = values // keys + 1
    total = rows * key + keys * (rows * (rows - 1) // 2)
    return _sorted(np.stack([key, rows, total, values], axis=1))


def found(results: fs.FileSystem, folder: str) -> Rows:
    """What the epoch did put out, by key."""
    files = {each.base_name: each for each in places.files(results, folder)}
    if "_SUCCESS" not in files:
        raise SystemExit(f"{folder} is not finished, but its epoch is committed")
    paths = [each.path for name, each in files.items() if name.endswith(".parquet") and each.size]
    tables = [parquet.ParquetFile(results.open_input_file(path)).read(columns=list(COLUMNS)) for path in paths]
    blocks = [np.stack([table[name].to_numpy() for name in COLUMNS], axis=1) for table in tables if len(table)]
    return _sorted(np.concatenate(blocks).astype(np.int64)) if blocks else np.empty((0, len(COLUMNS)), np.int64)


def difference(have: Rows, want: Rows) -> tuple[int, str]:
    """How many rows are wrong (missing, too many, or with other values), and a few of them.

    >>> difference(expected(0, 2, 3), expected(0, 3, 3))
    (1, 'missing [(2, 1, 2, 2)]; wrong []')
    """
    if have.shape == want.shape and bool((have == want).all()):
        return 0, ""
    has, wants = list(map(tuple, have.tolist())), set(map(tuple, want.tolist()))
    missing = sorted(wants - set(has))
    surplus: list[Any] = sorted(row for row in set(has) if row not in wants)
    surplus += sorted(row for row in set(has) if row in wants and has.count(row) > 1)
    keys = {row[0] for row in [*missing, *surplus]}
    return len(keys), f"missing {missing[:EXAMPLES_MAX]}; wrong {surplus[:EXAMPLES_MAX]}"


def _sorted(rows: Rows) -> Rows:
    return rows[np.lexsort(rows.T[::-1])]


if __name__ == "__main__":
    main()
