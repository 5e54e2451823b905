"""The reaction of an epoch to executors, time and a stop: the other paths through the loop that runs epochs."""

from __future__ import annotations

import pytest
from epoch_world import ATTEMPTS_MAX, LOST_SECONDS, WAIT_SECONDS, WATERMARK_MS, EpochWorld, begun

from binshift.errors import (
    DiskFull,
    EpochFailed,
    Fenced,
    StorageUnavailable,
    UserFunctionFailed,
)
from binshift.log.log import Log
from binshift.model import Worker


@pytest.fixture
def world() -> EpochWorld:
    """A new query on two workers."""
    return EpochWorld()


# -------------------------------------------------------------------------------------------------------- executors


def test_a_missing_executor_is_waited_for(world: EpochWorld) -> None:
    """An epoch waits for the executor of a worker that owns bins; the others wait with it."""
    begun(world)
    mine = world.executors.pop(Worker(1))
    polls = 0

    def back() -> None:
        nonlocal polls
        polls += 1
        if polls == 20:
            world.executors[Worker(1)] = mine

    world.clock.on_wait = back
    world.epoch(2)
    assert [run.workers for run in world.runs] == [(0, 1)]
    assert polls == 20


def test_others_take_over_from_one_that_stays_away(world: EpochWorld) -> None:
    """After the time-out, its bins go to the registered workers, and the epoch runs with them alone."""
    begun(world)
    del world.executors[Worker(1)]
    world.epoch(2)
    assert LOST_SECONDS < sum(world.clock.waits) < LOST_SECONDS + 1
    assert [(run.workers, run.brought_up) for run in world.runs] == [((0,), frozenset({0}))]
    assert world.coordinator.route is not None
    assert world.coordinator.route.workers == (0,)


def test_no_worker_is_registered(world: EpochWorld) -> None:
    """Without any executor the epoch fails and names the missing worker."""
    begun(world)
    world.executors.clear()
    before = world.clock.now
    with pytest.raises(EpochFailed, match="no executor for worker 0"):
        world.epoch(2)
    assert WAIT_SECONDS + LOST_SECONDS < world.clock.now - before < WAIT_SECONDS + LOST_SECONDS + 1


def test_a_worker_without_bins_is_not_waited_for(world: EpochWorld) -> None:
    """A worker that gives its last bin away in this epoch, or gets its first one later, may be missing."""
    begun(world)
    world.targets.rescale((Worker(0),), strategy="AllAtOnce", pre_copy=False)
    world.coordinator.background()
    world.epoch(2)
    assert [run.workers for run in world.runs] == [(0, 1)]
    world.script.append(EpochFailed("lost"))
    del world.executors[Worker(1)]
    world.epoch(3)
    assert {run.workers for run in world.runs} == {(0,)}


def test_a_replay_goes_on_without_an_absent_worker(world: EpochWorld) -> None:
    """Its route is decided; another executor computes the missing worker's output."""
    begun(world)
    younger = world.restarted()
    del younger.executors[Worker(1)]
    younger.epoch(1)
    assert [(run.workers, run.on, run.replay) for run in younger.runs] == [((0, 1), ("0.1", "0.1"), True)]


def test_the_executors_are_read_for_every_run(world: EpochWorld) -> None:
    """A run after a lost executor does not use that executor again."""
    begun(world)

    def replace() -> None:
        world.replaced(0)
        raise EpochFailed("lost")

    world.script.append(replace)
    world.epoch(2)
    assert [run.on for run in world.runs] == [("0.1", "1.1"), ("0.2", "1.1")]


# ------------------------------------------------------------------------------------------------ cold and expected


def test_the_batch_is_kept_off_cold_workers(world: EpochWorld) -> None:
    """While a worker has not rehearsed, the batch's own tasks are pinned to the warm ones."""
    begun(world)
    world.executors[Worker(2)] = world.executors[Worker(1)]
    world.epoch(2)
    assert [run.readers for run in world.runs] == [("0.1", "1.1")]


def test_the_batch_is_kept_off_workers_that_are_only_expected(world: EpochWorld) -> None:
    """The same holds while a cold one is expected: it may register before the job's last stage."""
    begun(world)
    world.targets.rescale((Worker(0), Worker(1), Worker(2)))
    world.epoch(2)
    assert [run.readers for run in world.runs] == [("0.1", "1.1")]


def test_where_all_are_cold_anyone_may_read(world: EpochWorld) -> None:
    """Without a warm worker the batch's tasks are not pinned."""
    world.coordinator.migrations._warm.clear()
    world.epoch(0)
    assert [run.readers for run in world.runs] == [()]


# ------------------------------------------------------------------------------------------------------------ fence


