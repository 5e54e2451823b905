"""Edge cases of the bin store: fences of several kinds of tasks, limits, snapshots, foreign blobs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from stores import KINDS, commit_epoch, opened

from binshift import entries
from binshift.entries import Entries
from binshift.errors import Fenced, StateTooLarge, StoreDamaged
from binshift.model import GENESIS, Bin, BinSet, Epoch, Fence, Stamp, Term
from binshift.store.bins.binstore import BinStore
from binshift.store.bins.undo import CHUNK_BYTES
from binshift.store.engine.contract import KeyValueStore, StoreLimits
from binshift.store.engine.lmdb_store import close_environments, open_lmdb
from binshift.store.engine.memory_store import MemoryStore

BINS = 16
LIMITS = StoreLimits(map_bytes_max=32 << 20, background_rows_max=16)
FENCE = Fence(Term(1), Epoch(0), 1)
ONE = BinSet([1])


def stamp(epoch: int, attempt: str = "a") -> Stamp:
    """A stamp."""
    return Stamp(Epoch(epoch), attempt)


def batch(bin: int, rows: int, value: bytes = b"v") -> Entries:
    """This many rows of one bin."""
    return entries.make([bin] * rows, [b"%05d" % at for at in range(rows)], [value] * rows)


def count(store: BinStore, bin: int, value: bytes | None = None) -> int:
    """Rows of a visible bin, optionally only those with a value."""
    with store.reader() as reader:
        found = [v for part in reader.scan(Bin(bin)) for v in part.column(2).to_pylist()]
    return len(found) if value is None else found.count(value)


@pytest.fixture(params=KINDS)
def kv(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[KeyValueStore]:
    """An empty key-value store of each kind."""
    yield from opened(request.param, tmp_path, LIMITS)


@pytest.fixture
def store(kv: KeyValueStore) -> BinStore:
    """An empty bin store on it."""
    return BinStore(kv, BINS, LIMITS)


def test_parts_of_a_copy_may_come_from_several_tasks_of_one_attempt(kv: KeyValueStore, store: BinStore) -> None:
    """A task with the same attempt may continue a copy that another object began."""
    store.install_copies(FENCE, ONE, Epoch(4), [batch(1, 3)], begin=True, done=False, attempt="job-7")
    other = BinStore(kv, BINS, LIMITS)
    more = entries.make([1], [b"more"], [b"v"])
    other.install_copies(FENCE, ONE, Epoch(4), [more], begin=False, done=True, attempt="job-7")
    assert count(store, 1) == 4


def test_background_tasks_outlive_epochs_but_not_drivers(store: BinStore) -> None:
    """A copy ordered under an earlier epoch's fence continues; one of an earlier term is rejected; none lowers the fence."""
    newer = Fence(Term(1), Epoch(9), 2)
    store.raise_fence(newer)
    store.install_copies(FENCE, ONE, Epoch(8), [], begin=True, done=True)
    assert store.status().fence == newer
    store.raise_fence(Fence(Term(2), Epoch(0), 0))
    changes: list[Callable[[], None]] = [
        lambda: store.install_copies(newer, BinSet([2]), Epoch(8), [], begin=True, done=True),
        lambda: store.advance_copies(newer, ONE, Epoch(9), []),
        lambda: store.drop_copies(newer, ONE),
    ]
    for change in changes:
        with pytest.raises(Fenced):
            change()
    assert dict(store.status().copies) == {1: 8}


def test_an_epoch_above_the_undo_limit_commits_without_undo(kv: KeyValueStore) -> None:
    """Above the size limit undo_to is None, and the blobs of the earlier undo are gone (I7)."""
    store = BinStore(kv, BINS, StoreLimits(undo_bytes_max=1000))
    commit_epoch(store, FENCE, expect=GENESIS, stamp=stamp(0), owned=ONE, changes=[batch(1, 5)], undo=True)
    assert store.status().undo_to == GENESIS
    commit_epoch(store, FENCE, expect=stamp(0), stamp=stamp(1), owned=ONE, changes=[batch(1, 500)], undo=True)
    assert store.status().undo_to is None
    assert not store.undo(FENCE, stamp(0))
    assert undo_blobs(kv) == []
    commit_epoch(store, FENCE, expect=stamp(1), stamp=stamp(2), owned=ONE, changes=[batch(1, 5)], undo=False)
    assert (store.status().stamp, count(store, 1)) == (stamp(2), 500)


def undo_blobs(kv: KeyValueStore) -> list[str]:
    """Names of the undo record's blobs that exist."""
    names = ["undo", *(f"undo.{at:06d}" for at in range(20))]
    with kv.read() as transaction:
        return [name for name in names if transaction.meta(name) is not None]


