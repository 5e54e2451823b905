"""When an epoch's task raises the fence of its store: with its commit, or first, where another task may be under way (I8)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from stores import commit_epoch
from test_operators import BINS, BUFFERS, COUNT, KEYS, counted

from binshift.errors import Fenced, NeedsBringUp
from binshift.model import GENESIS, BinSet, Epoch, Fence, Stamp, Term, Worker
from binshift.operators.aggregate import Aggregate, OutputMode
from binshift.store.bins.binstore import BinStore
from binshift.store.engine.contract import Transaction
from binshift.store.engine.memory_store import MemoryStore
from binshift.worker.epoch_task import EpochTask
from binshift.worker.messages import EpochSpec, Summary
from simulator.faulty import Files

OPERATOR = Aggregate(KEYS, BUFFERS, COUNT, OutputMode.UPDATE)


class CountedStore(MemoryStore):
    """Counts its write transactions."""

    writes = 0

    @contextmanager
    def write(self, timeout_seconds: float) -> Iterator[Transaction]:
        self.writes += 1
        with super().write(timeout_seconds) as transaction:
            yield transaction


class World:
    """One worker's store, after epoch 0 of the driver with term 1."""

    def __init__(self) -> None:
        self.kv = CountedStore()
        self.store = BinStore(self.kv, len(BINS))
        self.stamp = Stamp(Epoch(0), "1.0.0.a")
        fence = Fence(Term(1), Epoch(0), 0)
        commit_epoch(self.store, fence, expect=GENESIS, stamp=self.stamp, owned=BINS, changes=[], undo=True)
        self.kv.writes = 0

    def task(
        self, *, term: int = 1, run: int = 0, owned_before: BinSet = BINS, expect: Stamp | None = None
    ) -> EpochTask:
        """A task of epoch 1."""
        fence = Fence(Term(term), Epoch(1), run)
        spec = EpochSpec(fence, "count", Worker(0), expect or self.stamp, owned_before, BINS, batch_time_ms=0)
        return EpochTask(spec, OPERATOR, self.store, Files(), f"{spec.run_prefix}b")

    def begin(self, task: EpochTask) -> tuple[Iterator[object], list[Summary]]:
        """Let a task take its rows and yield its output, but not commit."""
        summaries: list[Summary] = []
        outputs = task.run(iter([counted([(0, "a", 1, None)])]), summaries.append)
        next(outputs)
        return outputs, summaries


@pytest.fixture
def world() -> World:
    """One for each test."""
    return World()


def finish(begun: tuple[Iterator[object], list[Summary]]) -> Summary:
    """The summary of a task that commits."""
    outputs, summaries = begun
    assert list(outputs) == []
    return summaries[0]


def test_an_undisturbed_epoch_is_one_transaction(world: World) -> None:
    """The commit raises the fence."""
    assert finish(world.begin(world.task())).states_set == 1
    assert world.kv.writes == 1
    assert world.store.status().fence == Fence(Term(1), Epoch(1), 0)


@pytest.mark.parametrize(("term", "run"), [(1, 1), (2, 0)], ids=["after a failed run", "after another driver"])
def test_a_task_that_replaces_others_shuts_them_out_first(world: World, term: int, run: int) -> None:
    """Before it reads: what it is to replace may be about to commit."""
    old = world.begin(world.task())
    new = world.begin(world.task(term=term, run=run))
    assert world.kv.writes == 1
    with pytest.raises(Fenced):
        finish(old)
    finish(new)


def test_a_task_that_is_late_has_no_output(world: World) -> None:
    """A newer run has been here: its state is read by no older one."""
    world.begin(world.task(run=1))
    with pytest.raises(Fenced):
        world.begin(world.task())


def test_of_two_tasks_of_a_run_one_commits(world: World) -> None:
    """The fence lets both begin; the second one finds another state at its commit (I2)."""
    one, other = world.begin(world.task()), world.begin(world.task())
    finish(one)
    with pytest.raises(NeedsBringUp):
        finish(other)


def test_a_store_that_is_elsewhere_is_claimed_before_it_is_changed(world: World) -> None:
    """A store behind the record is emptied under the new fence."""
    task = world.task(expect=Stamp(Epoch(0), "1.0.1.c"))
    with pytest.raises(NeedsBringUp):
        world.begin(task)
    assert world.store.status().fence == task.spec.fence
