"""How long it takes to open a local store that no process has open: left cleanly, or to be verified; and to write it again.

For each size: seconds of the wall clock and of the processor to open the store that its last user left cleanly, to open it when
it must be verified (its structure and all rows), and to put the same rows, in order of bin and key, into an empty one: what a
rebuild costs beyond reading the log.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
from archive import save
from options import WATCH, parsed, parser
from tables import text

from binshift import binary, entries
from binshift.store.engine.cache_directory import DATA
from binshift.store.engine.contract import StoreLimits
from binshift.store.engine.lmdb_store import close_environments, discard_environments, open_lmdb

LIMITS = StoreLimits(map_bytes_max=4 << 30)
BINS = 1024
ROW_BYTES = 100
BATCH_ROWS = 100_000


def main() -> None:
    """Measure each size; print seconds."""
    made = parser(__doc__)
    made.add_argument("--mib", type=int, nargs="+", default=[10, 100, 1024], help="keys and values of a store")
    args = parsed(made, {"mib": [1]})
    with tempfile.TemporaryDirectory() as folder:
        rows = [row_of(Path(folder), mib) for mib in args.mib]
    print(text(rows))
    if not args.quick:
        save("store", rows, ["mib"], elsewhere=WATCH.cores())


def row_of(folder: Path, mib: int) -> dict[str, object]:
    """Fill a store, then open it in turn with a process's first read."""
    count = (mib << 20) // ROW_BYTES
    fill_s, fill_cpu_s = timed(lambda: fill(folder / str(mib), count))
    close_environments()
    open_s, open_cpu_s = timed(lambda: open_lmdb(folder / str(mib), LIMITS))
    close_environments()
    os.utime(folder / str(mib) / DATA)  # as if another program had changed it
    verify_s, verify_cpu_s = timed(lambda: open_lmdb(folder / str(mib), LIMITS))
    discard_environments(folder / str(mib))
    return {
        "mib": mib,
        "rows": count,
        "open_s": open_s,
        "open_cpu_s": open_cpu_s,
        "verify_s": verify_s,
        "verify_cpu_s": verify_cpu_s,
        "write_s": fill_s,
        "write_cpu_s": fill_cpu_s,
        "verify_over_write": verify_cpu_s / fill_cpu_s,
    }


def timed(work: Callable[[], object]) -> tuple[float, float]:
    """Seconds on the wall, and seconds of the processor."""
    wall, processor = time.perf_counter(), time.process_time()
    work()
    return time.perf_counter() - wall, time.process_time() - processor


def fill(directory: Path, count: int) -> None:
    """A store with so many rows."""
    store = open_lmdb(directory, LIMITS)
    for batch in batches(count):
        with store.write(60.0) as transaction:
            transaction.put_many(batch)


def batches(count: int) -> Iterator[entries.Entries]:
    """Rows of `ROW_BYTES` bytes, in order of bin and key."""
    for start in range(0, count, BATCH_ROWS):
        numbers = np.arange(start, min(start + BATCH_ROWS, count))
        keys = binary.rows_of(np.char.zfill(numbers.astype("S16"), 16))
        values = binary.rows_of(np.full(len(numbers), b"v" * (ROW_BYTES - 20), dtype=f"S{ROW_BYTES - 20}"))
        yield entries.make(numbers * BINS // count, keys, values)


if __name__ == "__main__":
    main()
