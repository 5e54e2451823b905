"""The store on disk and its environment: other boots, torn files, dying processes, limits."""

from __future__ import annotations

import logging
import multiprocessing
import os
import resource
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pyarrow as pa
import pytest

from binshift import entries
from binshift.entries import make
from binshift.errors import DiskFull, InvalidSettings, StateTooLarge, StoreBusy, StoreDamaged
from binshift.model import Bin
from binshift.store.engine import cache_directory, room
from binshift.store.engine.contract import KeyValueStore, StoreLimits
from binshift.store.engine.lmdb_store import close_environments, open_lmdb

LIMITS = StoreLimits(map_bytes_max=32 << 20)


@pytest.fixture(autouse=True)
def _nothing_stays_open(tmp_path: Path) -> Iterator[None]:
    yield
    close_environments(tmp_path)


def fill(store: KeyValueStore, *values: bytes, bin: int = 1) -> None:
    """Write these values under ascending keys."""
    keys = [b"%03d" % at for at in range(len(values))]
    with store.write(1) as transaction:
        transaction.put_many(make([bin] * len(keys), keys, values))


def values_in(store: KeyValueStore, bin: int = 1) -> list[bytes]:
    """All values of a bin."""
    with store.read() as transaction:
        return [value for batch in transaction.scan(Bin(bin)) for value in batch.column(2).to_pylist()]


def in_child(directory: Path, program: str) -> subprocess.Popen[str]:
    """Start a Python process in which ``store`` is the store of ``directory``."""
    start = f"""
        import os, sys
        from binshift.entries import make
        from binshift.store.engine.contract import StoreLimits
        from binshift.store.engine.lmdb_store import open_lmdb
        store = open_lmdb({str(directory)!r}, StoreLimits(map_bytes_max={LIMITS.map_bytes_max}))
    """
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(start) + textwrap.dedent(program)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])},
    )


def test_rows_outlive_the_process_that_wrote_them(tmp_path: Path) -> None:
    """Opening the directory again, in this or another process, finds the rows."""
    fill(open_lmdb(tmp_path, LIMITS), b"a", b"b")
    close_environments(tmp_path)
    assert values_in(open_lmdb(tmp_path, LIMITS)) == [b"a", b"b"]
    child = in_child(tmp_path, "with store.read() as found: print(found.size().rows)")
    assert child.communicate(timeout=300)[0].strip() == "2"


def test_a_process_killed_inside_a_transaction_leaves_the_earlier_state(tmp_path: Path) -> None:
    """A dying writer's changes and its lock are gone, and the file is intact."""
    fill(open_lmdb(tmp_path, LIMITS), b"a", b"b")
    child = in_child(
        tmp_path,
        """
        with store.write(1) as transaction:
            transaction.put_many(make([1] * 20000, [b"%05d" % n for n in range(20000)], [b"new" * 9] * 20000))
            transaction.drop(1, 2)
            transaction.set_meta("name", b"new")
            os._exit(9)
        """,
    )
    assert child.wait(timeout=300) == 9
    store = open_lmdb(tmp_path, LIMITS)
    assert values_in(store) == [b"a", b"b"]
    with store.read() as transaction:
        assert transaction.meta("name") is None
    fill(store, b"c")
    assert values_in(store) == [b"c", b"b"]


def test_a_writer_in_another_process_is_waited_for_and_no_longer(tmp_path: Path) -> None:
    """StoreBusy is raised while the other process writes, then the lock is free; readers are never affected."""
    store = open_lmdb(tmp_path, LIMITS)
    fill(store, b"a")
    child = in_child(
        tmp_path,
        """
        with store.write(1) as transaction:
            transaction.put_many(make([1], [b"000"], [b"theirs"]))
            print("writing", flush=True)
            sys.stdin.readline()
        """,
    )
    assert child.stdout is not None
    assert child.stdout.readline().strip() == "writing"
    with pytest.raises(StoreBusy, match=r"writer\.lock"):
        fill_within(store, 0.05)
    assert values_in(store) == [b"a"]
    waiting = threading.Thread(target=fill_within, args=(store, 300.0))
    waiting.start()
    child.communicate("go\n", timeout=300)
    waiting.join(300)
    assert values_in(store) == [b"theirs", b"mine"]


