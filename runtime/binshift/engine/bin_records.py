"""How many of a query's records each bin gets: tasks count them in some epochs, the driver keeps the sums.

What a bin costs to run is one half of its weight for the planner, what it holds the other (`binshift.planner.bin_weights`).
The sums last as long as the driver and must not influence the content of an epoch: they are never recorded.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import numpy.typing as npt

from binshift.model import Epoch

COUNTED_EVERY_EPOCHS: Final = 16
"""One epoch in so many is counted by bin."""

RECORDS_MIN: Final = 10_000
"""Fewer mean nothing: by chance alone, a worker's share of them is off by some per cent."""

RECORDS_KEPT: Final = 200_000
"""When more have been counted, all counts are halved, and so the older ones forgotten."""


def is_counted(epoch: Epoch) -> bool:
    """Whether the records of this epoch are counted by bin."""
    return epoch % COUNTED_EVERY_EPOCHS == 0


@dataclass
class BinRecords:
    """How many records each bin gets, as far as they were counted; lasts as long as its driver.

    Attributes:
        bins: how many there are.
    """

    bins: int
    _counts: npt.NDArray[np.float64] = field(init=False)

    def __post_init__(self) -> None:
        self._counts = np.zeros(self.bins)

    def add(self, parts: Iterable[bytes]) -> None:
        """The counts of all tasks of a recorded epoch.

        >>> records = BinRecords(2)
        >>> records.add([np.array([[1], [9_999]]).tobytes()])
        >>> records.counts.tolist()
        [0.0, 0.0]
        >>> records.add([np.array([[0], [1]]).tobytes()])
        >>> records.counts.tolist()
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
