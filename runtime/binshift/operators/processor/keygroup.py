"""The keys that a processor works on at one time, and the one whose turn it is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa

from binshift.model import IntArray
from binshift.operators.processor.layout import sized


@dataclass(frozen=True)
class KeyGroup:
    """Grouping keys, each once.

    Attributes:
        bins: the bin of each.
        packed: the packed form of each.
    """

    bins: IntArray
    packed: pa.BinaryArray

    def __len__(self) -> int:
        return len(self.packed)

    @cached_property
    def sized(self) -> pa.BinaryArray:
        """Their packed forms behind the lengths, as they are in the keys of rows."""
        return sized(self.packed)

    def bins_at(self, places: IntArray) -> IntArray:
        """The bins of some of them."""
        found: IntArray = self.bins[places]
        return found

    def bins_of(self, places: Sequence[tuple[int, object]]) -> IntArray:
        """The bin of each pair, which begins with a position."""
        return self.bins_at(np.array([at for at, _ in places], dtype=np.int32))


@dataclass
class Turn:
    """Whose turn it is: states read and write for that key.

    Attributes:
        at: its position in the group.
        time_ms: the batch's time, milliseconds since 1970.
    """

    time_ms: int
    at: int = 0


NO_KEYS = KeyGroup(np.empty(0, dtype=np.int32), pa.array([], pa.binary()))
"""The group before the first one."""
