"""What a bin store is: its stamp, the bins it owns, its copies, and what it has to remember across processes.

This module owns `Status` and its form on disk, one small blob that is written in the same transaction as the rows it
speaks of. Sets of bins are bitmaps there: a store may have a million bins, and every epoch writes this blob.

It must never report rows as valid when they are not: a bin has rows only if it is owned, a copy, or *partial* (being installed,
or being dropped, or left behind by a process that died doing so), and partial rows are never valid.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import msgspec
import numpy as np
import numpy.typing as npt

from binshift.errors import StoreDamaged
from binshift.invariants import invariant
from binshift.model import BEFORE_FIRST, GENESIS, Bin, BinSet, Epoch, Fence, IntArray, Stamp, Term
from binshift.store.engine.contract import Transaction

STATUS = "status"
NO_FENCE = Fence(Term(0), BEFORE_FIRST, 0)
"""Lower than every driver's."""

NO_BINS = BinSet()


class Copies(Mapping[Bin, Epoch]):
    """Bins with an epoch each, as two arrays. Immutable.

    >>> copies = Copies().with_bins(BinSet([4, 2]), Epoch(7)).with_bins(BinSet([4]), Epoch(8))
    >>> dict(copies), copies.at(Epoch(7))
    ({2: 7, 4: 8}, BinSet(2))
    """

    __slots__ = ("bins", "epochs")

    def __init__(self, bins: IntArray | None = None, epochs: npt.NDArray[np.int64] | None = None) -> None:
        self.bins = np.empty(0, dtype=np.int32) if bins is None else bins
        self.epochs = np.empty(0, dtype=np.int64) if epochs is None else epochs

    def __getitem__(self, bin: Bin) -> Epoch:
        at = int(np.searchsorted(self.bins, bin))
        if at == len(self.bins) or self.bins[at] != bin:
            raise KeyError(bin)
        return Epoch(int(self.epochs[at]))

    def __iter__(self) -> Iterator[Bin]:
        return (Bin(b) for b in self.bins.tolist())

    def __len__(self) -> int:
        return len(self.bins)

    def __repr__(self) -> str:
        return f"Copies({dict(self)})"

    def bin_set(self) -> BinSet:
        """All bins, whatever their epoch."""
        return BinSet(self.bins) if len(self.bins) else NO_BINS

    def at(self, epoch: int) -> BinSet:
        """The bins at exactly this epoch."""
        return BinSet(self.bins[self.epochs == epoch])

    def without(self, bins: BinSet) -> Copies:
        """These copies but for ``bins``."""
        if not len(self) or not len(bins):
            return self
        kept = ~np.isin(self.bins, bins.array)
        return Copies(self.bins[kept], self.epochs[kept])

    def with_bins(self, bins: BinSet, epoch: int) -> Copies:
        """These copies, and ``bins`` at ``epoch`` (instead of whatever epoch they had)."""
        if not len(bins):
            return self
        others = self.without(bins)
        joined = np.concatenate((others.bins, bins.array))
        epochs = np.concatenate((others.epochs, np.full(len(bins), epoch, dtype=np.int64)))
        order = np.argsort(joined, kind="stable")
        return Copies(joined[order], epochs[order])


DROPPED = "dropped"
"""The attempt of partial bins that no task installs: their rows are only to be deleted."""


@dataclass(frozen=True, slots=True)
class Partial:
    """Bins whose rows do not count: a copy at ``epoch`` that ``attempt`` is installing, or rows being dropped."""

    attempt: str
    epoch: Epoch
    bins: BinSet