def test_a_large_epoch_is_undone_to_the_last_byte(kv: KeyValueStore, store: BinStore) -> None:
    """An undo record of several blobs is read back completely, and a smaller one leaves none of them."""
    before = batch(1, 3000, b"x" * 100)
    commit_epoch(store, FENCE, expect=GENESIS, stamp=stamp(0), owned=ONE, changes=[before], undo=False)
    change = entries.merge_last_wins([batch(1, 4000, b"y"), entries.make([1], [b"00007"], [None])])
    commit_epoch(store, FENCE, expect=stamp(0), stamp=stamp(1), owned=ONE, changes=[change], undo=True)
    assert len(undo_blobs(kv)) > 2 + entries.size_bytes(before) // CHUNK_BYTES - 1
    assert store.undo(FENCE, stamp(0))
    with store.reader() as reader:
        assert entries.concat(list(reader.scan(Bin(1)))).equals(before)
    assert undo_blobs(kv) == []
    commit_epoch(store, FENCE, expect=stamp(0), stamp=stamp(1), owned=ONE, changes=[change], undo=True)
    commit_epoch(store, FENCE, expect=stamp(1), stamp=stamp(2), owned=ONE, changes=[batch(1, 1)], undo=True)
    assert undo_blobs(kv) == ["undo", "undo.000000"]


def test_an_epoch_that_is_too_large_changes_nothing(kv: KeyValueStore) -> None:
    """A value above the limit rejects the epoch: stamp, rows, undo and fence are unchanged."""
    store = BinStore(MemoryStore(StoreLimits(value_bytes_max=50)), BINS)
    commit_epoch(store, FENCE, expect=GENESIS, stamp=stamp(0), owned=ONE, changes=[batch(1, 3)], undo=True)
    before = store.status()
    with pytest.raises(StateTooLarge, match="bin 1"):
        commit_epoch(
            store,
            Fence(Term(2), Epoch(0), 0),
            expect=stamp(0),
            stamp=stamp(1),
            owned=BinSet([1, 2]) - BinSet([2]),
            changes=[batch(1, 2, b"w"), entries.make([1], [b"k"], [b"v" * 51])],
            undo=True,
        )
    assert store.status() == before
    assert count(store, 1, b"v") == 3


def test_a_store_for_another_number_of_bins_starts_empty(kv: KeyValueStore, store: BinStore) -> None:
    """The same directory with another number of bins is empty; a task with the old number stops."""
    commit_epoch(store, FENCE, expect=GENESIS, stamp=stamp(0), owned=ONE, changes=[batch(1, 3)], undo=True)
    other = BinStore(kv, 2 * BINS, LIMITS)
    assert (other.status().stamp, len(other.status().visible)) == (GENESIS, 0)
    with kv.read() as transaction:
        assert not list(transaction.scan(Bin(1)))
    with pytest.raises(Fenced, match="number of bins"):
        store.status()


def test_a_reader_keeps_status_and_rows_of_its_moment(store: BinStore) -> None:
    """An epoch committed while a reader is open changes neither its stamp nor its rows."""
    commit_epoch(store, FENCE, expect=GENESIS, stamp=stamp(0), owned=ONE, changes=[batch(1, 3)], undo=True)
    with store.reader() as reader:
        commit_epoch(store, FENCE, expect=stamp(0), stamp=stamp(1), owned=ONE, changes=[batch(1, 9)], undo=True)
        assert reader.status.stamp == stamp(0)
        assert sum(part.num_rows for part in reader.scan(Bin(1))) == 3
    assert count(store, 1) == 9


@pytest.mark.parametrize("blob", ["status", "undo", "undo.000000"])
def test_a_garbled_blob_is_damage_and_the_directory_starts_empty(tmp_path: Path, blob: str) -> None:
    """Bytes that are not a status or undo record raise StoreDamaged; after that the store is empty and usable."""
    kv = open_lmdb(tmp_path, LIMITS)
    store = BinStore(kv, BINS, LIMITS)
    commit_epoch(store, FENCE, expect=GENESIS, stamp=stamp(0), owned=ONE, changes=[batch(1, 3)], undo=True)
    with kv.write(1) as transaction:
        transaction.set_meta(blob, b"\xc1")
    with pytest.raises(StoreDamaged):
        store.undo(FENCE, GENESIS)
    assert store.status().stamp == GENESIS
    commit_epoch(store, FENCE, expect=GENESIS, stamp=stamp(0), owned=ONE, changes=[batch(1, 3)], undo=True)
    assert count(store, 1) == 3
    close_environments(tmp_path)
