"""The files of sorted runs: when they are written, refused, removed, and found damaged."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from stores import packing
from test_store_contract import LIMITS, get, put, scanned

from binshift import entries
from binshift.binary import lengths
from binshift.entries import Entries
from binshift.errors import DiskFull, StoreDamaged
from binshift.invariants import InvariantViolated
from binshift.model import Bin
from binshift.store.engine import row_checksums, runs, sorted_run
from binshift.store.engine.contract import KeyValueStore, StoreLimits, Transaction
from binshift.store.engine.lmdb_store import close_environments, open_lmdb
from binshift.store.engine.run_files import RunFiles, RunSet
from binshift.store.engine.sorted_run import SortedRun


def rows(bin: int, count: int, value: bytes = b"v") -> Entries:
    """Rows of a bin, ascending."""
    return entries.make([bin] * count, [b"%05d" % at for at in range(count)], [value] * count)


def add(store: KeyValueStore, *runs: Entries) -> None:
    """Add runs in one transaction."""
    with store.write(1) as transaction:
        assert [transaction.add_run(SortedRun.of(run)) for run in runs] == [True] * len(runs)


def files(directory: Path) -> set[str]:
    """The run files there are."""
    return {path.name for path in directory.glob("*.run")}


@pytest.fixture
def store(tmp_path: Path) -> Iterator[KeyValueStore]:
    """An empty store that packs ten rows or more."""
    with packing(rows_min=10):
        yield open_lmdb(tmp_path, LIMITS)
        close_environments(tmp_path)


def test_a_run_without_rows_that_count_is_removed(store: KeyValueStore, tmp_path: Path) -> None:
    """Rows of a run are replaced, deleted and dropped; with the last one its file goes."""
    add(store, entries.concat([rows(1, 10), rows(2, 10)]), rows(3, 10))
    assert files(tmp_path) == {"0.run", "1.run"}
    with store.write(1) as transaction:
        transaction.put_many(rows(1, 10, b"w"))
        assert transaction.drop(Bin(2), 1)
        assert transaction.size().rows == 20
    assert files(tmp_path) == {"1.run"}
    with store.write(1) as transaction:
        transaction.clear()
    assert files(tmp_path) == set()
    add(store, rows(1, 10))
    assert files(tmp_path) == {"2.run"}, "a number is used once"


def test_what_a_killed_writer_left_is_removed(store: KeyValueStore, tmp_path: Path) -> None:
    """The file of a run that was not committed goes with the next run; its number is used again, for other rows."""
    add(store, rows(1, 10))
    close_environments(tmp_path)
    program = f"""
        import os
        from stores import packing
        from test_store_run_files import LIMITS, SortedRun, open_lmdb, rows
        with packing(rows_min=10), open_lmdb({str(tmp_path)!r}, LIMITS).write(1) as transaction:
            assert transaction.add_run(SortedRun.of(rows(7, 10)))
            assert transaction.add_run(SortedRun.of(rows(8, 10)))
            os._exit(9)
    """
    paths = os.pathsep.join(map(str, (Path(__file__).parent, Path(__file__).parents[1])))
    child = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)], env={**os.environ, "PYTHONPATH": paths}, timeout=300
    )
    assert child.returncode == 9
    assert files(tmp_path) == {"0.run", "1.run", "2.run"}
    add(store, rows(2, 12))
    assert files(tmp_path) == {"0.run", "1.run"}
    with store.read() as transaction:
        assert [len(scanned(transaction, bin)) for bin in (1, 2, 7, 8)] == [10, 12, 0, 0]


def test_a_snapshot_keeps_the_rows_of_a_removed_run(store: KeyValueStore, tmp_path: Path) -> None:
    """A reader that began before the run went still reads it."""
    add(store, rows(1, 10))
    with store.read() as before:
        with store.write(1) as transaction:
            assert transaction.drop(Bin(1), 1)
        assert files(tmp_path) == set()
        assert len(scanned(before, 1)) == 10


def test_a_run_that_goes_while_a_snapshot_begins(store: KeyValueStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """The listing that names it is an old one: the snapshot is taken again."""
    add(store, rows(1, 10))
    add(store, rows(2, 10))
    mapped, late = RunFiles.mapped, [True]

    def slow(self: RunFiles, *args: object) -> RunSet:
        if late and late.pop():
            with store.write(1) as transaction:
                assert transaction.drop(Bin(1), 1)
            self._mapped = RunSet()  # as in a process that has not mapped them
        return mapped(self, *args)  # type: ignore[arg-type]

    monkeypatch.setattr(RunFiles, "mapped", slow)
    with store.read() as transaction:
        assert [len(scanned(transaction, bin)) for bin in (1, 2)] == [0, 10]
    assert not late


def test_runs_that_are_refused(store: KeyValueStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Few rows, deletions, equal hashes, a limited address space, too many runs or bytes: rows are put one by one."""

    def added(run: SortedRun, limits: StoreLimits = LIMITS) -> bool:
        with open_lmdb(tmp_path, limits).write(1) as transaction:
            return transaction.add_run(run)

    deleted = entries.make([1] * 10, [b"%d" % at for at in range(10)], [None] * 10)
    assert [added(SortedRun.of(some)) for some in (rows(1, 9), deleted)] == [False, False]
    with pytest.raises(InvariantViolated):
        SortedRun.of(entries.concat([rows(2, 1), rows(1, 1)]))
    with monkeypatch.context() as patch:
        patch.setattr(row_checksums, "hashes", lambda column: np.zeros(len(column), dtype=np.uint64))
        assert SortedRun.of(rows(1, 10)).content is None
    with monkeypatch.context() as patch:
        patch.setattr(resource, "getrlimit", lambda _: (1 << 40, 1 << 40))
        assert not added(SortedRun.of(rows(1, 10)))
    with monkeypatch.context() as patch:
        patch.setattr(runs, "RUNS_MAX", 0)
        assert not added(SortedRun.of(rows(1, 10)))
    assert not added(SortedRun.of(rows(1, 10)), StoreLimits(map_bytes_max=2048))
    assert files(tmp_path) == set()
    assert added(SortedRun.of(rows(1, 10)))


