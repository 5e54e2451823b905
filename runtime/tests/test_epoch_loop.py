"""The outcome of an epoch for all results of its runs: each path through the loop that runs epochs, on a real log."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import pytest
from epoch_world import ATTEMPTS_MAX, EpochWorld, begun

from binshift.engine.epoch_progress import EpochProgress
from binshift.errors import (
    DiskFull,
    EpochFailed,
    Fenced,
    LogDamaged,
    ReplayMismatch,
    StorageUnavailable,
    TaskFailed,
    UserFunctionFailed,
)
from binshift.model import Epoch, Worker


@pytest.fixture
def world() -> EpochWorld:
    """A new query on two workers."""
    return EpochWorld()


# ------------------------------------------------------------------------------------------------------------- calm


def test_a_calm_epoch(world: EpochWorld) -> None:
    """A calm epoch has one run; it is recorded, published and measured, and one more epoch is requested."""
    begun(world)
    assert [(run.number, run.workers, run.on, run.readers) for run in world.runs] == [(0, (0, 1), ("0.1", "1.1"), ())]
    assert world.coordinator.last == 1
    assert world.published == [0, 1]
    assert world.coordinator.migrations.pacer.epoch_seconds == 1.0
    assert world.wakes == [True] * 2
    assert [(each.epoch, each.seconds["job"], each.seconds["total"]) for each in world.loop.timings] == [
        (0, 1.0, 1.0),
        (1, 1.0, 1.0),
    ]
    assert (world.loop.runs_failed, world.loop.error, world.loop.progress) == (0, None, None)
    assert not world.loop.in_epoch.is_set()


def test_a_calm_epoch_has_three_calls_to_the_coordinator(world: EpochWorld) -> None:
    """Nothing is read from the coordinator between its plan, its record and its end."""

    class Watched:
        def __init__(self) -> None:
            self.used: list[str] = []

        def __getattr__(self, name: str) -> Any:
            self.used.append(name)
            return getattr(world.coordinator, name)

    begun(world)
    watched: Any = Watched()
    world.loop.coordinator = watched
    world.epoch(2)
    assert watched.used == ["plan", "commit", "finish"]


def test_an_epoch_is_seen_while_it_runs(world: EpochWorld) -> None:
    """An observer sees that an epoch is running, and which one; no other batch may begin."""
    seen: list[tuple[bool, bool, EpochProgress | None]] = []
    world.script.append(lambda: seen.append((world.loop.in_epoch.is_set(), world.loop.within, world.loop.progress)))
    world.epoch(0)
    ((busy, within, at),) = seen
    assert at is not None
    assert (busy, within, at.epoch, at.stage, at.runs) == (True, True, 0, "job", 1)
    assert not world.loop.within


def test_stores_of_known_executors_are_trusted(world: EpochWorld) -> None:
    """Bins are brought up only on an executor that has not run an epoch of this driver."""
    begun(world)
    world.replaced(1)
    world.epoch(2)
    assert [run.brought_up for run in world.runs] == [{1}]
    world.epoch(3)
    assert [run.brought_up for run in world.runs] == [frozenset()]


# ------------------------------------------------------------------------------------------------------- runs again


def test_a_failed_run_is_made_again(world: EpochWorld) -> None:
    """The next run has the next number and brings everything up; the epoch is recorded and measured once."""
    begun(world)
    world.script += [EpochFailed("an executor was lost"), DiskFull("no space")]
    world.epoch(2)
    assert [(run.number, run.brought_up) for run in world.runs] == [(0, frozenset()), (1, {0, 1}), (2, {0, 1})]
    assert world.loop.runs_failed == 2
    assert world.loop.timings[-1].runs == 3
    assert world.published == [0, 1, 2]
    assert len(world.coordinator.migrations.pacer._all) == 3


def test_failed_runs_show_while_the_epoch_lasts(world: EpochWorld) -> None:
    """Each run is shown with the reason of the previous failure, and every failure counts at once."""
    seen: list[tuple[int, str, int]] = []

    def observe(number: int) -> object:
        at = world.loop.progress
        assert at is not None
        seen.append((at.runs, at.trouble, world.loop.runs_failed))
        raise DiskFull(f"no space, {number}")

    world.script += [partial(observe, 1), partial(observe, 2), UserFunctionFailed("enough")]
    with pytest.raises(UserFunctionFailed, match="enough"):
        world.epoch(0)
    assert seen == [(1, "", 0), (2, "no space, 1", 1)]
    assert world.loop.progress is None


def test_pauses_between_runs_grow(world: EpochWorld) -> None:
    """The first failure has no pause, then pauses grow: a disk or a store may be unavailable for a while."""
    world.script += [EpochFailed("lost")] * 4
    world.epoch(0)
    assert world.clock.waits == [0.0, 0.1, 0.2, 0.4]


def test_runs_are_bounded(world: EpochWorld) -> None:
    """An epoch that never succeeds ends the query with the reason of its last failure; the next driver can run it."""
    world.script += [EpochFailed("lost")] * (ATTEMPTS_MAX - 1) + [DiskFull("no space at the end")]
    with pytest.raises(EpochFailed, match=f"failed {ATTEMPTS_MAX} times.*no space at the end"):
        world.epoch(0)
    assert len(world.runs) == ATTEMPTS_MAX
    assert world.coordinator.last == -1
    assert isinstance(world.loop.error, EpochFailed)
    assert not world.loop.in_epoch.is_set()


def test_failures_of_tasks_have_a_lower_bound(world: EpochWorld) -> None:
    """A task that fails four times in an epoch ends the query, as in Spark; executors lost in between do not count."""
    world.script += [TaskFailed("a"), EpochFailed("lost"), TaskFailed("b"), TaskFailed("c"), TaskFailed("d")]
    with pytest.raises(TaskFailed, match="d"):
        world.epoch(0)
    assert len(world.runs) == 5


def test_failures_of_tasks_are_counted_by_epoch(world: EpochWorld) -> None:
    """Failures in an epoch that was recorded in the end no longer count."""
    world.script += [TaskFailed("a")] * 3
    world.epoch(0)
    world.script += [TaskFailed("b")] * 3
    world.epoch(1)
    assert world.coordinator.last == 1


@pytest.mark.parametrize("error", [UserFunctionFailed("boom"), RuntimeError("what is this?"), ReplayMismatch("no")])
def test_what_cannot_help_is_not_tried_again(world: EpochWorld, error: Exception) -> None:
    """An error of the user's function, or an unknown one, ends the query at once, unchanged."""
    begun(world)
    world.script.append(error)
    with pytest.raises(type(error)) as raised:
        world.epoch(2)
    assert str(raised.value) == str(error)
    assert len(world.runs) == 1
    assert world.loop.error is raised.value