@dataclass(frozen=True, slots=True)
class Status:
    """What a bin store is at one moment."""

    stamp: Stamp = GENESIS
    """The state of the owned bins: one stamp for all of them."""

    owned: BinSet = NO_BINS
    copies: Mapping[Bin, Epoch] = field(default_factory=Copies)
    """Other bins that are whole here, each in the state recorded for its epoch."""

    undo_to: Stamp | None = None
    """Where `BinStore.undo` would lead; None if it leads nowhere."""

    fence: Fence = NO_FENCE
    partial: tuple[Partial, ...] = ()
    driver: str = ""
    """What is unique to the driver of the fence's term; empty if no driver has named itself."""

    @property
    def held_copies(self) -> Copies:
        """`copies` with its array operations."""
        invariant(isinstance(self.copies, Copies), "copies are kept as arrays")
        return self.copies  # type: ignore[return-value]

    @property
    def partial_bins(self) -> BinSet:
        """Bins with rows that do not count; `BinStore.drop_copies` removes them."""
        return BinSet(np.concatenate([NO_BINS.array, *(part.bins.array for part in self.partial)]))

    @property
    def dropping(self) -> BinSet:
        """Those of them that no task installs: their remaining rows are only to be deleted."""
        parts = (part.bins.array for part in self.partial if part.attempt == DROPPED)
        return BinSet(np.concatenate([NO_BINS.array, *parts]))

    @property
    def visible(self) -> BinSet:
        """Bins whose rows count: owned ones and copies."""
        return self.owned | self.held_copies.bin_set()


class _Stored(msgspec.Struct, frozen=True, array_like=True):
    bins: int
    stamp: tuple[int, str]
    owned: bytes
    copies: bytes
    copy_epochs: bytes
    undo_to: tuple[int, str] | None
    fence: tuple[int, int, int]
    partial: list[tuple[str, int, bytes]]
    driver: str = ""


_decoder = msgspec.msgpack.Decoder(_Stored)


def load(transaction: Transaction, bins: int) -> Status | None:
    """The status in a store of ``bins`` bins; a fresh one if it has none; None if it was made for another number.

    Raises:
        StoreDamaged: the blob is not a status.
    """
    blob = transaction.meta(STATUS)
    return Status() if blob is None else _read(blob, bins)


@functools.lru_cache(maxsize=64)  # every transaction reads the status, which only epochs and rounds change
def _read(blob: bytes, bins: int) -> Status | None:
    try:
        stored = _decoder.decode(blob)
    except msgspec.MsgspecError as error:
        raise StoreDamaged(f"the store's status cannot be read: {error}") from error
    if stored.bins != bins:
        return None
    epochs = np.frombuffer(stored.copy_epochs, dtype=np.int64)
    return Status(
        stamp=_stamp(stored.stamp),
        owned=bins_of(stored.owned),
        copies=Copies(bins_of(stored.copies).array, epochs),
        undo_to=None if stored.undo_to is None else _stamp(stored.undo_to),
        fence=Fence(Term(stored.fence[0]), Epoch(stored.fence[1]), stored.fence[2]),
        partial=tuple(Partial(attempt, Epoch(epoch), bins_of(b)) for attempt, epoch, b in stored.partial),
        driver=stored.driver,
    )


def save(transaction: Transaction, status: Status, bins: int) -> None:
    """Write the status."""
    stored = _Stored(
        bins=bins,
        stamp=(status.stamp.epoch, status.stamp.attempt),
        owned=status.owned.bitmap(),
        copies=status.held_copies.bin_set().bitmap(),
        copy_epochs=status.held_copies.epochs.tobytes(),
        undo_to=None if status.undo_to is None else (status.undo_to.epoch, status.undo_to.attempt),
        fence=(status.fence.term, status.fence.epoch, status.fence.run),
        partial=[(part.attempt, part.epoch, part.bins.bitmap()) for part in status.partial],
        driver=status.driver,
    )
    transaction.set_meta(STATUS, msgspec.msgpack.encode(stored))


@functools.lru_cache(maxsize=256)  # every transaction reads the status, whose sets rarely change
def bins_of(bitmap: bytes) -> BinSet:
    """The set of a `BinSet.bitmap`."""
    return BinSet.from_bitmap(bitmap)


def _stamp(stored: tuple[int, str]) -> Stamp:
    return Stamp(Epoch(stored[0]), stored[1])