@pytest.mark.parametrize(("seconds", "checks"), [(1.9, 0), (2.5, 1)])
def test_a_driver_that_planned_for_long_checks_for_a_newer_one(world: EpochWorld, seconds: float, checks: int) -> None:
    """After a long pause it may have been replaced, so it must check before the sink writes."""
    begun(world)
    checked: list[int] = []
    world.coordinator.check_newest = lambda: checked.append(len(world.runs))  # type: ignore[method-assign]
    world.planning.append(seconds)
    world.epoch(2)
    assert checked == [0] * checks


def test_a_replaced_driver_writes_nothing(world: EpochWorld) -> None:
    """A driver that was suspended while planning, and was replaced meanwhile, ends before its sink takes a row."""
    begun(world)
    Log.on(world.files, world.log.format, nonce="another driver")
    world.planning.append(5.0)
    with pytest.raises(Fenced):
        world.epoch(2)
    assert not world.runs


# ---------------------------------------------------------------------------------------------------------- offsets


def test_offsets_that_cannot_be_read_are_tried_again(world: EpochWorld) -> None:
    """Nothing is lost while a disk is unavailable; such attempts count as failed runs."""
    world.unreadable += [DiskFull("away"), StorageUnavailable("away")]
    world.epoch(0)
    assert world.loop.runs_failed == 2
    assert world.coordinator.last == 0


def test_offsets_that_are_never_readable_end_the_query(world: EpochWorld) -> None:
    """The query ends after as many attempts as an epoch has runs; each attempt shows the reason of the previous failure."""
    seen: list[str] = []
    world.clock.on_wait = lambda: seen.append(world.loop.progress.trouble if world.loop.progress else "")
    world.unreadable += [DiskFull("disk is lost")] * (ATTEMPTS_MAX + 1)
    with pytest.raises(EpochFailed, match="could not begin: disk is lost"):
        world.epoch(0)
    assert world.loop.runs_failed == ATTEMPTS_MAX
    assert seen == ["disk is lost"] * ATTEMPTS_MAX


# ------------------------------------------------------------------------------------------------------------- stop


def test_an_epoch_in_trouble_is_given_up_by_a_stop(world: EpochWorld) -> None:
    """Its executors may also be stopping, and the epoch will be repeated, so no further run begins."""
    begun(world)

    def stop() -> None:
        world.loop.stopping.set()
        raise EpochFailed("lost")

    world.script.append(stop)
    with pytest.raises(EpochFailed, match="is given up, as a run of it failed and the query is being stopped"):
        world.epoch(2)
    assert len(world.runs) == 1


def test_an_epoch_that_waits_is_given_up_by_a_stop(world: EpochWorld) -> None:
    """The same holds while it waits for an executor."""
    begun(world)
    del world.executors[Worker(1)]
    world.clock.on_wait = world.loop.stopping.set
    with pytest.raises(EpochFailed, match="worker 1 has no executor and the query is being stopped"):
        world.epoch(2)
    assert not world.runs


def test_an_epoch_that_cannot_begin_is_given_up_by_a_stop(world: EpochWorld) -> None:
    """The same holds while its offsets cannot be read."""
    world.unreadable += [DiskFull("away"), DiskFull("away")]
    world.clock.on_wait = world.loop.stopping.set
    with pytest.raises(EpochFailed, match="could not begin"):
        world.epoch(0)
    assert world.loop.runs_failed == 1


def test_an_epoch_that_goes_well_is_finished_by_a_stop(world: EpochWorld) -> None:
    """A stop during a successful run lets the epoch be recorded."""
    world.script.append(world.loop.stopping.set)
    world.epoch(0)
    assert world.coordinator.last == 0


# ------------------------------------------------------------------------------------------- what follows an epoch


def test_the_pace_follows_the_measured_epochs(world: EpochWorld) -> None:
    """Slow epochs while bins move make the moves slower: fewer bins per flip, and less copying."""
    begun(world, 6)
    pacer = world.coordinator.migrations.pacer
    before = pacer.pace
    pacer.aim_seconds = 0.5
    pacer._calm.clear()
    pacer._calm.append(0.1)
    world.targets.rescale((Worker(0),), strategy="Fluid", pre_copy=True)
    for number in range(6, 12):
        world.epoch(number)
    assert pacer.pace != before
    assert pacer.pace.duty < before.duty


@pytest.mark.parametrize(("next_ms", "wakes"), [(WATERMARK_MS + 1, [True]), (WATERMARK_MS, []), (None, [])])
def test_groups_that_are_over_get_an_epoch(world: EpochWorld, next_ms: int | None, wakes: list[bool]) -> None:
    """One more epoch is requested if this one has advanced the watermark, even if the stream would end before it."""
    world.next_watermark = next_ms
    world.epoch(0)
    assert world.wakes == wakes


def test_a_failed_epoch_requests_no_further_one(world: EpochWorld) -> None:
    """Only a recorded epoch requests another one."""
    world.script.append(UserFunctionFailed("boom"))
    with pytest.raises(UserFunctionFailed):
        world.epoch(0)
    assert world.wakes == []