def test_an_epoch_that_is_given_up_has_moved_nothing(world: EpochWorld) -> None:
    """The moves of an epoch that ends with an error did not happen: the migration still has to make them."""
    begun(world)
    migration = world.targets.rescale((Worker(0),), strategy="AllAtOnce", pre_copy=False)
    world.coordinator.background()
    world.script.append(UserFunctionFailed("boom"))
    with pytest.raises(UserFunctionFailed):
        world.epoch(2)
    assert migration.state is not None
    assert migration.state.running is None
    assert not migration.ended


def test_an_epoch_without_all_summaries_is_run_again(world: EpochWorld) -> None:
    """A record needs exactly one summary per worker: a sink that stops early fails the run."""
    summary = world.summary
    world.summary = lambda spec: summary(replace(spec, worker=Worker(0)) if not spec.fence.run else spec)  # type: ignore[method-assign]
    world.epoch(0)
    assert [run.number for run in world.runs] == [0, 1]


# ---------------------------------------------------------------------------------------------------------- records


def test_a_record_of_an_older_driver_is_adopted(world: EpochWorld) -> None:
    """A driver that finds the epoch recorded by the previous one replays it; nothing is recorded twice."""
    begun(world)
    younger = world.restarted()
    with pytest.raises(Fenced):
        world.epoch(2)
    younger.epoch(2)
    assert [(run.number, run.replay) for run in younger.runs] == [(0, False), (1, True)]
    assert younger.published == [2]
    assert younger.log.index.record(Epoch(2)).term == world.log.term


def test_an_older_driver_stops(world: EpochWorld) -> None:
    """A driver whose epoch a newer one has recorded ends: it is fenced."""
    begun(world)
    younger = world.restarted()
    younger.epoch(2)
    with pytest.raises(Fenced):
        world.epoch(2)
    assert world.published == [0, 1]


def test_a_replay_runs_on_the_recorded_workers(world: EpochWorld) -> None:
    """When Spark repeats a recorded epoch, its recorded workers take part, and its result is published again."""
    begun(world)
    younger = world.restarted()
    younger.epoch(1)
    assert [(run.workers, run.replay) for run in younger.runs] == [((0, 1), True)]
    assert younger.published == [1]


def test_a_damaged_file_is_done_without(world: EpochWorld) -> None:
    """An epoch that finds a damaged snapshot is planned again without it, as often as needed."""
    begun(world)
    reported: list[str] = []

    def mark_unusable(name: str) -> bool:
        reported.append(name)
        if len(reported) == 2:
            raise StorageUnavailable("not now")
        return True

    world.log.mark_unusable = mark_unusable  # type: ignore[method-assign]
    world.script += [LogDamaged("torn").about(file="file one"), LogDamaged("torn").about(file="file two")]
    world.epoch(2)
    assert reported == ["file one", "file two"]
    assert [run.number for run in world.runs] == [0, 1, 2]


def test_a_damaged_file_that_is_needed_ends_the_query(world: EpochWorld) -> None:
    """Damage to an indispensable file is an error, and the epoch's moves did not happen."""
    begun(world)
    world.script.append(LogDamaged("records/x is torn"))
    with pytest.raises(LogDamaged, match="records/x is torn"):
        world.epoch(2)
    assert len(world.runs) == 1
