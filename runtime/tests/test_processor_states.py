"""Processors' states, timers and time to live, against a dictionary, over epochs on two workers whose bins move."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from processor_fold import ASKED, OPERATIONS, OUTPUT, Asked, Fold, Obedient
from processor_world import BINS, World

from binshift.operators.contract import EXPIRY_SPACE, STATE_SPACE, TIMER_SPACE
from binshift.operators.expiry import expiry_bytes
from binshift.operators.first_times import TIME_BYTES
from binshift.operators.processor.layout import HEADER_SPACE, TIMERS_OF_KEY_SPACE
from binshift.operators.processor.lists import CHUNK_ELEMENTS
from binshift.operators.processor.operator import TimeMode
from binshift.store.engine.contract import KeyValueStore
from binshift.store.engine.lmdb_store import discard_environments, open_lmdb
from binshift.store.engine.memory_store import MemoryStore

asked = st.tuples(st.sampled_from(["a", "b", "", "ä" * 300]), st.sampled_from(OPERATIONS), st.integers(0, 12))
restarts = st.sampled_from([None, None, 0, 1])
epochs = st.lists(
    st.tuples(st.lists(asked, max_size=12), st.integers(0, 15), st.integers(0, BINS), restarts), max_size=7
)
History = list[tuple[list[Asked], int, int, int | None]]
"""For each epoch: rows, the time since the one before, how many bins the first worker has, which worker has restarted."""


def world(ttl_ms: int | None, store: KeyValueStore | None = None) -> World:
    """The processor, with its state in a store."""
    return World(Obedient(ttl_ms), OUTPUT, TimeMode.PROCESSING, rows=ASKED, store=store)


def by_key(rows: list[dict[str, Any]]) -> dict[str, list[str]]:
    """What each key has returned, in order."""
    found: dict[str, list[str]] = {}
    for row in rows:
        found.setdefault(row["k"], []).append(row["seen"])
    return found


def check(history: History, ttl_ms: int | None, store: KeyValueStore) -> World:
    """Run a history on both."""
    run, fold, now = world(ttl_ms, store), Fold(ttl_ms), 0
    for rows, step, split, restarted in history:
        now += step
        if restarted is not None:
            run.restart(restarted)
        assert by_key(run.epoch(rows, time=now, split=split)) == by_key(fold.epoch(rows, now))
        timers = [at for state in fold.states.values() for at in state.timers]
        assert run.wake_at_ms == min(timers, default=None)
    return run


@given(epochs)
def test_states_equal_a_dictionary(history: History) -> None:
    """Every read returns what a dictionary has, whichever worker a bin is on."""
    check(history, None, MemoryStore())


@given(epochs)
def test_what_has_a_time_to_live_equals_a_dictionary(history: History) -> None:
    """Values, elements and entries end each at their own time."""
    check(history, 20, MemoryStore())


@given(epochs)
def test_rows_of_ended_state_are_deleted(history: History) -> None:
    """When everything is over, no row is left in the store."""
    run = check(history, 20, MemoryStore())
    run.epoch(time=1000)
    run.epoch(time=2000)
    assert run.stored() == []


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    """For stores on disk."""
    with TemporaryDirectory() as made:
        yield Path(made)
        discard_environments(made)


@settings(max_examples=15)
@given(history=epochs, ttl_ms=st.sampled_from([None, 20]))
def test_states_on_disk_equal_a_dictionary(folder: Path, history: History, ttl_ms: int | None) -> None:
    """The same on LMDB, where long keys are stored by a digest."""
    store = open_lmdb(str(folder))
    with store.write(1) as transaction:
        transaction.clear()
    check(history, ttl_ms, store)


def test_long_lists_are_appended_to_in_chunks() -> None:
    """An append writes the last chunk and the header, whatever the length of the list."""
    run, fold = world(None), Fold(None)
    for _ in range(12):
        rows: list[Asked] = [("a", "list.append", 60)]
        assert by_key(run.epoch(rows)) == by_key(fold.epoch(rows, 0))
    chunks = [key for key in run.stored() if key.startswith(STATE_SPACE)]
    assert len(chunks) == -(-12 * 61 // CHUNK_ELEMENTS)


@given(epochs)
def test_only_bins_with_something_due_are_opened(history: History) -> None:
    """The indexes by time of a bin are opened once in an epoch in which a stored row of them is due, and never in others."""
    run, now = world(20), 0
    for rows, step, split, _ in history:
        now += step
        stored = [(bin, key) for bin, key in run.placed() if key[:1] in (EXPIRY_SPACE, TIMER_SPACE)]
        due = {(bin, key[:1]) for bin, key in stored if key[1 : 1 + TIME_BYTES] <= expiry_bytes(now)}
        run.epoch(rows, time=now, split=split)
        assert sorted(each for each in run.opened if each[1] in (EXPIRY_SPACE, TIMER_SPACE)) == sorted(due)


def test_rows_lie_in_their_spaces() -> None:
    """State, expiry index, headers and timers have spaces of their own, so that only state counts as state."""
    run = World(Obedient(50), OUTPUT, TimeMode.PROCESSING, rows=ASKED)
    ops = ["value.set", "list.put", "map.set", "timer.register"]
    run.epoch([("a", op, 9) for op in ops], time=100)
    spaces = sorted(key[:1] for key in run.stored())
    assert spaces == sorted([STATE_SPACE] * 3 + [EXPIRY_SPACE] * 3 + [HEADER_SPACE, TIMER_SPACE, TIMERS_OF_KEY_SPACE])
