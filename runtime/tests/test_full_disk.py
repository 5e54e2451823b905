"""With a full or write-protected disk under the log or a store, the error names the disk and the fix, and nothing is lost."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from java_stderr import capture_java_stderr
from log_drivers import FORMAT, Driver
from pyspark.sql import SparkSession
from small_disk import MIB, SmallDisk, small_disk
from stores import commit_epoch
from test_local_checkpoint_files import Files

from binshift import entries
from binshift.entries import Entries
from binshift.errors import DiskFull, InvalidSettings
from binshift.log.log import Log
from binshift.log.storage import layout
from binshift.log.tools.inspect import verify
from binshift.model import GENESIS, Bin, BinSet, Epoch, Fence, Stamp, Term
from binshift.spark.session.checkpoint_files import LOCAL_FILES
from binshift.store.bins.binstore import BinStore
from binshift.store.engine.contract import StoreLimits
from binshift.store.engine.lmdb_store import close_environments, open_lmdb

FENCE = Fence(Term(1), Epoch(0), 1)
ONE = BinSet([1])
LIMITS = StoreLimits(map_bytes_max=256 * MIB, disk_free_bytes_min=4 * MIB)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SmallDisk]:
    """32 MiB."""
    with small_disk(tmp_path / "disk", 32) as made:
        yield made
        close_environments()


def rows(count: int, value: bytes) -> Entries:
    """This many rows of bin 1."""
    return entries.make([1] * count, [b"%06d" % at for at in range(count)], [value] * count)


def stamp(epoch: int) -> Stamp:
    """A stamp."""
    return Stamp(Epoch(epoch), f"1.{epoch}")


def test_an_epoch_on_a_full_log_fails_and_succeeds_once_there_is_room(disk: SmallDisk) -> None:
    """Each error for deltas, records, manifests and targets names the full disk; what was recorded stays, and no more."""
    driver = Driver(Log.open(str(disk.path / "log"), {}, FORMAT).storage)
    driver.epochs(3)
    record = driver.world.next_record()
    disk.fill()
    for write in (
        lambda: driver.log.append(record),
        lambda: driver.log.write_manifest(Epoch(2)),
        lambda: driver.storage.put(layout.target_name(1), bytes(9000)),
        lambda: driver.successor(),
    ):
        with pytest.raises(DiskFull, match=f"{disk.path}/log has no room .* free space there"):
            write()
    assert not driver.storage.exists(layout.record_name(Epoch(3)))
    disk.empty()
    assert [each.fault for each in verify(str(disk.path / "log"))] == []
    assert driver.log.append(record) == record
    driver.world.index = driver.log.index
    driver.epochs(2)
    driver.check()
    driver.successor().check()


def test_a_log_that_may_not_be_written_takes_a_person(disk: SmallDisk) -> None:
    """The error names the path and the missing permission; once it is granted, the log continues."""
    driver = Driver(Log.open(str(disk.path / "log"), {}, FORMAT).storage)
    driver.epochs(2)
    record = driver.world.next_record()
    disk.protect(on=True)
    with pytest.raises(InvalidSettings, match=f"{disk.path}/log refuses access .*the right to"):
        driver.log.append(record)
    disk.protect(on=False)
    assert driver.log.append(record) == record
    driver.world.index = driver.log.index
    driver.check()


def test_an_epoch_on_a_full_store_changes_nothing(disk: SmallDisk) -> None:
    """Whether rows, undo record or fence could not be written, the store is unchanged, and continues later."""
    store = BinStore(open_lmdb(disk.path / "store", LIMITS), 8, LIMITS)
    commit(store, GENESIS, 0, rows(30_000, b"0" * 100))
    for leave in (6 * MIB, 5 * MIB, 3 * MIB, 0):
        disk.fill(leave)
        before = store.status()
        with pytest.raises(
            DiskFull, match=rf"{disk.path}/store has \d+ bytes free.*nothing was changed.*store_directory"
        ):
            commit(store, stamp(0), 1, rows(30_000, b"1" * 100))
        assert (store.status(), values(store)) == (before, {b"0" * 100})
        disk.empty()
    commit(store, stamp(0), 1, rows(30_000, b"1" * 100))
    assert values(store) == {b"1" * 100}
    assert store.undo(FENCE, stamp(0))
    assert values(store) == {b"0" * 100}


def commit(store: BinStore, expect: Stamp, epoch: int, changes: Entries) -> None:
    """One epoch."""
    commit_epoch(store, FENCE, expect=expect, stamp=stamp(epoch), owned=ONE, changes=[changes], undo=True)


def values(store: BinStore) -> set[Any]:
    """All values of bin 1."""
    with store.reader() as reader:
        return {value for part in reader.scan(Bin(1)) for value in part.column(2).to_pylist()}


def test_a_store_that_may_not_be_written_takes_a_person(disk: SmallDisk) -> None:
    """Opening it again, or creating one, names the directory and the fix."""
    store = BinStore(open_lmdb(disk.path / "store", LIMITS), 8, LIMITS)
    commit(store, GENESIS, 0, rows(10, b"0"))
    close_environments()
    disk.protect(on=True)
    for name in ("store", "another"):
        with pytest.raises(InvalidSettings, match=f"{disk.path}/{name} cannot be written .*Read-only.*the right to"):
            open_lmdb(disk.path / name, LIMITS)
    disk.protect(on=False)
    assert values(BinStore(open_lmdb(disk.path / "store", LIMITS), 8, LIMITS)) == {b"0"}


def test_sparks_own_files_wait_for_room(spark: SparkSession, disk: SmallDisk) -> None:
    """An offset or commit file that cannot be written is retried, and is complete once there is space."""
    files = Files(spark, LOCAL_FILES, disk.path)
    disk.fill()
    with capture_java_stderr(spark) as captured:
        stream = files.create("7", b"offsets")
        closing = threading.Thread(target=stream.close)
        closing.start()
        while f"{disk.path}/7 cannot be written (No space left on device); it is tried again" not in captured():
            assert closing.is_alive()
            closing.join(0.01)
        disk.empty()
        closing.join(60)
    assert not closing.is_alive()
    assert files.listed() == {"7": 7}
