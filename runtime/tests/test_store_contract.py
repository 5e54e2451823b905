"""The key-value contract, compared with a dict: the same test for the store in memory and the one on disk."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from stores import run_machine

from binshift import entries
from binshift.errors import StateTooLarge, StoreBusy
from binshift.invariants import InvariantViolated
from binshift.model import Bin
from binshift.store.engine import long_keys
from binshift.store.engine.contract import KeyValueStore, StoreLimits, Transaction
from binshift.store.engine.lmdb_store import close_environments, open_lmdb
from binshift.store.engine.memory_store import MemoryStore

LIMITS = StoreLimits(map_bytes_max=16 << 20, key_bytes_max=600, value_bytes_max=2000, scan_bytes_max=900)
Model = dict[tuple[int, bytes], bytes]

# Long keys share one prefix, so that they fall into the same group, and end in bytes that sort.
LONG = st.sampled_from([b"p" * 480 + end for end in (b"\0", b"a", b"b", b"\xff\xff")]) | st.just(b"p" * 479 + b"qq")
KEYS = st.binary(max_size=3) | LONG | st.sampled_from([b"p" * 480, b"q"])
BINS = st.sampled_from([0, 1, 1, 1, 2, (1 << 20) - 1])
VALUES = st.binary(max_size=4) | st.just(b"v" * 700)
PUTS = st.lists(st.tuples(BINS, KEYS, st.none() | VALUES), max_size=8)
NAMES = st.sampled_from(["a", "b"])


class Boom(Exception):
    """Ends a transaction with an exception."""


def put(transaction: Transaction, rows: list[tuple[int, bytes, bytes | None]]) -> None:
    """Write rows given as tuples."""
    transaction.put_many(entries.make([r[0] for r in rows], [r[1] for r in rows], [r[2] for r in rows]))


def get(transaction: Transaction, wanted: list[tuple[int, bytes]]) -> list[bytes | None]:
    """Read rows given as tuples."""
    bins = np.array([b for b, _ in wanted], dtype=np.int32)
    found: list[bytes | None] = transaction.get_many(bins, pa.array([k for _, k in wanted], pa.binary())).to_pylist()
    return found


def scanned(
    transaction: Transaction, bin: int, start: bytes = b"", stop: bytes | None = None
) -> list[tuple[bytes, bytes]]:
    """All rows of a scan; its batches are checked."""
    rows = []
    for batch in transaction.scan(Bin(bin), start, stop):
        assert batch.num_rows
        assert batch.num_rows == 1 or entries.size_bytes(batch) <= LIMITS.scan_bytes_max
        assert set(batch.column(0).to_pylist()) == {bin}
        rows += list(zip(batch.column(1).to_pylist(), batch.column(2).to_pylist(), strict=True))
    return rows


class StoreMachine(RuleBasedStateMachine):
    """Random transactions on a store and on a dict; random snapshots that must not change."""

    def make(self) -> KeyValueStore:
        """An empty store at the first call, and the same store again later."""
        raise NotImplementedError

    @initialize()
    def begin(self) -> None:
        """An empty store and an empty model."""
        self.stack = ExitStack()
        self.store = self.make()
        self.rows: Model = {}
        self.blobs: dict[str, bytes] = {}
        self.snapshots: list[tuple[Transaction, Model, dict[str, bytes]]] = []

    @rule(puts=PUTS, blob=st.tuples(NAMES, st.none() | VALUES), then=PUTS, clear=st.integers(0, 9), ok=st.booleans())
    def write(
        self,
        puts: list[tuple[int, bytes, bytes | None]],
        blob: tuple[str, bytes | None],
        then: list[tuple[int, bytes, bytes | None]],
        clear: int,
        ok: bool,
    ) -> None:
        """A transaction with two batches and a blob, committed or aborted."""
        rows, blobs = dict(self.rows), dict(self.blobs)
        try:
            with self.store.write(1) as transaction:
                put(transaction, puts)
                apply(rows, puts)
                if not clear:
                    transaction.clear()
                    rows.clear()
                transaction.set_meta(*blob)
                put(transaction, then)
                apply(rows, then)
                assert _contents(transaction) == rows
                if not ok:
                    raise Boom
        except Boom:
            return
        name, value = blob
        blobs.pop(name, None)
        self.rows, self.blobs = rows, blobs if value is None else {**blobs, name: value}

    @rule(bin=BINS, rows_max=st.integers(1, 3))
    def drop(self, bin: int, rows_max: int) -> None:
        """Dropping a bin step by step ends, and deletes nothing else."""
        left = sum(b == bin for b, _ in self.rows)
        for _ in range(left + 1):
            with self.store.write(1) as transaction:
                empty = transaction.drop(Bin(bin), rows_max)
                remaining = len(scanned(transaction, bin))
            assert empty == (remaining == 0)
            assert remaining >= left - rows_max or _has_long(self.rows, bin)
            left = remaining
            if empty:
                break
        assert left == 0
        self.rows = {at: value for at, value in self.rows.items() if at[0] != bin}

    @rule()
    def open_snapshot(self) -> None:
        """Open a snapshot and keep it."""
        if len(self.snapshots) < 4:
            transaction = self.stack.enter_context(self.store.read())
            self.snapshots.append((transaction, dict(self.rows), dict(self.blobs)))

    @rule(bin=BINS, start=KEYS, stop=st.none() | KEYS)
    def scan(self, bin: int, start: bytes, stop: bytes | None) -> None:
        """A bounded scan is the sorted slice."""
        model = sorted(
            (k, v) for (b, k), v in self.rows.items() if b == bin and k >= start and (stop is None or k < stop)
        )
        with self.store.read() as transaction:
            assert model == scanned(transaction, bin, start, stop)

    @rule(wanted=st.lists(st.tuples(BINS, KEYS), max_size=6))
    def get(self, wanted: list[tuple[int, bytes]]) -> None:
        """Lookups return values in the order of the keys, null where absent."""
        with self.store.read() as transaction:
            assert [self.rows.get(at) for at in wanted] == get(transaction, wanted)

    @rule()
    def reopen(self) -> None:
        """Close everything and open the store again."""
        self.stack.close()
        self.snapshots.clear()
        self.store.close()
        self.store = self.make()

    @invariant()
    def snapshots_stand_still(self) -> None:
        """Each open snapshot still shows its own state."""
        for transaction, rows, blobs in getattr(self, "snapshots", ()):
            assert _contents(transaction) == rows
            assert {name: value for name in "ab" if (value := transaction.meta(name)) is not None} == blobs

    def teardown(self) -> None:
        """Leave no transaction open."""
        if hasattr(self, "stack"):
            self.stack.close()


def apply(rows: Model, puts: list[tuple[int, bytes, bytes | None]]) -> None:
    """The same puts on the model."""
    for bin, key, value in puts:
        rows.pop((bin, key), None)
        if value is not None:
            rows[bin, key] = value


def _contents(transaction: Transaction) -> Model:
    bins = [0, 1, 2, (1 << 20) - 1]
    return {(bin, key): value for bin in bins for key, value in scanned(transaction, bin)}


def _has_long(rows: Model, bin: int) -> bool:
    return any(len(key) > long_keys.PLAIN_BYTES_MAX for b, key in rows if b == bin)


class MemoryMachine(StoreMachine):
    """The store in memory."""

    def make(self) -> KeyValueStore:
        """The same object again: closing it keeps the rows."""
        return getattr(self, "store", None) or MemoryStore(LIMITS)


class LmdbMachine(StoreMachine):
    """The store on disk."""

    def make(self) -> KeyValueStore:
        """A temporary directory, opened again."""
        if not hasattr(self, "directory"):
            self.directory = tempfile.TemporaryDirectory()
        close_environments(self.directory.name)
        return open_lmdb(self.directory.name, LIMITS)

    def teardown(self) -> None:
        """Also remove all files."""
        super().teardown()
        if hasattr(self, "directory"):
            close_environments(self.directory.name)
            self.directory.cleanup()


@pytest.mark.parametrize(("machine", "colliding"), [(MemoryMachine, False), (LmdbMachine, False), (LmdbMachine, True)])
def test_store_behaves_as_a_dict(machine: type[StoreMachine], colliding: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Any sequence of transactions, snapshots, scans and reopenings agrees with a dict, even if all digests collide."""
    if colliding:
        monkeypatch.setattr(long_keys, "digest", lambda _: b"0" * 16)
    run_machine(machine, steps=15)


