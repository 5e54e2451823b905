"""A local store counts for the log that it was filled from, not for another one with the same query, terms and epochs."""

from __future__ import annotations

import uuid

import pytest

from binshift import entries
from binshift.errors import Fenced
from binshift.log.records.terms import Driver, take_term
from binshift.log.storage import layout
from binshift.log.storage.contract import Storage
from binshift.log.storage.opening import open_storage
from binshift.model import BinSet, Epoch, Fence, Term
from binshift.store.bins.binstore import BinStore
from binshift.store.engine.contract import KeyValueStore
from binshift.store.engine.memory_store import MemoryStore
from binshift.worker.claim import claim

BINS = 8
ONE = BinSet([1])
COPIED = Epoch(20)


@pytest.fixture
def log() -> Storage:
    """An empty log."""
    return empty_log()


def empty_log() -> Storage:
    """A log without drivers."""
    return open_storage(f"memory://{uuid.uuid4().hex}")


def driver(log: Storage, nonce: str, opened_at: int = COPIED) -> Driver:
    """The next driver of a log."""
    return Driver(take_term(log, "test", nonce), nonce, Epoch(opened_at))


def claimed(kv: KeyValueStore, log: Storage, driver: Driver) -> BinStore:
    """The store as a task of the driver gets it."""
    store = BinStore(kv, BINS, driver=driver.nonce)
    claim(store, log, driver)
    return store


def filled(log: Storage, driver: Driver) -> KeyValueStore:
    """What tasks of a driver have left: a copy of a bin at epoch 20, and the fence of epoch 21."""
    kv = MemoryStore()
    store, fence = claimed(kv, log, driver), Fence(driver.term, Epoch(COPIED + 1), 3)
    rows = entries.make([1], [b"key"], [b"value"])
    store.install_copies(fence, ONE, COPIED, [rows], begin=True, done=True, attempt="a")
    store.raise_fence(fence)
    return kv


def copies(store: BinStore) -> dict[int, int]:
    """The epochs of the bins that count."""
    return {int(each): int(epoch) for each, epoch in store.status().copies.items()}


def test_the_store_of_the_same_log_stays(log: Storage) -> None:
    """For tasks of the driver that has filled it, and for those of the next one."""
    first = driver(log, "first")
    kv = filled(log, first)
    assert copies(claimed(kv, log, first)) == {1: COPIED}
    assert copies(claimed(kv, log, driver(log, "second"))) == {1: COPIED}


def test_the_store_of_a_newer_driver_stays(log: Storage) -> None:
    """Tasks of an earlier driver are refused by the fence (I8), however the store came to be ahead of their log."""
    first = driver(log, "first", opened_at=0)
    kv = filled(log, driver(log, "second"))
    store = claimed(kv, log, first)
    assert copies(store) == {1: COPIED}
    with pytest.raises(Fenced):
        store.raise_fence(Fence(first.term, Epoch(21), 9))


def test_the_store_of_another_log_is_emptied(log: Storage, caplog: pytest.LogCaptureFixture) -> None:
    """A log that begins again has the same terms; its first driver finds neither copies nor a fence."""
    kv = filled(log, driver(log, "first"))
    other = empty_log()
    again = driver(other, "again", opened_at=-1)
    store = claimed(kv, other, again)
    assert copies(store) == {}
    assert store.size().rows == 0
    assert "another log" in caplog.text
    store.raise_fence(Fence(again.term, Epoch(0), 1))
    caplog.clear()
    assert copies(claimed(kv, other, again)) == {}
    assert not caplog.text, "it is the driver's own now"


def test_a_store_ahead_of_a_restored_log_is_emptied(log: Storage) -> None:
    """A backup of epoch 10: copies of epoch 20 are not the ones of the restored log."""
    kv = filled(log, driver(log, "first"))
    assert copies(claimed(kv, log, driver(log, "restored", opened_at=10))) == {}


def test_a_store_of_a_term_that_a_restored_log_has_lost_is_emptied(log: Storage) -> None:
    """The backup is older than the driver that has filled the store, or its term has another driver since."""
    driver(log, "first")
    kv = filled(log, driver(log, "second"))
    log.delete([layout.term_name(Term(2))])
    assert copies(claimed(kv, log, Driver(Term(1), "first", COPIED))) == {}
    kv = filled(log, Driver(Term(2), "second", COPIED))
    driver(log, "restored")
    assert copies(claimed(kv, log, driver(log, "third"))) == {}


def test_a_task_does_not_empty_what_another_has_claimed(log: Storage) -> None:
    """After a task has read the status, and before it changes the store, tasks of another driver can have filled the store."""
    first = driver(log, "first")
    store = claimed(filled(log, first), log, first)
    store.forget_driver("someone else")
    assert copies(store) == {1: COPIED}


def test_a_store_without_a_driver_stays(log: Storage) -> None:
    """Such as one filled by an earlier version of binshift."""
    kv = filled(log, Driver(Term(0), "", COPIED))
    assert copies(claimed(kv, log, driver(log, "first"))) == {1: COPIED}