def fill_within(store: KeyValueStore, timeout_seconds: float) -> None:
    """Write one row, waiting at most this long."""
    with store.write(timeout_seconds) as transaction:
        transaction.put_many(make([1], [b"001"], [b"mine"]))


@pytest.mark.parametrize(
    ("name", "value"), [("boot", "another"), ("host", "another"), ("format", 0), ("engine", "0.1"), ("identity", "q")]
)
def test_a_store_made_elsewhere_is_discarded_with_a_warning(
    tmp_path: Path, name: str, value: object, caplog: pytest.LogCaptureFixture
) -> None:
    """Another boot, host, format, engine or owner means an empty store, and the reason is logged."""
    fill(open_lmdb(tmp_path, LIMITS), b"a")
    close_environments(tmp_path)
    path = tmp_path / cache_directory.HEADER
    path.write_bytes(msgspec.json.encode({**msgspec.json.decode(path.read_bytes()), name: value}))
    with caplog.at_level(logging.WARNING):
        assert values_in(open_lmdb(tmp_path, LIMITS)) == []
    assert f"its {name} is {value!r}" in caplog.text


def _truncate(data: Path) -> None:
    os.truncate(data, data.stat().st_size // 2)


DAMAGE: dict[str, Callable[[Path], object]] = {
    "no header": lambda data: (data.parent / cache_directory.HEADER).unlink(),
    "garbage header": lambda data: (data.parent / cache_directory.HEADER).write_bytes(b"\0{]"),
    "truncated": _truncate,
    "empty": lambda data: os.truncate(data, 0),
    "garbage": lambda data: data.write_bytes(os.urandom(1 << 16)),
    "garbage, full length": lambda data: data.write_bytes(os.urandom(1 << 16) + bytes((32 << 20) - (1 << 16))),
    "zeros, full length": lambda data: data.write_bytes(bytes(32 << 20)),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_directory_is_discarded_with_a_warning(
    tmp_path: Path, damage: str, caplog: pytest.LogCaptureFixture
) -> None:
    """With any error in the files, the store opens empty, works, and can be reopened."""
    fill(open_lmdb(tmp_path, LIMITS), b"a")
    close_environments(tmp_path)
    DAMAGE[damage](tmp_path / cache_directory.DATA)
    with caplog.at_level(logging.WARNING):
        store = open_lmdb(tmp_path, LIMITS)
    assert "discarded" in caplog.text
    assert values_in(store) == []
    fill(store, b"b")
    close_environments(tmp_path)
    assert values_in(open_lmdb(tmp_path, LIMITS)) == [b"b"]


def test_a_store_wiped_by_another_process_is_reopened(tmp_path: Path) -> None:
    """A handle follows the directory: a reader of the old file finishes normally, the next one sees the new file."""
    store = open_lmdb(tmp_path, LIMITS)
    fill(store, b"a")
    with store.read() as old:
        cache_directory.mark_unusable(tmp_path)
        program = 'with store.write(1) as t: t.put_many(make([1], [b"k"], [b"theirs"]))'
        assert in_child(tmp_path, program).wait(timeout=300) == 0
        assert [batch.column(2).to_pylist() for batch in old.scan(Bin(1))] == [[b"a"]]
        assert values_in(store) == [b"theirs"]
    fill(store, b"b", bin=2)
    assert values_in(store, 2) == [b"b"]


def test_a_torn_file_found_while_in_use_is_condemned(tmp_path: Path) -> None:
    """Damage found during use raises StoreDamaged once; after that the store is empty and works."""
    store = open_lmdb(tmp_path, LIMITS)
    long = b"k" * 500
    with store.write(1) as transaction:
        transaction.put_many(make([1], [long], [b"v"]))

    def read() -> pa.BinaryArray:
        with store.read() as transaction:
            return transaction.get_many(entries.bins_array(wanted), wanted.column(1))

    wanted = make([1], [long], [None])
    with store._place.environment() as opened, opened.environment.begin(write=True) as raw:
        cursor = raw.cursor(opened.rows)
        cursor.first()
        raw.put(cursor.key(), b"\xc1 no bucket", db=opened.rows)
    with pytest.raises(StoreDamaged):
        read()
    assert read().to_pylist() == [None]
    fill(store, b"b")
    assert values_in(store) == [b"b"]


def test_a_full_map_changes_nothing(tmp_path: Path) -> None:
    """More rows than the map holds raise StateTooLarge with the setting's name, and the store continues as before."""
    store = open_lmdb(tmp_path, StoreLimits(map_bytes_max=1 << 20))
    fill(store, b"a")
    with pytest.raises(StateTooLarge, match="map_bytes_max"):
        fill(store, *[b"v" * 1000] * 999)
    assert values_in(store) == [b"a"]
    fill(store, b"b")
    assert values_in(store) == [b"b"]


def test_a_nearly_full_disk_is_left_alone(tmp_path: Path) -> None:
    """A write that would leave less than the limit is rejected beforehand."""
    store = open_lmdb(tmp_path, StoreLimits(map_bytes_max=1 << 20, disk_free_bytes_min=1 << 60))
    with pytest.raises(DiskFull, match=f"{tmp_path} has .* bytes free.*BINSHIFT_STORE_DIR"):
        fill(store, b"a")
    assert values_in(store) == []


def test_a_map_beyond_the_address_space_is_refused_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Under RLIMIT_AS the message names the settings that contradict each other, before LMDB is called."""
    limit = room.used_bytes() + (16 << 20)
    monkeypatch.setattr(resource, "getrlimit", lambda _: (limit, limit))
    with pytest.raises(InvalidSettings, match=r"map_bytes_max.*spark\.executor\.pyspark\.memory"):
        open_lmdb(tmp_path, LIMITS)


def test_the_real_address_space_limit_is_refused_the_same_way(tmp_path: Path) -> None:
    """In a process with a real limit, opening ends in InvalidSettings and not in a crash."""
    child = in_child(
        tmp_path,
        f"""
        import resource
        from binshift.errors import InvalidSettings
        resource.setrlimit(resource.RLIMIT_AS, (8 << 30, 8 << 30))
        try:
            open_lmdb({str(tmp_path / "other")!r}, StoreLimits(map_bytes_max=9 << 30))
        except InvalidSettings as error:
            print("refused")
        """,
    )
    assert child.communicate(timeout=300)[0].strip() == "refused"


def test_threads_share_one_environment(tmp_path: Path) -> None:
    """Readers and writers on several threads, each with its own handle, lose no write."""

    def work(number: int) -> None:
        store = open_lmdb(tmp_path, LIMITS)
        for at in range(20):
            with store.write(300) as transaction:
                transaction.put_many(make([number], [b"%03d" % at], [b"v"]))
            assert len(values_in(store, number)) == at + 1

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(300)
    assert [len(values_in(open_lmdb(tmp_path, LIMITS), number)) for number in range(4)] == [20] * 4


def _in_fork(directory: str, answer: multiprocessing.connection.Connection) -> None:
    store = open_lmdb(directory, LIMITS)
    fill(store, b"child", bin=2)
    answer.send(values_in(store))


def test_a_forked_child_opens_its_own_environment(tmp_path: Path) -> None:
    """A child forked while its parent has the store open reads and writes it, and the parent sees its rows."""
    store = open_lmdb(tmp_path, LIMITS)
    fill(store, b"parent")
    context = multiprocessing.get_context("fork")
    here, there = context.Pipe()
    child = context.Process(target=_in_fork, args=(str(tmp_path), there))
    child.start()
    assert here.poll(300)
    assert here.recv() == [b"parent"]
    child.join(300)
    assert child.exitcode == 0
    assert values_in(store, 2) == [b"child"]


def test_boot_id_is_stable_and_not_empty() -> None:
    """The same boot has the same id."""
    assert cache_directory.kernel_boot() == cache_directory.kernel_boot() != ""
