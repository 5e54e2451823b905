"""Which bins get how many of a query's records: counted by tasks in some epochs, remembered by the driver.

Counting costs a task one `numpy.bincount` a batch, and the driver one array; a calm epoch in which nobody counts costs nothing.
What a bin costs to run is one half of its weight for the planner, what it holds the other (`binshift.planner.bin_weights`).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from binshift.model import BinSet, Epoch
from binshift.operators.contract import BIN_COLUMN, RECORDS_COLUMN

COUNTED_EVERY_EPOCHS: Final = 16
"""One epoch in so many is counted by bin."""

RECORDS_MIN: Final = 10_000
"""Fewer say nothing: a worker's share of so many is off by some per cent by chance alone."""

RECORDS_KEPT: Final = 200_000
"""When more have been counted, all counts are halved, and so the older ones forgotten."""


def is_counted(epoch: Epoch) -> bool:
    """Whether the records of this epoch are counted by bin."""
    return epoch % COUNTED_EVERY_EPOCHS == 0


@dataclass
class Counting:
    """Counts one task's records.

    Attributes:
        bins: that the task owns, to count by bin; None to count all together only.
        rows: rows so far.
        records: records so far: a row of partial aggregates stands for as many as it says.
    """

    bins: BinSet | None
    rows: int = 0
    records: int = 0
    _of_bin: npt.NDArray[np.float64] = field(default_factory=lambda: np.zeros(0))

    def add(self, batch: pa.RecordBatch) -> None:
        """The rows of one more batch."""
        counts = batch.column(RECORDS_COLUMN) if RECORDS_COLUMN in batch.schema.names else None
        self.rows += batch.num_rows
        self.records += batch.num_rows if counts is None else pc.sum(counts, min_count=0).as_py()
        if self.bins is None or not batch.num_rows:
            return
        weights = None if counts is None else counts.to_numpy()
        bins = batch.column(BIN_COLUMN).to_numpy()
        found = np.bincount(bins, weights, minlength=self._of_bin.size).astype(np.float64)
        found[: self._of_bin.size] += self._of_bin
        self._of_bin = found

    def packed(self) -> bytes:
        """The bins that had records, and how many each: two rows of 64-bit numbers. Empty where nothing was counted by bin."""
        bins = np.flatnonzero(self._of_bin)
        return np.stack([bins, self._of_bin[bins]]).astype("<i8").tobytes()


@dataclass
class BinRows:
    """How many records each bin gets, as far as they were counted; lasts as long as its driver.

    Attributes:
        bins: how many there are.
    """

    bins: int
    _counts: npt.NDArray[np.float64] = field(init=False)

    def __post_init__(self) -> None:
        self._counts = np.zeros(self.bins)

    def counted(self, parts: Iterable[bytes]) -> None:
        """The counts of all tasks of a recorded epoch.

        >>> rows = BinRows(2)
        >>> rows.counted([np.array([[1], [9_999]]).tobytes()])
        >>> rows.counts.tolist()
        [0.0, 0.0]
        >>> rows.counted([np.array([[0], [1]]).tobytes()])
        >>> rows.counts.tolist()
        [1.0, 9999.0]
        """
        found = self._counts * (1.0 if self._counts.sum() < RECORDS_KEPT else 0.5)
        for part in parts:
            bins, counts = np.frombuffer(part, dtype="<i8").reshape(2, -1)
            found[bins] += counts
        self._counts = found

    @property
    def counts(self) -> npt.NDArray[np.float64]:
        """The records of each bin; all 0 while fewer than `RECORDS_MIN` were counted."""
        counts = self._counts
        return counts if counts.sum() >= RECORDS_MIN else np.zeros(self.bins)
