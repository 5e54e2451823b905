"""A variable with one value for each key."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from binshift.model import IntArray
from binshift.operators.contract import STATE_SPACE
from binshift.operators.processor.keygroup import NO_KEYS, KeyGroup, Turn
from binshift.operators.processor.layout import index_keys, variable_keys
from binshift.operators.processor.variables import NEVER_MS, Tuple, Variable
from binshift.operators.processor.view import EpochView


class Values:
    """The values of a group of keys: all read at once when the first is needed, changes written at once by `flush`.

    Args:
        variable: which one.
        view: the epoch's state.
        turn: the key whose turn it is.
    """

    def __init__(self, variable: Variable, view: EpochView, turn: Turn) -> None:
        self.variable = variable
        self._view = view
        self._turn = turn
        self._group = NO_KEYS
        self._stored: dict[int, tuple[Tuple, int]] | None = None
        self._changed: dict[int, Tuple | None] = {}

    def bind(self, group: KeyGroup) -> None:
        """Work on another group; the changes of the one before are written."""
        self._group, self._stored = group, None

    def get(self) -> Tuple | None:
        """The value, None if there is none or its time to live is over."""
        at = self._turn.at
        if at in self._changed:
            return self._changed[at]
        found = self._load().get(at)
        return None if found is None or found[1] <= self._turn.time_ms else found[0]

    def set(self, value: Tuple | None) -> None:
        """Set the value; None deletes it."""
        self._changed[self._turn.at] = value

    def flush(self) -> None:
        """Write the group's changes."""
        if not self._changed:
            return
        variable, group = self.variable, self._group
        keys = variable_keys(STATE_SPACE, variable.number, group.sized)
        kept = {at: value for at, value in self._changed.items() if value is not None}
        before = self._load() if variable.ttl_ms is not None or len(kept) < len(self._changed) else {}
        ended = np.array([at for at in self._changed if at not in kept and at in before], dtype=np.int32)
        self._view.delete(group.bins_at(ended), keys.take(pa.array(ended)))
        places = np.fromiter(kept, dtype=np.int32, count=len(kept))
        expiry = NEVER_MS if variable.ttl_ms is None else self._turn.time_ms + variable.ttl_ms
        packed = variable.codec.pack(list(kept.values()), [expiry] * len(kept))
        self._view.put(group.bins_at(places), keys.take(pa.array(places)), packed)
        if variable.ttl_ms is not None:
            self._reindex(keys, before, places, expiry)
        self._changed = {}

    def _reindex(self, keys: pa.BinaryArray, before: dict[int, tuple[Tuple, int]], kept: IntArray, expiry: int) -> None:
        group, changed = self._group, [at for at in self._changed if at in before]
        old = np.array(changed, dtype=np.int32)
        times = pa.array([before[at][1] for at in changed], pa.int64())
        self._view.delete(group.bins_at(old), index_keys(times, keys.take(pa.array(old))))
        new = index_keys(pa.repeat(pa.scalar(expiry, pa.int64()), len(kept)), keys.take(pa.array(kept)))
        self._view.put(group.bins_at(kept), new, pa.repeat(pa.scalar(b"", pa.binary()), len(kept)))

    def _load(self) -> dict[int, tuple[Tuple, int]]:
        if self._stored is None:
            group = self._group
            found = self._view.get(group.bins, variable_keys(STATE_SPACE, self.variable.number, group.sized))
            present = found.is_valid()
            tuples, expiries = self.variable.codec.unpack(found.filter(present))
            places = np.flatnonzero(present.to_numpy(zero_copy_only=False)).tolist()
            self._stored = dict(zip(places, zip(tuples, expiries, strict=True), strict=True))
        return self._stored
