"""Bins and sets of them, the basic units of routes, plans, stores and files."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NewType

import numpy as np
import numpy.typing as npt

from binshift.invariants import invariant

Bin = NewType("Bin", int)
"""A unit of state movement, ``0 .. bins-1``; ``bin = pmod(xxhash64(key), bins)``."""

BINS_MAX = 1 << 20
"""The most bins of a dataflow: the planner's limit."""

IntArray = npt.NDArray[np.int32]


class BinSet:
    """An immutable set of bins, kept as a sorted array.

    >>> bins = BinSet([5, 1, 2, 3])
    >>> len(bins), 3 in bins, 4 in bins
    (4, True, False)
    >>> bins.ranges()
    [(1, 3), (5, 5)]
    >>> BinSet.from_ranges([(1, 3), (5, 5)]) == bins
    True
    >>> (bins - BinSet([2])) | BinSet([9])
    BinSet(1, 3, 5, 9)
    """

    __slots__ = ("array",)
    array: IntArray

    def __init__(self, bins: Iterable[int] | IntArray = ()) -> None:
        values = bins if isinstance(bins, np.ndarray) else np.fromiter(bins, dtype=np.int64)
        # They are usually sorted already; checking this is many times faster than sorting.
        ascending = values.ndim == 1 and (values.size < 2 or (values[1:] > values[:-1]).all())
        unique = values.copy() if ascending else np.unique(values)
        invariant(unique.size == 0 or (unique[0] >= 0 and unique[-1] < BINS_MAX), "a bin is out of range")
        self._keep(unique)  # only after the check: a wider number must be rejected, never wrapped

    def _keep(self, ordered: npt.NDArray[np.integer[Any]]) -> BinSet:
        kept = ordered.astype(np.int32, copy=False)
        kept.setflags(write=False)
        object.__setattr__(self, "array", kept)
        return self

    @classmethod
    def _ordered(cls, ordered: IntArray) -> BinSet:
        """From an array that is known to be ascending and without duplicates: the result of set operations."""
        return cls.__new__(cls)._keep(ordered)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"BinSet is immutable: cannot set {name!r}")

    def __reduce__(self) -> tuple[Any, ...]:
        # Orders of every epoch have the bins of a worker: half of 65,536 bins are 128 KiB as an array, and 8 KiB as a bitmap.
        dense = self.array.nbytes * 8 > self._highest
        return (BinSet.from_bitmap, (self.bitmap(),)) if dense else (BinSet, (np.array(self.array),))

    def bitmap(self) -> bytes:
        """A bit for each bin from 0 to the highest one, in eights, the first of which is the high bit.

        >>> BinSet([0, 9]).bitmap().hex(), BinSet.from_bitmap(bytes.fromhex("8040"))
        ('8040', BinSet(0, 9))
        """
        present = np.zeros(self._highest + 1, dtype=np.bool_)
        present[self.array] = True
        return np.packbits(present).tobytes()

    @classmethod
    def from_bitmap(cls, bitmap: bytes) -> BinSet:
        """The set again; bits beyond `BINS_MAX` are an error."""
        return cls(np.flatnonzero(np.unpackbits(np.frombuffer(bitmap, dtype=np.uint8))))

    @property
    def _highest(self) -> int:
        return int(self.array[-1]) if self.array.size else -1

    @classmethod
    def from_ranges(cls, ranges: Iterable[Sequence[int]]) -> BinSet:
        """The set of all bins in the inclusive ``(first, last)`` ranges."""
        parts = [np.arange(first, last + 1) for first, last in ranges]
        return cls(np.concatenate(parts) if parts else ())

    def ranges(self) -> list[tuple[int, int]]:
        """Inclusive ``(first, last)`` ranges, ascending: the form stored in records."""
        if not self.array.size:
            return []
        breaks = np.flatnonzero(np.diff(self.array) != 1)
        firsts = self.array[np.concatenate(([0], breaks + 1))]
        lasts = self.array[np.concatenate((breaks, [self.array.size - 1]))]
        return list(zip(firsts.tolist(), lasts.tolist(), strict=True))

    def __len__(self) -> int:
        return int(self.array.size)

    def __iter__(self) -> Iterator[Bin]:
        return (Bin(b) for b in self.array.tolist())

    def __contains__(self, value: object) -> bool:
        if not isinstance(value, int | np.integer) or not self.array.size:
            return False
        at = int(np.searchsorted(self.array, value))
        return at < self.array.size and int(self.array[at]) == value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, BinSet) and np.array_equal(self.array, other.array)

    def __hash__(self) -> int:
        return hash(self.array.tobytes())

    def __or__(self, other: BinSet) -> BinSet:
        if not len(self) or self == other:
            return other
        more = other - self
        return BinSet._ordered(np.sort(np.concatenate((self.array, more.array)))) if len(more) else self

    def __and__(self, other: BinSet) -> BinSet:
        return BinSet._ordered(self.array[self._in(other)])

    def __sub__(self, other: BinSet) -> BinSet:
        if self == other:  # many times faster, and the usual case from one epoch to the next
            return BinSet()
        return BinSet._ordered(self.array[~self._in(other)]) if len(self) and len(other) else self

    def _in(self, other: BinSet) -> npt.NDArray[np.bool_]:
        """For each of these bins, whether it is also one of the others."""
        if not len(other):
            return np.zeros(len(self), dtype=np.bool_)
        at = np.searchsorted(other.array, self.array)
        return np.asarray(other.array[np.minimum(at, len(other) - 1)] == self.array)

    def __repr__(self) -> str:
        shown = ", ".join(map(str, self.array[:16].tolist()))
        return f"BinSet({shown}{', ...' if len(self) > 16 else ''})"
