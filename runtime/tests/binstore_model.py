"""A simple model of a bin store: dicts, deep copies, and the rules of the design, one line each."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field

from binshift import entries
from binshift.entries import Entries
from binshift.model import GENESIS, Fence, Stamp
from binshift.store.bins.status import NO_FENCE

Row = tuple[int, bytes, bytes | None]


def batch(rows: list[Row]) -> Entries:
    """The batch of rows given as tuples."""
    return entries.make([r[0] for r in rows], [r[1] for r in rows], [r[2] for r in rows])


@dataclass
class Model:
    """A bin store in its simplest form. ``rows`` has those of visible bins only."""

    stamp: Stamp = GENESIS
    owned: set[int] = field(default_factory=set)
    copies: dict[int, int] = field(default_factory=dict)
    rows: dict[int, dict[bytes, bytes]] = field(default_factory=dict)
    before: Model | None = None
    fence: Fence = NO_FENCE
    installing: dict[int, tuple[int, int, dict[bytes, bytes]]] = field(default_factory=dict)

    def apply(self, changes: list[Row]) -> None:
        """Later rows replace earlier ones; null deletes."""
        for bin, key, value in changes:
            set_row(self.rows.setdefault(bin, {}), key, value)

    def commit(self, stamp: Stamp, owned: set[int], changes: list[Row], undo: bool) -> None:
        """An epoch."""
        self.before = copy.deepcopy(self) if undo else None
        for bin in owned - self.owned:
            self.copies.pop(bin, None)
        for bin in self.owned - owned:
            self.copies[bin] = stamp.epoch - 1
        self.owned, self.stamp = set(owned), stamp
        self.apply(changes)

    def undo(self) -> None:
        """Restore the previous state, but bins that left and were changed since stay as they are."""
        before, base = self.before, self.stamp.epoch - 1
        assert before is not None
        for bin in self.owned:
            self.rows[bin] = before.rows.get(bin, {})
        back = {bin for bin in before.owned - self.owned if self.copies.get(bin) == base}
        for bin in back:
            del self.copies[bin]
        for bin in self.owned - before.owned:
            self.copies[bin] = base
        self.owned = (self.owned & before.owned) | back
        self.stamp, self.before = before.stamp, None

    def forget_bins(self, bins: set[int]) -> None:
        """These bins are no longer copies, complete or partial."""
        for bin in bins:
            for table in (self.copies, self.rows, self.installing):
                table.pop(bin, None)


def set_row(rows: dict[bytes, bytes], key: bytes, value: bytes | None) -> None:
    rows.pop(key, None)
    if value is not None:
        rows[key] = value
