"""A store is verified before use if its file may have changed unnoticed, and only then."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from binshift.entries import make
from binshift.model import Bin
from binshift.store.engine import cache_directory, lmdb_file
from binshift.store.engine.contract import StoreLimits
from binshift.store.engine.lmdb_store import LmdbStore, close_environments, open_lmdb
from binshift.store.engine.users import MARK_BYTES

LIMITS = StoreLimits(map_bytes_max=1 << 20, disk_free_bytes_min=0)


@pytest.fixture(autouse=True)
def _nothing_stays_open(tmp_path: Path) -> Iterator[None]:
    yield
    close_environments(tmp_path)


@pytest.fixture
def verified(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The files that were verified, in order."""
    found: list[Path] = []
    trouble = lmdb_file.trouble

    def noted(data: Path, rows: bytes, blobs: bytes, claim: tuple[str, str]) -> str | None:
        found.append(data)
        return trouble(data, rows, blobs, claim)

    monkeypatch.setattr(lmdb_file, "trouble", noted)
    return found


def put(store: LmdbStore, value: bytes) -> None:
    """Write the one row."""
    with store.write(300) as transaction:
        transaction.put_many(make([1], [b"key"], [value]))


def value_of(store: LmdbStore) -> list[bytes]:
    """Read the one row."""
    with store.read() as transaction:
        return [value for batch in transaction.scan(Bin(1)) for value in batch.column(2).to_pylist()]


def left(directory: Path) -> None:
    """A store with a row that no process has open."""
    put(open_lmdb(directory, LIMITS), b"value")
    close_environments(directory)


def in_child(directory: Path, program: str) -> subprocess.Popen[str]:
    """Start a process that runs ``program`` with ``store``, and reads a line at each ``wait()``."""
    start = f"""
        import os, sys
        from binshift.entries import make
        from binshift.store.engine.contract import StoreLimits
        from binshift.store.engine.lmdb_store import open_lmdb
        def put(value):
            with store.write(300) as transaction:
                transaction.put_many(make([1], [b"key"], [value]))
        def wait():
            print("here", flush=True)
            sys.stdin.readline()
        store = open_lmdb({str(directory)!r}, StoreLimits(map_bytes_max={LIMITS.map_bytes_max}, disk_free_bytes_min=0))
    """
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(start) + textwrap.dedent(program)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])},
    )


def reached(child: subprocess.Popen[str]) -> None:
    """Wait until a child waits."""
    assert child.stdout is not None
    assert child.stdout.readline().strip() == "here"


def kill(child: subprocess.Popen[str]) -> None:
    """End a child, as Spark ends a Python worker."""
    child.kill()
    child.communicate(timeout=300)


def test_a_store_that_was_left_between_two_uses_is_not_verified(tmp_path: Path, verified: list[Path]) -> None:
    """A Python worker that Spark kills because it is idle leaves a store that the next one opens at once."""
    child = in_child(tmp_path, 'put(b"theirs"); wait()')
    reached(child)
    kill(child)
    store = open_lmdb(tmp_path, LIMITS)
    assert value_of(store) == [b"theirs"]
    put(store, b"mine")
    close_environments(tmp_path)
    assert value_of(open_lmdb(tmp_path, LIMITS)) == [b"mine"]
    assert verified == []


@pytest.mark.parametrize("use", ["store.write(300)", "store.read()"])
def test_a_store_whose_user_was_killed_in_a_use_is_verified(tmp_path: Path, verified: list[Path], use: str) -> None:
    """Damage may be why the process ended, so that a damaged store never ends one process after the other."""
    child = in_child(tmp_path, f'put(b"theirs")\nwith {use}: wait()')
    reached(child)
    kill(child)
    assert value_of(open_lmdb(tmp_path, LIMITS)) == [b"theirs"]
    assert len(verified) == 1
    close_environments(tmp_path)
    assert value_of(open_lmdb(tmp_path, LIMITS)) == [b"theirs"]
    assert len(verified) == 1


def test_one_killed_user_among_several_is_enough(tmp_path: Path, verified: list[Path]) -> None:
    """The others end idle, later, with changes of their own; what the killed one did is not forgotten."""
    idle = in_child(tmp_path, "wait(); put(b'last'); wait()")
    reached(idle)
    killed = in_child(tmp_path, "with store.read(): wait()")
    reached(killed)
    kill(killed)
    idle.stdin.write("\n")  # type: ignore[union-attr]
    idle.stdin.flush()  # type: ignore[union-attr]
    reached(idle)
    kill(idle)
    assert value_of(open_lmdb(tmp_path, LIMITS)) == [b"last"]
    assert len(verified) == 1


