"""A variable with a map for each key: one row for each entry.

Entries are read one at a time, as maps may be large; iteration reads the rows of the key, which lie together. An entry is known by its
packed user key, in which equal keys have equal bytes.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from binshift import binary
from binshift.invariants import invariant
from binshift.operators.contract import STATE_SPACE
from binshift.operators.processor.keygroup import NO_KEYS, KeyGroup, Turn
from binshift.operators.processor.layout import end_of, index_keys, variable_keys
from binshift.operators.processor.packing import key_packer
from binshift.operators.processor.variables import NEVER_MS, Tuple, Variable, tuples_of
from binshift.operators.processor.view import EpochView
from binshift.rows import RowCodec

Entry = tuple[Tuple, int]
"""A value and its expiry."""


class Maps:
    """The maps of a group of keys; changes are written at once by `flush`.

    Args:
        variable: which one; it has user keys.
        view: the epoch's state.
        turn: the key whose turn it is.
    """

    def __init__(self, variable: Variable, view: EpochView, turn: Turn) -> None:
        invariant(variable.user_key is not None, f"the map {variable.name} has no schema of keys")
        self.variable = variable
        self._view = view
        self._turn = turn
        self._keys = RowCodec(variable.user_key or pa.schema([]))
        self._pack = key_packer(self._keys)
        self._group = NO_KEYS
        self._stored: dict[tuple[int, bytes], Entry | None] = {}
        self._changed: dict[int, dict[bytes, Tuple | None]] = {}
        self._cleared: set[int] = set()

    def bind(self, group: KeyGroup) -> None:
        """Work on another group; the changes of the one before are written."""
        self._group, self._stored = group, {}

    def get(self, user_key: Tuple) -> Tuple | None:
        """The value of an entry, None if there is none or its time to live is over."""
        at, packed = self._turn.at, self._pack(user_key)
        changed = self._changed.get(at, {})
        if packed in changed:
            return changed[packed]
        found = None if at in self._cleared else self._read(at, packed)
        return None if found is None or found[1] <= self._turn.time_ms else found[0]

    def set(self, user_key: Tuple, value: Tuple | None) -> None:
        """Set an entry; None removes it."""
        self._changed.setdefault(self._turn.at, {})[self._pack(user_key)] = value

    def clear(self) -> None:
        """Remove all entries."""
        self._changed[self._turn.at] = {}
        self._cleared.add(self._turn.at)

    def exists(self) -> bool:
        """Whether there is an entry."""
        return any(value is not None for value in self._changed.get(self._turn.at, {}).values()) or bool(self._now())

    def items(self) -> Iterator[tuple[Tuple, Tuple]]:
        """All entries as they are now, by their packed keys."""
        found = self._now()
        keys = tuples_of(self._keys.unpack_columns(binary.of(list(found))), len(found))
        return zip(keys, found.values(), strict=True)

    def flush(self) -> None:
        """Write the group's changes."""
        for at in self._cleared:
            self._delete([(at, packed) for packed in self._rows(at)], {})
        wanted = [(at, packed) for at, entries in self._changed.items() for packed in entries]
        before = self._before(wanted)
        self._delete(
            [place for place in wanted if self._changed[place[0]][place[1]] is None and place in before], before
        )
        self._put([place for place in wanted if self._changed[place[0]][place[1]] is not None], before)
        self._changed, self._cleared = {}, set()

    def _put(self, places: list[tuple[int, bytes]], before: dict[tuple[int, bytes], Entry]) -> None:
        variable = self.variable
        expiry = NEVER_MS if variable.ttl_ms is None else self._turn.time_ms + variable.ttl_ms
        values = [value for at, packed in places if (value := self._changed[at][packed]) is not None]
        bins, keys = self._group.bins_of(places), self._row_keys(places)
        self._view.put(bins, keys, variable.codec.pack(values, [expiry] * len(values)))
        if variable.ttl_ms is not None:
            self._unindex([place for place in places if place in before], before)
            times = pa.repeat(pa.scalar(expiry, pa.int64()), len(places))
            self._view.put(bins, index_keys(times, keys), pa.repeat(pa.scalar(b"", pa.binary()), len(places)))

    def _delete(self, places: list[tuple[int, bytes]], before: dict[tuple[int, bytes], Entry]) -> None:
        self._unindex(places, before)
        self._view.delete(self._group.bins_of(places), self._row_keys(places))

    def _unindex(self, places: list[tuple[int, bytes]], before: dict[tuple[int, bytes], Entry]) -> None:
        if self.variable.ttl_ms is not None:
            times = pa.array([(before.get(place) or self._read(*place) or ((), 0))[1] for place in places], pa.int64())
            self._view.delete(self._group.bins_of(places), index_keys(times, self._row_keys(places)))

    def _before(self, places: list[tuple[int, bytes]]) -> dict[tuple[int, bytes], Entry]:
        """The stored entries among these, unless nothing depends on them or their maps were cleared."""
        if self.variable.ttl_ms is None and all(None not in each.values() for each in self._changed.values()):
            return {}
        asked = [place for place in places if place[0] not in self._cleared]
        found = self._view.get(self._group.bins_of(asked), self._row_keys(asked))
        present = found.is_valid()
        entries = zip(*self.variable.codec.unpack(found.filter(present)), strict=True)
        return {asked[at]: next(entries) for at in np.flatnonzero(present.to_numpy(zero_copy_only=False)).tolist()}

    def _now(self) -> dict[bytes, Tuple]:
        at = self._turn.at
        found: dict[bytes, Tuple] = {}
        if at not in self._cleared:
            rows = self._rows(at)
            entries = zip(*self.variable.codec.unpack(binary.of(list(rows.values()))), strict=True)
            found = {key: value for key, (value, ends) in zip(rows, entries, strict=True) if ends > self._turn.time_ms}
        merged = {**found, **self._changed.get(at, {})}
        return {key: value for key, value in sorted(merged.items()) if value is not None}

    def _rows(self, at: int) -> dict[bytes, bytes]:
        prefix: bytes = variable_keys(STATE_SPACE, self.variable.number, self._group.sized.slice(at, 1))[0].as_py()
        found = self._view.rows(int(self._group.bins[at]), prefix, end_of(prefix))
        return {key[len(prefix) :]: value for key, value in found}

    def _read(self, at: int, packed: bytes) -> Entry | None:
        place = at, packed
        if place not in self._stored:
            stored = self._view.get(self._group.bins_of([place]), self._row_keys([place]))
            self._stored[place] = None
            if not stored.null_count:
                tuples, expiries = self.variable.codec.unpack(stored)
                self._stored[place] = tuples[0], expiries[0]
        return self._stored[place]

    def _row_keys(self, places: list[tuple[int, bytes]]) -> pa.BinaryArray:
        keys = self._group.sized.take(pa.array([at for at, _ in places], pa.int32()))
        rests = binary.of([packed for _, packed in places])
        return variable_keys(STATE_SPACE, self.variable.number, binary.join([keys, rests]))
