"""The rows of an undo record: what the epoch has read is not read again, and an undo gives all of them back."""

from __future__ import annotations

import hypothesis.strategies as st
import pyarrow as pa
import pytest
from hypothesis import given
from stores import commit_epoch

from binshift import entries
from binshift.entries import Entries
from binshift.model import GENESIS, Bin, BinSet, Epoch, Fence, IntArray, Stamp, Term
from binshift.store.bins import undo
from binshift.store.bins.binstore import BinStore
from binshift.store.engine.contract import StoreLimits
from binshift.store.engine.memory_store import MemoryStore, MemoryTransaction

OWNED = BinSet([0, 1, 2])
KEYS = st.tuples(st.integers(0, 2), st.binary(max_size=2))
STORED = st.dictionaries(KEYS, st.binary(max_size=3), max_size=12)
CHANGES = st.dictionaries(KEYS, st.none() | st.binary(max_size=3), max_size=12)
READS = st.lists(st.lists(KEYS, max_size=8), max_size=3)
FENCE = Fence(Term(1), Epoch(0), 0)


def rows(of: dict[tuple[int, bytes], bytes | None]) -> Entries:
    """Rows of state."""
    return entries.make([bin for bin, _ in of], [key for _, key in of], list(of.values()))


def at(epoch: int) -> Stamp:
    """The state after an epoch."""
    return Stamp(Epoch(epoch), f"1.{epoch}.0.a")


def filled(stored: dict[tuple[int, bytes], bytes], limits: StoreLimits) -> BinStore:
    """A store with these rows, after epoch 0."""
    store = BinStore(MemoryStore(limits), 3, limits)
    changes = [rows({**stored})]
    commit_epoch(store, FENCE, expect=GENESIS, stamp=at(0), owned=OWNED, changes=changes, undo=False)
    return store


def contents(store: BinStore) -> list[dict[str, object]]:
    """All rows of the store."""
    with store.reader() as reader:
        return [row for bin in OWNED for part in reader.scan(Bin(bin)) for row in part.to_pylist()]


@given(stored=STORED, reads=READS, changes=CHANGES, room=st.sampled_from([40, 1 << 20]))
def test_an_undo_gives_back_what_was_read_and_what_was_not(
    stored: dict[tuple[int, bytes], bytes],
    reads: list[list[tuple[int, bytes]]],
    changes: dict[tuple[int, bytes], bytes | None],
    room: int,
) -> None:
    """Whatever the epoch has read, in any order, several times, more or less than it changes, or more than is remembered."""
    store = filled(stored, StoreLimits(undo_bytes_max=room))
    before = contents(store)
    with store.reader(remember=True) as reader:
        for keys in reads:
            asked = rows(dict.fromkeys(keys))
            reader.get_many(entries.bins_array(asked), asked.column("key"))
    fence = Fence(Term(1), Epoch(1), 0)
    commit_epoch(store, fence, expect=at(0), stamp=at(1), owned=OWNED, changes=[rows(changes)], undo=True, read=reader)
    assert store.undo(fence, at(0)) or room == 40
    if store.status().stamp == at(0):
        assert contents(store) == before


def test_what_was_read_of_another_state_does_not_count() -> None:
    """A reader of the state before is of no use for the undo of the next epoch."""
    store = filled({(0, b"k"): b"0"}, StoreLimits())
    asked = rows({(0, b"k"): None})
    with store.reader(remember=True) as reader:
        reader.get_many(entries.bins_array(asked), asked.column("key"))
    for epoch in (1, 2):
        change = [rows({(0, b"k"): b"%d" % epoch})]
        commit_epoch(
            store, FENCE, expect=at(epoch - 1), stamp=at(epoch), owned=OWNED, changes=change, undo=True, read=reader
        )
    assert store.undo(FENCE, at(1))
    assert contents(store) == [{"bin": 0, "key": b"k", "value": b"1"}]


@pytest.mark.parametrize(("read", "again"), [([b"a", b"b"], []), ([b"b"], [1]), ([], [2])])
def test_only_rows_that_were_not_read_are_read_for_the_record(
    read: list[bytes], again: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the changed keys a, b; ``again`` has the number of keys of each read."""
    asked: list[int] = []
    real = MemoryTransaction.get_many
    with MemoryStore().write(1) as transaction:
        transaction.put_many(rows({(0, b"a"): b"1", (0, b"b"): b"2"}))

        def get_many(self: MemoryTransaction, bins: IntArray, keys: pa.BinaryArray) -> pa.BinaryArray:
            asked.append(len(keys))
            return real(self, bins, keys)

        monkeypatch.setattr(MemoryTransaction, "get_many", get_many)
        known = [rows({(0, key): b"1" if key == b"a" else b"2" for key in read})]
        old = undo.old_rows(transaction, rows({(0, b"a"): None, (0, b"b"): b"3"}), 1000, known)
    assert old is not None
    assert (old.column("value").to_pylist(), asked) == ([b"1", b"2"], again)