@pytest.fixture(params=["memory", "lmdb"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[KeyValueStore]:
    """An empty store of each kind."""
    yield MemoryStore(LIMITS) if request.param == "memory" else open_lmdb(tmp_path, LIMITS)
    close_environments(tmp_path)


def test_a_second_writer_gives_up_after_its_timeout(store: KeyValueStore) -> None:
    """While one transaction writes, another raises StoreBusy; afterwards it can write."""
    with store.write(1), pytest.raises(StoreBusy), store.write(0.01):
        pass
    with store.write(0.01) as transaction:
        put(transaction, [(0, b"k", b"v")])


def test_rows_above_the_limits_are_refused_and_change_nothing(store: KeyValueStore) -> None:
    """A long key or value raises StateTooLarge with the size, and the transaction's earlier changes are undone."""

    def attempt(key: bytes, value: bytes) -> None:
        with store.write(1) as transaction:
            put(transaction, [(0, b"before", b"v")])
            put(transaction, [(0, key, value)])

    with pytest.raises(StateTooLarge, match="601"):
        attempt(b"k" * 601, b"v")
    with pytest.raises(StateTooLarge, match="2001"):
        attempt(b"k", b"v" * 2001)
    with store.read() as transaction:
        assert scanned(transaction, 0) == []


def test_a_read_transaction_cannot_write(store: KeyValueStore) -> None:
    """Writing to a snapshot is an error and is not ignored."""
    for change in (
        lambda t: put(t, [(0, b"k", b"v")]),
        lambda t: t.set_meta("a", b""),
        lambda t: t.drop(Bin(0), 1),
        lambda t: t.clear(),
    ):
        with store.read() as transaction, pytest.raises(InvariantViolated):
            change(transaction)


def test_size_grows_with_the_rows(store: KeyValueStore) -> None:
    """A thousand rows take at least the size of their bytes."""
    rows: list[tuple[int, bytes, bytes | None]] = [(n % 3, b"%05d" % n, b"v" * 100) for n in range(1000)]
    with store.write(1) as transaction:
        put(transaction, rows)
        assert 100_000 < transaction.size().bytes < 1_000_000


def test_a_long_scan_is_ordered_and_complete(store: KeyValueStore) -> None:
    """Thousands of rows are returned in key order, in batches, each once."""
    rows = [(1, b"%06d" % n, b"%d" % n) for n in range(9000)]
    with store.write(1) as transaction:
        put(transaction, list(reversed(rows)))
    with store.read() as transaction:
        assert [(key, value) for _, key, value in rows] == scanned(transaction, 1)


@pytest.mark.parametrize("colliding", [False, True], ids=["digests", "colliding"])
def test_long_keys_of_one_prefix_come_in_order(
    store: KeyValueStore, colliding: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A group of long keys that spans several batches is scanned in key order, completely and with bounds."""
    if colliding:
        monkeypatch.setattr(long_keys, "digest", lambda _: b"0" * 16)
    keys = [b"a", *(b"p" * 480 + b"%03d" % n for n in range(60)), b"q"]
    with store.write(1) as transaction:
        put(transaction, [(1, key, b"v") for key in reversed(keys)])
    with store.read() as transaction:
        assert keys == [key for key, _ in scanned(transaction, 1)]
        assert keys[11:41] == [key for key, _ in scanned(transaction, 1, keys[11], keys[41])]