@pytest.mark.parametrize(("rows_max", "bytes_max"), [(60, 1 << 20), (10_000, 10_000)])
def test_small_runs_are_refused_where_there_are_many_rows(
    rows_max: int, bytes_max: int, store: KeyValueStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So there are few runs, whatever their rows come from; half of the most rows or bytes are many at any time."""
    monkeypatch.setattr(sorted_run, "ROWS_MAX", rows_max)
    monkeypatch.setattr(sorted_run, "BYTES_MAX", bytes_max)
    with store.write(1) as transaction:
        many = [SortedRun.of(rows(bin, 40)) for bin in range(64)]
        assert all(map(transaction.add_run, many))
        assert not transaction.add_run(SortedRun.of(rows(97, 20)))
        assert transaction.add_run(SortedRun.of(rows(97, 40)))
        more = [SortedRun.of(rows(98, 200)), SortedRun.of(rows(99, 5_000)), SortedRun.of(rows(100, 200))]
        assert [transaction.add_run(run) for run in more] == [True, True, True]
        assert not transaction.add_run(SortedRun.of(rows(101, 20)))


def test_a_key_of_the_same_hash_is_another_key(store: KeyValueStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """A row is found by its bin and key, not by their hash alone."""

    def by_length(column: pa.BinaryArray) -> row_checksums.Sums:
        return lengths(column).astype(np.uint64)

    monkeypatch.setattr(row_checksums, "hashes", by_length)
    add(store, entries.make([1] * 10, [b"a" * at for at in range(10)], [b"v"] * 10))
    with store.read() as transaction:
        assert get(transaction, [(1, b"aaa"), (1, b"aab"), (2, b"aaa")]) == [b"v", None, None]


def test_a_disk_without_room_is_left_alone(store: KeyValueStore, tmp_path: Path) -> None:
    """A run that would leave too little of the disk is not written, and nothing else of its transaction."""
    found = os.statvfs(tmp_path)
    limits = StoreLimits(map_bytes_max=LIMITS.map_bytes_max, disk_free_bytes_min=found.f_bavail * found.f_frsize - 4096)
    run = SortedRun.of(rows(1, 900))
    with pytest.raises(DiskFull, match="bytes free"), open_lmdb(tmp_path, limits).write(1) as transaction:
        transaction.add_run(run)
    assert files(tmp_path) == set()


USES: dict[str, Callable[[Transaction], object]] = {
    "scan": lambda transaction: scanned(transaction, 1),
    "get": lambda transaction: get(transaction, [(1, b"00001")]),
    "first": lambda transaction: transaction.first_keys(np.array([1], dtype=np.int32), b"0", 2),
    "hide": lambda transaction: put(transaction, [(1, b"00001", None)]),
    "drop": lambda transaction: transaction.drop(Bin(1), 1),
}


@pytest.mark.parametrize("damage", ["altered", "shorter", "longer", "gone", "another"])
@pytest.mark.parametrize("use", USES)
def test_a_damaged_file_is_noticed(tmp_path: Path, damage: str, use: str) -> None:
    """Whatever reads the run first learns that the store is damaged; the next one finds it empty."""
    with packing(rows_min=10):
        add(open_lmdb(tmp_path, LIMITS), rows(1, 10, b"a value"), rows(2, 10))
    close_environments(tmp_path)
    path = tmp_path / "0.run"
    content = path.read_bytes()
    if damage == "gone":
        path.unlink()
    else:
        other = (tmp_path / "1.run").read_bytes()
        path.write_bytes(
            {
                "altered": content.replace(b"a value", b"A value", 1),
                "shorter": content[:-8],
                "longer": content + b"\0",
                "another": other,
            }[damage]
        )
    with pytest.raises(StoreDamaged, match=str(tmp_path)), open_lmdb(tmp_path, LIMITS).write(1) as transaction:
        USES[use](transaction)
    with open_lmdb(tmp_path, LIMITS).read() as transaction:
        assert transaction.size().rows == 0
    assert files(tmp_path) == set()
    close_environments(tmp_path)


def test_a_row_that_is_altered_while_the_run_is_mapped_is_noticed(store: KeyValueStore, tmp_path: Path) -> None:
    """The checksum of each row is compared whenever it is read."""
    add(store, rows(1, 10, b"a value"))
    with store.read() as transaction:
        assert get(transaction, [(1, b"00003")]) == [b"a value"]
    path = tmp_path / "0.run"
    at = path.read_bytes().index(b"a value") + 3 * len(b"a value")
    with path.open("r+b") as file:
        file.seek(at)
        file.write(b"A")
    with pytest.raises(StoreDamaged), store.read() as transaction:
        get(transaction, [(1, b"00003")])


def test_files_are_unmapped(store: KeyValueStore, tmp_path: Path) -> None:
    """A process keeps neither files open nor removed ones mapped."""
    add(store, rows(1, 10))
    assert not [each for each in Path("/proc/self/fd").iterdir() if ".run" in os.path.realpath(each)]
    with store.write(1) as transaction:
        transaction.drop(Bin(1), 1)
    with store.read() as transaction:
        pass
    assert str(tmp_path / "0.run") not in Path("/proc/self/maps").read_text()
