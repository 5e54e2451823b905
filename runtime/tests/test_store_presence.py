"""The bytes that processes with an open store have in its list of users."""

from __future__ import annotations

import multiprocessing
from pathlib import Path

from binshift.store.engine.cache_directory import DATA, USERS
from binshift.store.engine.contract import StoreLimits
from binshift.store.engine.lmdb_store import close_environments, open_lmdb
from binshift.store.engine.users import BUSY, IDLE, MARK_BYTES, Presence

LIMITS = StoreLimits(map_bytes_max=1 << 20, disk_free_bytes_min=0)


def test_a_forked_child_does_not_report_for_its_parent(tmp_path: Path) -> None:
    """What a child does with what it inherited changes nothing in the list of users."""
    store = open_lmdb(tmp_path, LIMITS)
    with store._place.environment() as opened:
        child = multiprocessing.get_context("fork").Process(target=opened.end_use)
        child.start()
        child.join(300)
        assert child.exitcode == 0
        assert (tmp_path / USERS).read_bytes()[MARK_BYTES:] == bytes([BUSY])
    assert (tmp_path / USERS).read_bytes()[MARK_BYTES:] == bytes([IDLE])
    close_environments(tmp_path)


def test_users_that_come_and_go_leave_no_bytes_once_all_are_gone(tmp_path: Path) -> None:
    """Each one adds a byte while others are present."""
    (tmp_path / DATA).touch()
    first = Presence(tmp_path)
    others = [Presence(tmp_path) for _ in range(9)]
    assert first.alone
    assert not any(other.alone for other in others)
    assert (tmp_path / USERS).stat().st_size == MARK_BYTES + 10
    for each in (first, *others):
        each.close()
    last = Presence(tmp_path)
    assert last.alone
    assert (tmp_path / USERS).stat().st_size == MARK_BYTES + 1
    last.close()
