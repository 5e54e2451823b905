"""Runs in a pod that mounts the volume: compares what the flights example put out with pandas' answer for the same flights.

    python judge_flights.py FLIGHTS CHECKPOINT RESULTS

Spark's own log of the source has the files of the newest committed epoch. Prints one JSON object.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pandas as pd
import pyarrow as pa
import reference  # type: ignore[import-not-found]  # copied to the same folder
from pyarrow import parquet

WHOLE = {pa.int32(): pd.Int32Dtype(), pa.int64(): pd.Int64Dtype()}
"""Numbers that may be absent, kept whole."""


def main(flights: Path, checkpoint: Path, results: Path) -> None:
    """Judge and print."""
    epoch = max(int(each.name) for each in (checkpoint / "commits").glob("[0-9]*"))
    entry = source_entry((checkpoint / "offsets" / str(epoch)).read_text(encoding="utf-8"))
    files = sorted({name for name, batch in listed(checkpoint) if batch <= entry})
    taken = pd.concat([frame(flights / name) for name in files], ignore_index=True)
    differences = reference.differences(latest(results, epoch), reference.expected(taken))
    json.dump({"epoch": epoch, "files": len(files), "rows": len(taken), "differences": differences}, sys.stdout)


def source_entry(offsets: str) -> int:
    """The newest entry of the file source's log that an epoch took."""
    found = re.search(r'"logOffset":(-?\d+)', offsets)
    return int(found[1]) if found else -1


def listed(checkpoint: Path) -> Iterator[tuple[str, int]]:
    """Each file the source has listed, with the entry it is in."""
    for log in (checkpoint / "sources" / "0").glob("[0-9]*"):
        for line in log.read_text(encoding="utf-8").splitlines()[1:]:
            described = json.loads(line)
            yield described["path"].rpartition("/")[2], described["batchId"]


def latest(results: Path, epoch: int) -> pd.DataFrame:
    """The last word on each key."""
    frames = []
    for number in range(epoch + 1):
        folder = results / f"epoch={number}"
        frames += [frame(file) for file in sorted(folder.glob("*.parquet")) if parquet.read_metadata(file).num_rows]
    return reference.typed(pd.concat(frames).drop_duplicates(list(reference.KEYS), keep="last", ignore_index=True))


def frame(file: Path) -> pd.DataFrame:
    """A file's rows."""
    return parquet.ParquetFile(file).read().to_pandas(types_mapper=WHOLE.get)


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:4]))
