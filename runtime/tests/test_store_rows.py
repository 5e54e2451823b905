"""The number of rows that a store reports, on disk and in memory."""

from __future__ import annotations

from pathlib import Path

import pytest
from stores import commit_epoch

from binshift import entries
from binshift.model import GENESIS, BinSet, Epoch, Fence, Stamp, Term
from binshift.store.bins.binstore import BinStore
from binshift.store.engine.contract import KeyValueStore
from binshift.store.engine.lmdb_store import open_lmdb
from binshift.store.engine.memory_store import MemoryStore


@pytest.mark.parametrize("kind", ["memory", "lmdb"])
def test_rows_are_counted_with_those_of_copies(kind: str, tmp_path: Path) -> None:
    """New rows count, changed ones count once, deleted ones no longer; a copy's rows count as well."""
    kv: KeyValueStore = MemoryStore() if kind == "memory" else open_lmdb(tmp_path)
    store, fence = BinStore(kv, bins=8), Fence(Term(1), Epoch(0), 1)
    assert store.size().rows == 0
    rows = entries.make([1, 1, 2], [b"a", b"b", b"c"], [b"1", b"2", b"3"])
    first, second = Stamp(Epoch(0), "0"), Stamp(Epoch(1), "1")
    commit_epoch(store, fence, expect=GENESIS, stamp=first, owned=BinSet([1, 2]), changes=[rows], undo=False)
    assert store.size().rows == 3
    rows = entries.make([1, 1], [b"a", b"b"], [b"other", None])
    commit_epoch(store, fence, expect=first, stamp=second, owned=BinSet([1, 2]), changes=[rows], undo=True)
    assert store.size().rows == 2
    copy = entries.make([5, 5], [b"x", b"y"], [b"1", b"2"])
    store.install_copies(fence, BinSet([5]), Epoch(1), [copy], begin=True, done=True)
    assert store.size().rows == 4
