"""Counts the records of one task: all together and, in some epochs, by bin.

By bin, records that have become one row before the exchange count as that row: it is what the bin's owner works on. Where they could have, but the
epoch was short or its keys did not repeat, they count so, too.

Counting by bin costs a task one `numpy.bincount` a batch. The driver selects the epochs and adds up the counts
(`binshift.engine.bin_records`); a task must not keep them from one epoch to the next.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from binshift.model import BinSet
from binshift.operators.contract import BIN_COLUMN, RECORDS_COLUMN, REDUCED_COLUMN, records_of


@dataclass
class RecordCounter:
    """Counts one task's records.

    Attributes:
        bins: that the task owns, to count by bin; None to count all together only.
        rows: rows so far.
        records: records so far: a row of partial aggregates stands for several.
        weighed: the same as bins count them.
    """

    bins: BinSet | None
    rows: int = 0
    records: int = 0
    weighed: int = 0
    _of_bin: npt.NDArray[np.float64] = field(default_factory=lambda: np.zeros(0))

    def add(self, batch: pa.RecordBatch) -> None:
        """The rows of one more batch."""
        counts = records_of(batch)
        self.rows += batch.num_rows
        records = batch.num_rows if counts is None else pc.sum(counts, min_count=0).as_py()
        self.records += records
        self.weighed += batch.num_rows if REDUCED_COLUMN in batch.schema.names else records
        if self.bins is None or not batch.num_rows:
            return
        weights = batch.column(RECORDS_COLUMN).to_numpy() if RECORDS_COLUMN in batch.schema.names else None
        bins = batch.column(BIN_COLUMN).to_numpy()
        found = np.bincount(bins, weights, minlength=self._of_bin.size).astype(np.float64)
        found[: self._of_bin.size] += self._of_bin
        self._of_bin = found

    def packed(self) -> bytes:
        """The bins that had records, and how many each: two rows of 64-bit numbers. Empty where nothing was counted by bin."""
        bins = np.flatnonzero(self._of_bin)
        return np.stack([bins, self._of_bin[bins]]).astype("<i8").tobytes()