def _write_a_byte(data: Path) -> None:
    with data.open("r+b") as file:
        file.seek(data.stat().st_size - 1)
        file.write(b"\0")


def _restore(data: Path) -> None:
    copy = data.with_name("copy")
    shutil.copy2(data, copy)
    copy.replace(data)


def _lengthen_and_cut(data: Path) -> None:
    size = data.stat().st_size
    os.truncate(data, size + 1)
    os.truncate(data, size)


CHANGES: dict[str, Callable[[Path], object]] = {
    "written": _write_a_byte,
    "written, and its times set back": lambda data: _with_its_times(data, _write_a_byte),
    "restored from a copy": _restore,
    "lengthened and cut": _lengthen_and_cut,
    "touched": lambda data: os.utime(data),
    "without a list of users": lambda data: (data.parent / cache_directory.USERS).unlink(),
    "with an empty list of users": lambda data: os.truncate(data.parent / cache_directory.USERS, 0),
    "with a list of no users": lambda data: os.truncate(data.parent / cache_directory.USERS, MARK_BYTES),
}


def _with_its_times(data: Path, change: Callable[[Path], object]) -> None:
    was = data.stat()
    change(data)
    os.utime(data, ns=(was.st_atime_ns, was.st_mtime_ns))


@pytest.mark.parametrize("change", CHANGES)
def test_a_file_that_another_program_changed_is_verified(tmp_path: Path, verified: list[Path], change: str) -> None:
    """Immediately after the last use, too: within the resolution of file times."""
    left(tmp_path)
    CHANGES[change](tmp_path / cache_directory.DATA)
    assert value_of(open_lmdb(tmp_path, LIMITS)) == [b"value"]
    assert len(verified) == 1


def test_a_file_that_changed_while_it_was_open_is_verified_once_it_is_closed(
    tmp_path: Path, verified: list[Path]
) -> None:
    """Later changes by its users do not confirm it."""
    store = open_lmdb(tmp_path, LIMITS)
    put(store, b"value")
    _write_a_byte(tmp_path / cache_directory.DATA)
    put(store, b"later")
    child = in_child(tmp_path, 'put(b"theirs"); wait()')
    reached(child)
    kill(child)
    close_environments(tmp_path)
    assert verified == []
    assert value_of(open_lmdb(tmp_path, LIMITS)) == [b"theirs"]
    assert len(verified) == 1


def test_any_flipped_bit_in_the_list_of_users_leads_to_a_verification(tmp_path: Path, verified: list[Path]) -> None:
    """A mark or a state that is damaged is not trusted."""
    left(tmp_path)
    close_environments(tmp_path)
    path = tmp_path / cache_directory.USERS
    size = path.stat().st_size
    assert size == MARK_BYTES + 1
    for count, bit in enumerate(range(0, 8 * size, 5), 1):
        with path.open("r+b") as file:
            file.seek(bit // 8)
            flipped = file.read(1)[0] ^ (1 << bit % 8)
            file.seek(bit // 8)
            file.write(bytes([flipped]))
        assert value_of(open_lmdb(tmp_path, LIMITS)) == [b"value"]
        close_environments(tmp_path)
        assert len(verified) == count


def test_a_file_whose_times_cannot_be_set_is_verified(
    tmp_path: Path, verified: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A failing disk, a file of another user, or a file system with coarse times: the store works, and is not trusted."""

    def coarse(path: Path, ns: tuple[int, int]) -> None:
        utime(path, ns=(ns[0] // 10**9 * 10**9, ns[1] // 10**9 * 10**9))

    def failing(path: Path, ns: tuple[int, int]) -> None:
        raise OSError(5, "no")

    utime = os.utime
    for count, each in enumerate((coarse, failing), 1):
        with monkeypatch.context() as patched:
            patched.setattr(os, "utime", each)
            left(tmp_path)
        assert value_of(open_lmdb(tmp_path, LIMITS)) == [b"value"]
        close_environments(tmp_path)
        assert len(verified) == count
