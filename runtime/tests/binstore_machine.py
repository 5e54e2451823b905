"""A state machine that compares a bin store with the model after every step."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pytest
from binstore_model import Model
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant

from binshift.entries import Entries
from binshift.errors import Fenced
from binshift.invariants import InvariantViolated
from binshift.model import Bin, BinSet, Epoch, Fence, Term
from binshift.store.bins.binstore import BinStore
from binshift.store.engine.contract import KeyValueStore, StoreLimits

BINS = 6
LIMITS = StoreLimits(map_bytes_max=16 << 20, background_rows_max=8, scan_bytes_max=60)


class ComparingMachine(RuleBasedStateMachine):
    """A bin store and the model side by side; subclasses have the rules and the location of the rows."""

    def make_kv(self) -> KeyValueStore:
        """The key-value store below, the same one every time."""
        raise NotImplementedError

    @initialize()
    def begin(self) -> None:
        """Both empty."""
        self.kv = self.make_kv()
        self.store = BinStore(self.kv, BINS, LIMITS)
        self.model = Model()
        self.objects = 0
        self.attempts = 0

    def fence(self, which: int, *, background: bool) -> Fence | None:
        """The held fence, or sometimes a higher one; None if a lower one was tried and correctly rejected."""
        held = self.model.fence
        term = Term(max(held.term, 1))
        if which == 9:
            return Fence(term, held.epoch, held.run + 1) if not background else Fence(Term(term + 1), held.epoch, 0)
        return held

    def admitted(self, fence: Fence, *, background: bool) -> None:
        """The effect of a successful call on the fence."""
        if fence > self.model.fence and (not background or fence.term > self.model.fence.term):
            self.model.fence = fence

    def call(self, which: int, change: Callable[[Fence], object], *, background: bool = False) -> object:
        """Make the change; but first check that a lower fence, if any, is rejected."""
        held = self.model.fence
        if which == -1 and held.term > 0:
            low = (
                Fence(Term(held.term - 1), Epoch(99), 99) if background else Fence(held.term, held.epoch, held.run - 1)
            )
            with pytest.raises(Fenced):
                change(low)
            self.everything_agrees()
        fence = self.fence(which, background=background)
        assert fence is not None
        answer = change(fence)
        self.admitted(fence, background=background)
        return answer

    @invariant()
    def everything_agrees(self) -> None:
        """Status, scans and lookups equal the model's; invisible bins cannot be read; no bin has stray rows."""
        if not hasattr(self, "model"):
            return
        model = self.model
        with self.store.reader() as reader:
            status = reader.status
            assert model.stamp == status.stamp
            assert BinSet(model.owned) == status.owned
            assert model.copies == dict(status.copies)
            assert (model.before.stamp if model.before else None) == status.undo_to
            assert model.fence == status.fence
            assert set(model.installing) == set(status.partial_bins)
            for bin in range(BINS):
                if bin not in model.owned and bin not in model.copies:
                    with pytest.raises(InvariantViolated):
                        list(reader.scan(Bin(bin)))
                    continue
                found = [row for part in reader.scan(Bin(bin)) for row in _pairs(part)]
                assert sorted(model.rows.get(bin, {}).items()) == found
                keys = [b"a", b"b", b"c"]
                got = reader.get_many(np.full(3, bin, dtype=np.int32), pa.array(keys, pa.binary())).to_pylist()
                assert [model.rows.get(bin, {}).get(key) for key in keys] == got
        self.nothing_is_left_behind()

    def nothing_is_left_behind(self) -> None:
        """Bins that are neither visible nor being installed have no rows in the key-value store either."""
        gone = set(range(BINS)) - self.model.owned - set(self.model.copies) - set(self.model.installing)
        with self.kv.read() as transaction:
            assert [bin for bin in gone if list(transaction.scan(Bin(bin)))] == []


def _pairs(part: Entries) -> list[tuple[bytes, bytes]]:
    return list(zip(part.column(1).to_pylist(), part.column(2).to_pylist(), strict=True))
