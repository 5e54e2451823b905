"""Feeds a table to a query as a stream with a fixed schedule: open loop.

Rows are due at a constant rate from the beginning, whatever the query does; for a query that falls behind, more and more rows
are waiting, and their latency grows, as in production. Rows come in files of one tick each. All files are written in advance to
a folder next to the query's, and only renamed into it at the end of their tick: at run time the feeder costs almost nothing,
and the query never sees a partial file.

The first few files are *primers*: they are put there one by one before the schedule begins, so that what a new query
needs to get going is not taken for the latency of the stream. Their rows count in the results, not in the latency.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt

from binshift.errors import InvalidSettings

if TYPE_CHECKING:
    import pyarrow as pa

TICK_SECONDS: Final = 0.2
PRIMERS: Final = 12


@dataclass(frozen=True)
class Schedule:
    """Which rows are in which file, and when they are due. Times are seconds after the replay began.

    Attributes:
        rows: in all.
        seconds: from the first row that is due to the last one.
        tick_seconds: that one file holds.
        primers: files put there before.

    >>> schedule = Schedule(rows=100, seconds=0.8, tick_seconds=0.1, primers=2)
    >>> schedule.files, schedule.rows_of(2), round(schedule.due(2), 3)
    (10, (20, 30), 0.1)
    """

    rows: int
    seconds: float
    tick_seconds: float = TICK_SECONDS
    primers: int = PRIMERS

    def __post_init__(self) -> None:
        if self.rows < 1 or self.seconds < self.tick_seconds:
            raise InvalidSettings(
                f"a replay of {self.rows} rows in {self.seconds} s: it takes one row and {self.tick_seconds} s at least"
            )

    @property
    def files(self) -> int:
        """How many files there are, the primers included."""
        return self.primers + round(self.seconds / self.tick_seconds)

    @property
    def rate(self) -> float:
        """Rows due in a second."""
        return self.rows / self.files / self.tick_seconds

    def rows_of(self, file: int) -> tuple[int, int]:
        """The first row of a file, and the first one after it."""
        return file * self.rows // self.files, (file + 1) * self.rows // self.files

    def due(self, file: int) -> float:
        """When all rows of a file have come; not positive for primers."""
        return (file - self.primers + 1) * self.tick_seconds

    def scheduled(self) -> npt.NDArray[np.float64]:
        """When each row is due; NaN for those of primers."""
        times = np.arange(self.rows) / self.rate - self.primers * self.tick_seconds
        times[: self.rows_of(self.primers)[0]] = np.nan
        return times


def file_name(file: int) -> str:
    """The name of a file; `file_number` returns the number in it.

    >>> file_number("file:///tmp/flights/" + file_name(12))
    12
    """
    return f"flights-{file:06d}.parquet"


def file_number(path: str) -> int:
    """The number of a file that `write` made.

    Raises:
        ValueError: it is another one.
    """
    found = re.search(r"flights-(\d{6,})\.parquet$", path)
    if found is None:
        raise ValueError(f"{path!r} is not a file of the replay")
    return int(found.group(1))


def write(table: pa.Table, schedule: Schedule, folder: Path) -> None:
    """Write all files of a replay; one without rows is written as well."""
    from pyarrow import parquet

    folder.mkdir(parents=True, exist_ok=True)
    for file in range(schedule.files):
        first, after = schedule.rows_of(file)
        parquet.write_table(table.slice(first, after - first), folder / file_name(file))


class Feeder:
    """Moves files from one folder to another when they are due.

    Args:
        schedule: of the files.
        source: where `write` put them.
        target: the query's folder, on the same file system.
        clock: seconds, never going back.
    """

    def __init__(
        self, schedule: Schedule, source: Path, target: Path, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._schedule = schedule
        self._source = source
        self._target = target
        self._clock = clock
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._feed, name="flights-feeder", daemon=True)
        self.fed = 0
        """Files in the query's folder."""
        self._began_at: float | None = None

    def prime(self) -> None:
        """Put the next primer there."""
        self._release()

    def start(self) -> None:
        """Begin the replay: from now on rows are due."""
        while self.fed < self._schedule.primers:
            self._release()
        self._began_at = self._clock()
        self._thread.start()

    def now(self) -> float:
        """Seconds since the replay began; 0 before it has."""
        return 0.0 if self._began_at is None else self._clock() - self._began_at

    def stop(self) -> None:
        """End it early, or after its last file; waits for the thread."""
        self._stopped.set()
        if self._thread.ident is not None:
            self._thread.join()

    @property
    def ended(self) -> bool:
        """Whether every file has been fed."""
        return self.fed == self._schedule.files

    def _feed(self) -> None:
        while not self.ended:
            wait = self._schedule.due(self.fed) - self.now()
            if self._stopped.wait(max(wait, 0.0)):
                return
            self._release()

    def _release(self) -> None:
        name = file_name(self.fed)
        (self._source / name).rename(self._target / name)
        self.fed += 1
