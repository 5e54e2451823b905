"""The bin store with processes that die at any write, and with overlapping tasks."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from stores import KINDS, commit_epoch, opened

from binshift import entries
from binshift.entries import Entries
from binshift.errors import NeedsBringUp
from binshift.model import GENESIS, Bin, BinSet, Epoch, Fence, Stamp, Term
from binshift.store.bins.binstore import BinStore
from binshift.store.engine.contract import KeyValueStore, StoreLimits, Transaction
from binshift.store.engine.lmdb_store import close_environments, open_lmdb

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


class Killed(Exception):
    """The process would have died here."""


class DyingStore:
    """A key-value store whose process dies in its n-th write transaction: before it commits, or right after."""

    def __init__(self, kv: KeyValueStore, writes: int, *, committed: bool) -> None:
        self._kv = kv
        self._left = writes
        self._committed = committed
        self.read = kv.read
        self.close = kv.close

    @contextmanager
    def write(self, timeout_seconds: float) -> Iterator[Transaction]:
        """A write transaction of the inner store, until the process dies."""
        with self._kv.write(timeout_seconds) as transaction:
            yield transaction
            self._left -= 1
            if self._left <= 0 and not self._committed:
                raise Killed
        if self._left <= 0:
            raise Killed


@pytest.fixture(params=KINDS)
def kv(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[KeyValueStore]:
    """An empty key-value store of each kind."""
    yield from opened(request.param, tmp_path, LIMITS)


@pytest.fixture
def store(kv: KeyValueStore) -> BinStore:
    """An empty bin store on it."""
    return BinStore(kv, BINS, LIMITS)


def dying_at_each_write(kv: KeyValueStore, do: Callable[[BinStore], object]) -> Iterator[int]:
    """Repeat it, dying one write transaction later each time, until it succeeds."""
    for writes in range(1, 100):
        for committed in (False, True):
            try:
                do(BinStore(DyingStore(kv, writes, committed=committed), BINS, LIMITS))
            except Killed:
                yield writes
            else:
                return
    pytest.fail("it never succeeded")


def test_a_copy_that_died_anywhere_is_never_visible(kv: KeyValueStore, store: BinStore) -> None:
    """If a process is killed while a copy is replaced, the old copy is complete or gone; starting again always works."""
    bins, old, new = BinSet([1, 2]), [batch(1, 12, b"old"), batch(2, 3, b"old")], [batch(1, 30, b"new")]
    store.install_copies(FENCE, bins, Epoch(4), old, begin=True, done=True)

    def replace_copy(dying: BinStore) -> None:
        dying.install_copies(FENCE, bins, Epoch(5), [], begin=True, done=False)
        dying.install_copies(FENCE, bins, Epoch(5), new, begin=False, done=True)

    deaths = 0
    for _ in dying_at_each_write(kv, replace_copy):
        deaths += 1
        copies = dict(store.status().copies)
        if copies == {1: 4, 2: 4}:
            assert (count(store, 1, b"old"), count(store, 2, b"old")) == (12, 3)
        elif copies:
            assert copies == {1: 5, 2: 5}
            assert (count(store, 1, b"new"), count(store, 1), count(store, 2)) == (30, 30, 0)
        else:
            with pytest.raises(NeedsBringUp):
                commit_epoch(store, FENCE, expect=GENESIS, stamp=stamp(6), owned=bins, changes=[], undo=True)
            assert store.status().partial_bins == bins
        store.install_copies(FENCE, bins, Epoch(4), old, begin=True, done=True)
        assert (count(store, 1, b"old"), count(store, 1), count(store, 2)) == (12, 12, 3)
    assert deaths > 6


def test_dropping_that_died_anywhere_can_be_ended(kv: KeyValueStore, store: BinStore) -> None:
    """If a process is killed while copies are dropped, all of them count or none; dropping again leaves no row."""
    bins = BinSet([1, 2])
    contents = [batch(1, 9), batch(2, 3)]
    store.install_copies(FENCE, bins, Epoch(4), contents, begin=True, done=True)
    for _ in dying_at_each_write(kv, lambda dying: dying.drop_copies(FENCE, bins)):
        status = store.status()
        assert dict(status.copies) in ({1: 4, 2: 4}, {})
        store.drop_copies(FENCE, status.partial_bins)
        if not status.copies:
            with kv.read() as transaction:
                assert not list(transaction.scan(Bin(1)))
                assert not list(transaction.scan(Bin(2)))
        assert not len(store.status().partial_bins)
        store.install_copies(FENCE, bins, Epoch(4), contents, begin=True, done=True)
    assert not store.status().copies


def test_an_epoch_that_died_anywhere_is_all_or_nothing(kv: KeyValueStore, store: BinStore) -> None:
    """If a process is killed while an epoch is committed and undone, one of the two states is complete and can be undone."""
    commit_epoch(store, FENCE, expect=GENESIS, stamp=stamp(0), owned=ONE, changes=[batch(1, 30, b"0")], undo=True)

    def there_and_back(dying: BinStore) -> None:
        change = [batch(1, 40, b"1")]
        commit_epoch(dying, FENCE, expect=stamp(0), stamp=stamp(1), owned=ONE, changes=change, undo=True)
        assert dying.undo(FENCE, stamp(0))

    for _ in dying_at_each_write(kv, there_and_back):
        if store.status().stamp == stamp(1):
            assert (count(store, 1, b"1"), count(store, 1)) == (40, 40)
            assert store.undo(FENCE, stamp(0))
        assert store.status().stamp == stamp(0)
        assert (count(store, 1, b"0"), count(store, 1)) == (30, 30)


def test_a_process_killed_inside_an_epoch_leaves_the_earlier_state(tmp_path: Path) -> None:
    """After os._exit in the commit of an epoch, with rows and undo already written, the next process finds neither."""
    store = BinStore(open_lmdb(tmp_path, LIMITS), BINS, LIMITS)
    commit_epoch(store, FENCE, expect=GENESIS, stamp=stamp(0), owned=ONE, changes=[batch(1, 5, b"0")], undo=False)
    close_environments(tmp_path)
    program = f"""
        import os
        from binshift.entries import make
        from binshift.model import BinSet, Fence, Stamp
        from binshift.store.bins import binstore, fenced_store
        from binshift.store.engine import contract, lmdb_store
        limits = contract.StoreLimits(map_bytes_max={LIMITS.map_bytes_max})
        store = binstore.BinStore(lmdb_store.open_lmdb({str(tmp_path)!r}, limits), {BINS}, limits)
        fenced_store.FencedStore.save = lambda *_: os._exit(9)
        change = make([1] * 9000, [b"%05d" % n for n in range(9000)], [b"1"] * 9000)
        with store.committing(Fence(1, 0, 1), expect=Stamp(0, "a"), stamp=Stamp(1, "a"), owned=BinSet([1]),
                              changes=[change], undo=True):
            pass
    """
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])}
    assert (
        subprocess.run([sys.executable, "-c", textwrap.dedent(program)], env=environment, timeout=300).returncode == 9
    )
    store = BinStore(open_lmdb(tmp_path, LIMITS), BINS, LIMITS)
    assert (store.status().stamp, store.status().undo_to) == (stamp(0), None)
    assert (count(store, 1, b"0"), count(store, 1)) == (5, 5)
    close_environments(tmp_path)


def test_a_late_dropper_leaves_a_newer_copy_alone(kv: KeyValueStore, store: BinStore) -> None:
    """When another task installs a bin that is being dropped, the dropper does not touch the new rows."""
    store.install_copies(FENCE, ONE, Epoch(4), [batch(1, 40, b"old")], begin=True, done=True)
    late = BinStore(InterruptedStore(kv, 2, lambda: reinstall(store)), BINS, LIMITS)
    late.drop_copies(FENCE, ONE)
    assert dict(store.status().copies) == {1: 5}
    assert (count(store, 1, b"new"), count(store, 1)) == (30, 30)


def test_a_late_installer_cannot_go_on_once_another_began(kv: KeyValueStore, store: BinStore) -> None:
    """When two tasks install the same bins, the earlier one is rejected at its next write, and the later copy is complete."""
    late = BinStore(InterruptedStore(kv, 3, lambda: reinstall(store)), BINS, LIMITS)
    with pytest.raises(NeedsBringUp, match="begin it again"):
        late.install_copies(FENCE, ONE, Epoch(5), [batch(1, 40, b"late")], begin=True, done=True)
    assert dict(store.status().copies) == {1: 5}
    assert (count(store, 1, b"new"), count(store, 1)) == (30, 30)


def reinstall(store: BinStore) -> None:
    """Another task's copy of bin 1."""
    store.install_copies(FENCE, ONE, Epoch(5), [batch(1, 30, b"new")], begin=True, done=True)


class InterruptedStore(DyingStore):
    """A key-value store at whose n-th write another task comes first."""

    def __init__(self, kv: KeyValueStore, writes: int, meanwhile: Callable[[], None]) -> None:
        super().__init__(kv, 1 << 30, committed=False)
        self._until = writes
        self._meanwhile = meanwhile

    @contextmanager
    def write(self, timeout_seconds: float) -> Iterator[Transaction]:
        """A write transaction of the inner store; before one of them the other task runs."""
        self._until -= 1
        if self._until == 0:
            self._meanwhile()
        with self._kv.write(timeout_seconds) as transaction:
            yield transaction
