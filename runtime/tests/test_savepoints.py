"""A savepoint is complete and of one epoch, whatever the query does while it is copied."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from savepoint_world import Query, Target, check, findings

from binshift.errors import Fenced
from binshift.log.storage import layout as log_layout
from binshift.model import BEFORE_FIRST
from binshift.savepoints import copying, layout, records
from binshift.savepoints.copying import CopyStopped

SEEDS = st.integers(0, 10**6)


@pytest.fixture(autouse=True)
def one_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files are copied in order, so that a seed is one history."""
    monkeypatch.setattr(copying, "FILES_AT_ONCE", 1)


class Interrupted(Exception):
    """The process that copies has been killed."""


@settings(max_examples=25, deadline=None)
@given(seed=SEEDS, before=st.integers(1, 14), share=st.sampled_from([0.03, 0.1, 0.5]))
def test_a_copy_has_every_bin_as_of_its_epoch(seed: int, before: int, share: float) -> None:
    """Epochs, moves, snapshots, manifests and collections continue while it is copied: it opens, and has that epoch's rows (I4)."""
    query = Query(seed)
    for _ in range(before):
        query.epoch()

    def another(name: str) -> None:
        if query.rng.random() < share and name != layout.DESCRIPTION:
            query.epoch()

    target = Target(before=another)
    made = query.save(target)
    assert made.epoch >= before - 1
    assert findings(target) == []
    check(query, target, made.epoch)
    batches = [layout.batch_of(name) for name in target.files]
    assert max(each for each in batches if each is not None) == made.epoch
    assert f"offsets/{made.epoch}" in target.files
    assert any(layout.is_source(name) for name in target.files)
    assert query.driver.log._held == BEFORE_FIRST


@settings(max_examples=20, deadline=None)
@given(seed=SEEDS, deaths=st.lists(st.tuples(st.integers(1, 30), st.integers(0, 12)), min_size=1, max_size=3))
def test_a_killed_copy_is_finished_by_the_next_driver(seed: int, deaths: list[tuple[int, int]]) -> None:
    """Killed at any file, any number of epochs ago: the same request gives a complete savepoint, of the same epoch or a newer one."""
    query = Query(seed)
    for _ in range(6):
        query.epoch()
    target = Target()
    for files, epochs in deaths:
        left = iter(range(files))

        def kill(_: str, left: Iterator[int] = left) -> None:
            if next(left, None) is None:
                raise Interrupted

        target.before = kill
        try:
            query.save(target)
        except Interrupted:
            query.restart()
            for _ in range(epochs):
                query.epoch()
    target.before = lambda name: None
    made = query.save(target)
    assert findings(target) == []
    check(query, target, made.epoch)


def test_an_unfinished_copy_keeps_its_epoch_while_its_files_exist() -> None:
    """What the target has is not copied a second time."""
    query = Query(3)
    for _ in range(6):
        query.epoch()
    target = Target()
    done: list[str] = []

    def kill(name: str) -> None:
        if len(done) == 12:
            raise Interrupted
        done.append(name)

    target.before = kill
    with pytest.raises(Interrupted):
        query.save(target)
    query.restart()
    again: list[str] = []
    target.before = again.append
    assert query.save(target).epoch == 5
    assert not set(again) & set(done)


def test_a_copy_whose_epoch_is_gone_begins_again() -> None:
    """Nothing of the first epoch's files stays, except what belongs to the second as well."""
    query = Query(4)
    for _ in range(4):
        query.epoch()
    target = Target()

    def kill(name: str) -> None:
        if name.startswith(layout.LOG):
            raise Interrupted

    target.before = kill
    with pytest.raises(Interrupted):
        query.save(target)
    query.restart()
    for _ in range(30):
        query.epoch()
    target.before = lambda name: None
    made = query.save(target)
    assert made.epoch == 33
    assert {name for name in target.files if layout.belongs(name)} == {each.name for each in made.files}


def test_files_are_held_until_the_copy_ends() -> None:
    """While it is copied, no file that it needs is deleted; afterwards they go (I7)."""
    query = Query(5)
    for _ in range(6):
        query.epoch()
    waited = iter(range(25))

    def another(_: str) -> None:
        if next(waited, None) is not None:
            query.epoch()

    target = Target(before=another)
    made = query.save(target)
    kept = {each.name.removeprefix(layout.LOG) for each in made.files if each.name.startswith(layout.LOG)}
    data = {name for name in kept if name.startswith((log_layout.DELTAS, log_layout.SNAPSHOTS))}
    assert data <= query.log_files.files.keys()
    query.collect()
    assert not data & query.log_files.files.keys()


def test_a_failed_copy_holds_nothing() -> None:
    """An error, or a request to stop, releases the files."""
    query = Query(6)
    query.epoch()
    stop = threading.Event()

    def end(name: str) -> None:
        if name.startswith(layout.LOG):
            stop.set()

    target = Target(before=end)
    with pytest.raises(CopyStopped):
        query.save(target, stop=stop)
    assert query.driver.log._held == BEFORE_FIRST
    assert records.begun(target) is not None
    assert records.complete(target) is None


def test_a_replaced_driver_describes_nothing() -> None:
    """A newer driver has opened the log: the older one's copy ends without a description (I8)."""
    query = Query(7)
    query.epoch()
    old, target = query.source(), Target()

    def replace(name: str) -> None:
        if name == layout.METADATA:
            query.restart()

    target.before = replace
    with pytest.raises(Fenced):
        query.save(target)
    assert old.log.term < query.driver.log.term
    assert records.complete(target) is None
    assert query.save(target).epoch == 0


def test_an_epoch_without_sparks_commit_is_not_copied() -> None:
    """The copy waits until Spark has committed the recorded epoch."""
    query = Query(8)
    query.epoch()
    query.files.delete(["commits/0"])
    stop = threading.Event()
    asked: list[str] = []

    def exists(name: str) -> bool:
        asked.append(name)
        if len(asked) == 3:
            stop.set()
        return name in query.files.files

    query.files.exists = exists  # type: ignore[method-assign]
    target = Target()
    with pytest.raises(CopyStopped):
        query.save(target, stop=stop)
    assert (target.files, asked) == ({}, ["commits/0"] * 3)
    query.files.put("commits/0", b"v1")
    assert query.save(target).epoch == 0
