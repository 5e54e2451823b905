"""The transaction of an epoch: what can be refused is refused before it is entered, and what will be stored is known in it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, suppress
from pathlib import Path

import hypothesis.strategies as st
import pytest
from hypothesis import given
from stores import KINDS, commit_epoch, opened

from binshift import entries
from binshift.entries import Entries
from binshift.errors import DiskFull, Fenced, NeedsBringUp, StateTooLarge, StoreBusy
from binshift.model import GENESIS, Bin, BinSet, Epoch, Fence, Stamp, Term
from binshift.store.bins.binstore import BinStore
from binshift.store.bins.epoch_commit import EpochCommit
from binshift.store.engine import room
from binshift.store.engine.contract import KeyValueStore, StoreLimits
from binshift.store.engine.memory_store import MemoryStore

BINS = BinSet([0, 1])
LIMITS = StoreLimits(map_bytes_max=32 << 20, value_bytes_max=100, lock_seconds_max=0.05)
KEYS = st.tuples(st.integers(0, 1), st.binary(max_size=1))
STORED = st.dictionaries(KEYS, st.binary(max_size=3), max_size=12)
CHANGES = st.dictionaries(KEYS, st.none() | st.binary(max_size=3), max_size=12)


def at(epoch: int) -> Stamp:
    """The state after an epoch."""
    return Stamp(Epoch(epoch), f"1.{epoch}.0.a")


def fence(epoch: int, term: int = 1) -> Fence:
    """Of an epoch's first run."""
    return Fence(Term(term), Epoch(epoch), 0)


def rows(of: dict[tuple[int, bytes], bytes | None]) -> Entries:
    """Rows of state."""
    return entries.make([bin for bin, _ in of], [key for _, key in of], list(of.values()))


def commit(store: BinStore, epoch: int, changes: Entries, *, undo: bool = True) -> AbstractContextManager[EpochCommit]:
    """Epoch after epoch, with all bins owned."""
    expect = GENESIS if epoch == 0 else at(epoch - 1)
    return store.committing(fence(epoch), expect=expect, stamp=at(epoch), owned=BINS, changes=[changes], undo=undo)


@pytest.fixture(params=KINDS)
def kv(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[KeyValueStore]:
    """An empty store of each kind."""
    yield from opened(request.param, tmp_path, LIMITS)


@pytest.fixture
def store(kv: KeyValueStore) -> BinStore:
    """After epoch 0, with a row."""
    made = BinStore(kv, 2, LIMITS)
    with commit(made, 0, rows({(0, b"k"): b"0"})):
        pass
    return made


@given(stored=STORED, changes=CHANGES, undo=st.booleans(), most=st.sampled_from([2, 1 << 20]))
def test_the_rows_are_counted_before_they_are_written(
    stored: dict[tuple[int, bytes], bytes], changes: dict[tuple[int, bytes], bytes | None], undo: bool, most: int
) -> None:
    """With and without an undo record, and where it would be too large."""
    limits = StoreLimits(undo_bytes_max=most)
    store = BinStore(MemoryStore(limits), 2, limits)
    with commit(store, 0, rows({**stored})):
        pass
    with commit(store, 1, rows(changes), undo=undo) as epoch:
        counted = epoch.size().rows
    assert store.size().rows == counted


def test_readers_find_the_state_before(store: BinStore) -> None:
    """Until the block is left; the epoch's own reader has the state after (I2)."""
    with commit(store, 1, rows({(0, b"k"): b"1"})) as epoch:
        assert store.status().stamp == at(0)
        with store.reader() as reader:
            assert [row["value"] for part in reader.scan(Bin(0)) for row in part.to_pylist()] == [b"0"]
        after = epoch.reader()
        assert after.status.stamp == at(1)
        assert [row["value"] for part in after.scan(Bin(0)) for row in part.to_pylist()] == [b"1"]
    assert store.status().stamp == at(1)


def test_no_other_task_changes_the_store_meanwhile(kv: KeyValueStore, store: BinStore) -> None:
    """It waits, and then finds the epoch (I8)."""
    other = BinStore(kv, 2, LIMITS)
    with commit(store, 1, rows({})):
        with pytest.raises(StoreBusy):
            other.raise_fence(fence(1, term=2))
        with pytest.raises(StoreBusy):
            other.wait_for_writer()
    other.raise_fence(fence(1, term=2))
    assert other.undo(fence(1, term=2), at(0))


def test_an_epoch_that_is_refused_is_not_begun(store: BinStore) -> None:
    """No caller relies on it before: a replaced task, another state, a value above the limit."""
    begun = []
    store.raise_fence(fence(1, term=2))
    with pytest.raises(Fenced), commit(store, 1, rows({})):
        begun.append("fenced")
    with pytest.raises(NeedsBringUp):
        commit_epoch(store, fence(2, term=2), expect=at(1), stamp=at(2), owned=BINS, changes=[], undo=True)
    large = [rows({(0, b"k"): b"v" * 101})]
    with (
        pytest.raises(StateTooLarge, match="value of 101 bytes"),
        store.committing(fence(1, term=2), expect=at(0), stamp=at(1), owned=BINS, changes=large, undo=True),
    ):
        begun.append("too large")
    assert not begun
    assert store.status().stamp == at(0)


def test_a_disk_without_room_is_noticed_before(
    store: BinStore, kv: KeyValueStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As far as that can be known."""
    if isinstance(kv, MemoryStore):
        pytest.skip("has no disk")

    def full(directory: Path, need: int, free: int) -> None:
        if need:
            raise DiskFull("simulated")

    monkeypatch.setattr(room, "check_room", full)
    with pytest.raises(DiskFull), commit(store, 1, rows({(1, b"k"): b"1"})):
        pytest.fail("it is begun")


def test_an_error_in_the_block_changes_nothing(store: BinStore) -> None:
    """Whether it comes before the rows are written or after."""
    for written in (False, True):
        with suppress(KeyboardInterrupt), commit(store, 1, rows({(0, b"k"): None})) as epoch:
            if written:
                epoch.apply()
            raise KeyboardInterrupt
        assert (store.status().stamp, store.size().rows) == (at(0), 1)


def test_bins_of_a_store_that_is_behind_become_copies(store: BinStore) -> None:
    """At the epoch that it is at; the record of the epoch before cannot be used any more."""
    with commit(store, 1, rows({(1, b"k"): b"1"})):
        pass
    store.disown(fence(2))
    status = store.status()
    assert (dict(status.copies), status.owned, status.stamp) == ({0: 1, 1: 1}, BinSet(), GENESIS)
    assert not store.undo(fence(2), at(0))
    with store.reader() as reader:
        assert [part.num_rows for part in reader.scan(Bin(1))] == [1]
