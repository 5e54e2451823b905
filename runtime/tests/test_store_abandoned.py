"""Stores of ended queries are removed from a running worker; those of other running queries never are."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from uuid import UUID

import pytest

from binshift.log.records.terms import Driver
from binshift.model import GENESIS, Term, Worker
from binshift.spark.tasks import warmup
from binshift.spark.tasks.task import Environment, store_of, store_path
from binshift.store.abandoned import ABANDONED_SECONDS, remove_abandoned
from binshift.store.engine.lmdb_store import close_environments, open_lmdb
from binshift.store.opening import StoreSettings, scratch_store
from binshift.worker.messages import LogLocation

OLD, NEW = str(UUID(int=1)), str(UUID(int=2))
SMALL = StoreSettings(map_bytes=1 << 20)
DRIVER = Driver(Term(1), "nonce", GENESIS.epoch)


@pytest.fixture
def root(tmp_path: Path) -> Iterator[Path]:
    """The stores of two queries on one worker; the older one's was last used two weeks ago, and is closed."""
    for query in (OLD, NEW):
        used(tmp_path, query)
    close_environments(state(tmp_path, OLD))
    aged(tmp_path / OLD)
    yield tmp_path
    for store in tmp_path.glob("*/*"):
        close_environments(store)


def environment(root: Path, query: str) -> Environment:
    """Of a query's tasks."""
    return Environment(query, 16, LogLocation("memory://none"), SMALL, DRIVER, str(root))


def state(root: Path, query: str) -> Path:
    """The folder of a query's store."""
    return store_path(environment(root, query), "state", Worker(0))


def used(root: Path, query: str) -> None:
    """Record that a task of a query has used its store."""
    store_of(environment(root, query), "state", Worker(0)).status()


def aged(folder: Path) -> None:
    """Set the last use to two weeks ago."""
    then = time.time() - 2 * ABANDONED_SECONDS
    os.utime(folder, (then, then))


def test_unused_stores_are_removed(root: Path) -> None:
    """Only the stores of the ended query are removed, including what a rehearsal left there."""
    (root / OLD / "warm.1.1-0").mkdir()
    (root / OLD / "warm.1.1-0" / "0").touch()
    (state(root, OLD) / "7.run").touch()
    aged(root / OLD)
    assert remove_abandoned(root, NEW, time.time()) == [OLD]
    assert [path.name for path in root.iterdir()] == [NEW]


def test_what_is_used_stays(root: Path) -> None:
    """Kept are an open store of another query, a recently used one, and the query's own, however old."""
    used(root, OLD)
    assert remove_abandoned(root, NEW, time.time()) == []
    aged(root / OLD)
    assert remove_abandoned(root, NEW, time.time()) == [], "it is still open"
    close_environments(state(root, OLD))
    assert remove_abandoned(root, OLD, time.time()) == []
    assert (state(root, OLD) / "data.mdb").exists()


def test_a_query_that_has_used_a_stand_in_goes(root: Path) -> None:
    """A task for a missing worker has a separate store; one that was killed has left it behind."""
    with scratch_store(root / OLD / "state.stand-in-3", "1.0.0.1", 16, SMALL) as store:
        store.status()
    killed = root / OLD / "state.stand-in-4" / "1.0.0.2"
    open_lmdb(killed)
    aged(root / OLD)
    assert remove_abandoned(root, NEW, time.time()) == [], "it is still open"
    close_environments(killed)
    aged(root / OLD)
    assert remove_abandoned(root, NEW, time.time()) == [OLD]


FOREIGN = [
    "notes",
    f"{OLD}/notes",
    f"{OLD}/{state(Path(), OLD).name}/notes",
    f"{OLD}/backup-1/dump.gz",
    f"{OLD}/backup-1/1.0.0.1/0",
]
FOREIGN += [
    f"{OLD}/{state(Path(), OLD).name}/my.run",
    f"{OLD}/state.stand-in-3/notes",
    f"{OLD}/state.stand-in-3/1.0.0.1/notes",
]


@pytest.mark.parametrize("foreign", FOREIGN)
def test_what_is_not_ours_stays(root: Path, foreign: str) -> None:
    """A folder with anything in it that binshift never creates is not changed."""
    (root / foreign).parent.mkdir(parents=True, exist_ok=True)
    (root / foreign).touch()
    aged(root / OLD)
    assert remove_abandoned(root, NEW, time.time()) == ([OLD] if foreign == "notes" else [])
    assert (root / foreign).exists()


def test_a_folder_that_cannot_be_read_is_skipped(tmp_path: Path) -> None:
    """The search for abandoned stores never fails the rehearsal that it is part of."""
    (tmp_path / "file").touch()
    assert remove_abandoned(tmp_path / "file", NEW, 0.0) == []
    assert remove_abandoned(tmp_path / "nothing", NEW, 0.0) == []


def test_processes_of_a_rehearsal_meet(tmp_path: Path) -> None:
    """All of a worker see each other, also more than two, and one that comes when the others have left does not wait."""
    place = tmp_path / "warm.1.2-0"
    with ThreadPoolExecutor(4) as tasks:
        assert all(tasks.map(lambda process: warmup.rendezvous(place, process), range(4)))
    began = time.monotonic()
    assert warmup.rendezvous(place, 5)
    assert time.monotonic() - began < warmup.RENDEZVOUS_SECONDS_MAX


def test_meetings_that_are_over_are_removed(tmp_path: Path) -> None:
    """The folders of earlier rehearsals go; those of this one stay, and so do stores."""
    for name in ("warm.1.2-0", "warm.1.3-0", "counts-0"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "1").touch()
    warmup.remove_meetings(tmp_path, "warm.1.3-", time.time())
    assert len(list(tmp_path.iterdir())) == 3
    warmup.remove_meetings(tmp_path, "warm.1.3-", time.time() + 2 * warmup.RENDEZVOUS_SECONDS_MAX + 1)
    assert sorted(each.name for each in tmp_path.iterdir()) == ["counts-0", "warm.1.3-0"]
