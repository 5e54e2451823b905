"""The state of an epoch while a processor changes it: what was stored before, with this epoch's changes on top.

Each key's rows are read once while input is processed, so that changes need not be found again. Timers and expiry come afterwards and
read keys a second time: from `look_back` on, reads of these keys find this epoch's changes.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator

import pyarrow as pa

from binshift import binary
from binshift.entries import Entries
from binshift.model import Bin, IntArray
from binshift.operators.contract import EpochState
from binshift.operators.processor.layout import of_keys

Row = tuple[bytes, bytes]


class EpochView:
    """Reads and writes of one run of an epoch.

    Args:
        state: the state before, and where changes are collected.
    """

    def __init__(self, state: EpochState) -> None:
        self._state = state
        self._looks_back = False
        self._changed: dict[int, dict[bytes, bytes | None]] = {}
        self._sorted: dict[int, list[bytes]] = {}

    def look_back(self, packed: pa.BinaryArray) -> None:
        """From now on, reads find this epoch's changes of these grouping keys; only they are read and written."""
        self._looks_back = True
        for change in self._state.changes:
            self._note(change.filter(pa.array(of_keys(change.column("key"), packed))))

    def get(self, bins: IntArray, keys: pa.BinaryArray) -> pa.BinaryArray:
        """The value of each key, null where absent."""
        found = self._state.get(bins, keys)
        if not self._changed:
            return found
        nothing: dict[bytes, bytes | None] = {}
        pairs = zip(bins.tolist(), keys.to_pylist(), found.to_pylist(), strict=True)
        return binary.of([self._changed.get(bin, nothing).get(key, value) for bin, key, value in pairs])

    def rows(self, bin: int, start: bytes, stop: bytes) -> Iterator[Row]:
        """Rows of a bin, ascending."""
        stored = self._stored(bin, start, stop)
        changed = self._between(bin, start, stop)
        if not changed:
            return stored
        found = {**dict(stored), **changed}
        return iter(sorted((key, value) for key, value in found.items() if value is not None))

    def put(self, bins: IntArray, keys: pa.BinaryArray, values: pa.BinaryArray) -> None:
        """Set values; null deletes."""
        if not len(keys):
            return
        self._state.put(bins, keys, values)
        if self._looks_back:
            self._note(self._state.changes[-1])

    def delete(self, bins: IntArray, keys: pa.BinaryArray) -> None:
        """Delete rows."""
        self.put(bins, keys, pa.nulls(len(keys), pa.binary()))

    def _stored(self, bin: int, start: bytes, stop: bytes) -> Iterator[Row]:
        for found in self._state.scan(Bin(bin), start, stop):
            yield from zip(found.column("key").to_pylist(), found.column("value").to_pylist(), strict=True)

    def _between(self, bin: int, start: bytes, stop: bytes) -> dict[bytes, bytes | None]:
        changed = self._changed.get(bin)
        if not changed:
            return {}
        if bin not in self._sorted:
            self._sorted[bin] = sorted(changed)
        keys = self._sorted[bin]
        return {key: changed[key] for key in keys[bisect_left(keys, start) : bisect_left(keys, stop)]}

    def _note(self, change: Entries) -> None:
        for bin, key, value in zip(*(column.to_pylist() for column in change.columns), strict=True):
            self._changed.setdefault(bin, {})[key] = value
            self._sorted.pop(bin, None)
