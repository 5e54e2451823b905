"""Copies that background rounds leave too far behind, and the deltas that a flip then accepts."""

from __future__ import annotations

import pytest
from log_worlds import DictStorage
from migration_script import NOW, apply_events, copied, flips, made, run

from binshift import entries
from binshift.log.files.blocks import write_file
from binshift.log.index.bringup import BringUp, DeltaPart
from binshift.migration import Event, Limits, MigrationState, RoundReported
from binshift.model import BinSet, Epoch, Fence, Term, Worker
from binshift.store.bins.binstore import BinStore
from binshift.store.engine.memory_store import MemoryStore
from binshift.worker.background_task import ROUND_LIMITS
from binshift.worker.bring_up import OLD_EPOCHS, bring_up
from simulator import SimulatedCluster, Totals


def rounds(state: MigrationState, epochs: int, number: int) -> tuple[MigrationState, list[int]]:
    """This many rounds, each of this many epochs and reported within the next; returns the deltas allowed after each."""
    allowed, at = [], NOW
    for _ in range(number):
        ordered = at
        events: list[Event] = []
        for _ in range(epochs):
            at = Epoch(at + 1)
            events += run(at)
        opening, record = run(at + 1)
        state, actions = apply_events(state, *events, opening, *copied(0, epoch=ordered), RoundReported(), record)
        at = Epoch(at + 1)
        allowed.append(state.flip_deltas)
        if flips(actions):
            break
    return state, allowed


@pytest.mark.parametrize(("epochs", "allowed"), [(2, [3, 3]), (4, [3, 3, 6, 6]), (8, [3, 3, 6, 12, 12])])
def test_rounds_that_last_many_epochs(epochs: int, allowed: list[int]) -> None:
    """From the third consecutive miss on, more deltas are allowed, until the step flips."""
    _, found = rounds(made(limits=Limits()), epochs, 9)
    assert found == allowed


def test_the_deltas_of_a_flip_have_a_limit() -> None:
    """However long rounds take, a flip adds no more than this limit to one epoch."""
    _, allowed = rounds(made(limits=Limits(flip_deltas_max=3, flip_deltas_limit=20)), 40, 30)
    assert max(allowed) == 20
    state, _ = rounds(made(limits=Limits()), 400, 100)
    assert state.flip_deltas == 64
    assert state.misses < 10
    more = made(limits=Limits(flip_deltas_max=100))
    assert more.flip_deltas == 100


def test_a_round_of_several_jobs_is_one_round() -> None:
    """Workers whose jobs have failed get separate jobs; copies that are behind count once per round, not once per job."""
    cluster = SimulatedCluster(Totals(), bins=16, workers=1, slots=4)
    migrations = cluster.driver.migrations

    def epoch() -> None:
        cluster.epoch([{"key": f"k{n}", "value": 1, "time": 0} for n in range(40)])

    def apart() -> None:
        migrations.backoff.suspect([Worker(0), Worker(1)])
        migrations.backoff.suspect([Worker(2), Worker(3)])

    for _ in range(3):
        epoch()
        cluster.background()
    migration = cluster.rescale(4)
    for _ in range(3):
        apart()
        cluster.background([epoch] * 6)
        assert migration.state is not None
        assert migration.state.flip_deltas == migration.state.limits.flip_deltas_max


def test_one_round_in_time_takes_the_deltas_back() -> None:
    """The allowance is reset once no copy is further behind than the usual limit."""
    state, _ = rounds(made(limits=Limits(gap_epochs=99)), 8, 4)
    assert state.flip_deltas > 3
    state, _ = apply_events(state, *copied(0, epoch=state.recorded), RoundReported())
    assert state.flip_deltas == 3


def test_loading_is_no_miss() -> None:
    """While no copy is complete, rounds of any length are not counted."""
    state, _ = apply_events(made(), *(event for epoch in range(11, 40) for event in (*run(epoch), RoundReported())))
    assert state.flip_deltas == 3


def test_copies_that_are_there_already_need_no_round() -> None:
    """On an idle stream, a repeated migration finds its copies current, and flips."""
    cluster = SimulatedCluster(Totals(), bins=8, workers=1, slots=2)
    for _ in range(3):
        cluster.epoch([{"key": f"k{n}", "value": 1, "time": 0} for n in range(9)])
        cluster.background()
    first = cluster.rescale(2)
    cluster.background()
    cluster.background()
    first.cancel()
    second = cluster.rescale(2)
    cluster.settle()
    assert (first.status, second.status) == ("cancelled", "settled")


def test_a_round_whose_reading_takes_all_its_time_gets_somewhere() -> None:
    """Deltas that were read are applied, even if the budget is then used up: otherwise the next round would read them again."""
    storage, store, bins = DictStorage(), BinStore(MemoryStore(), 16), BinSet([1])
    fence = Fence(Term(1), Epoch(3), 0)
    store.install_copies(fence, bins, Epoch(1), [], begin=True, done=True)
    deltas = []
    for epoch in (2, 3):
        rows = entries.make([1] * 3000, [b"%05d" % at for at in range(3000)], [b"v"] * 3000)
        file = write_file(storage, f"deltas/{epoch}", [rows])
        assert file is not None
        deltas.append(DeltaPart(Epoch(epoch), file, bins))
    files = BringUp("sum", Epoch(3), bins, BinSet(), ((Epoch(1), bins),), (), tuple(deltas))
    bring_up(store, storage, fence, bins, Epoch(3), files, limits=ROUND_LIMITS, pause=lambda: False)
    assert store.status().copies == {1: 2}


@pytest.mark.parametrize(
    ("have", "copies"), [(100 - OLD_EPOCHS, {1: 100 - OLD_EPOCHS, 2: 100}), (99 - OLD_EPOCHS, {1: 100})]
)
def test_a_copy_that_would_soon_be_loaded_again_is_advanced_first(have: int, copies: dict[int, int]) -> None:
    """A round that has time for one thing loads new bins, unless a copy has become old meanwhile."""
    storage, store, to = DictStorage(), BinStore(MemoryStore(), 16), Epoch(100)
    fence, old, new = Fence(Term(1), to, 0), BinSet([1]), BinSet([2])
    bins = old | new
    store.install_copies(fence, old, Epoch(have), [], begin=True, done=True)
    file = write_file(storage, "deltas/1", [entries.make([1, 2], [b"k", b"k"], [b"v", b"v"])])
    assert file is not None
    starts, deltas = ((Epoch(-1), new), (Epoch(have), old)), (DeltaPart(to, file, bins),)
    files = BringUp("sum", to, bins, new, starts, (), deltas)
    times = iter([True])
    bring_up(store, storage, fence, bins, to, files, limits=ROUND_LIMITS, pause=lambda: next(times, False))
    assert store.status().copies == copies
