"""The outcome of a background round for all job results: each path through the loop that runs rounds, on a real log."""

from __future__ import annotations

import pytest
from background_world import BackgroundWorld
from epoch_world import executor

from binshift.engine.background_loop import IDLE_SECONDS
from binshift.errors import EpochFailed, Fenced, LogDamaged, StorageUnavailable, UserFunctionFailed
from binshift.log.log import Log
from binshift.model import Worker


@pytest.fixture
def world() -> BackgroundWorld:
    """A query on two workers, after two epochs, that knows the contents of its workers."""
    made = BackgroundWorld()
    made.round()
    return made


def joined(world: BackgroundWorld, *workers: int) -> None:
    """Register executors of these workers."""
    for worker in workers:
        world.executors[Worker(worker)] = executor(worker, 1)


# ------------------------------------------------------------------------------------------------------------ rounds


def test_a_round_with_nothing_to_do(world: BackgroundWorld) -> None:
    """A round without work runs no job, and the thread may pause."""
    assert not world.round()
    assert world.jobs == []


def test_a_new_executor_reports_its_bins(world: BackgroundWorld) -> None:
    """A new executor gets a job, because its copies are not known."""
    del world.executors[Worker(1)]
    world.round()
    joined(world, 1)
    assert world.round()
    assert world.jobs == [[1]]


def test_what_a_failed_job_has_reported_counts(world: BackgroundWorld) -> None:
    """Reports of a failed job are used; the worker without a report is remembered with the reason."""
    joined(world, 2, 3)
    world.broken[3] = EpochFailed("its Python is gone")
    world.round()
    assert world.jobs == [[2, 3]]
    troubles = world.coordinator.migrations.backoff.known
    assert {worker: trouble.reason for worker, trouble in troubles.items()} == {3: "its Python is gone"}
    world.round()
    assert world.jobs == [[3]]


def test_several_silent_workers_are_parted(world: BackgroundWorld) -> None:
    """If the failing worker is unknown, each worker without a report gets a separate job until it is known."""
    joined(world, 2, 3)
    world.broken[2] = EpochFailed("who was it?")
    world.round()
    assert world.jobs == [[2, 3]]
    world.round()
    assert world.jobs == [[2], [3]]
    assert world.coordinator.migrations.backoff.known.keys() == {2}


def test_a_worker_that_reports_a_failure_rests(world: BackgroundWorld) -> None:
    """After its second failure a worker is left out for a while, then tried again."""
    joined(world, 2)
    world.failing[2] = "its disk is gone"
    for _ in range(2):
        world.round()
        assert world.jobs == [[2]]
    world.round()
    assert world.jobs == []
    world.clock.sleep(1.5)
    world.round()
    assert world.jobs == [[2]]


def test_no_further_job_begins_after_a_stop(world: BackgroundWorld) -> None:
    """A stop waits for the running job, and for no other job of the round."""
    joined(world, 2, 3)
    world.broken[2] = EpochFailed("who was it?")
    world.round()
    world.acts.append(world.background.stopped.set)
    world.round()
    assert world.jobs == [[2]]


def test_a_failing_round_checks_for_a_newer_driver(world: BackgroundWorld) -> None:
    """A driver that was replaced notices it at the first failure, and its rounds end permanently."""
    Log.on(world.files, world.log.format, nonce="another driver")
    joined(world, 2)
    world.failing[2] = "fenced"
    assert not world.background.attempt()
    assert isinstance(world.background.error, Fenced)
    assert world.background.stopped.is_set()


def test_an_error_that_may_pass_is_not_the_querys(world: BackgroundWorld) -> None:
    """A round that fails temporarily is planned again; a permanent failure is remembered, and the other rounds continue."""
    trouble = [StorageUnavailable("away"), LogDamaged("torn")]

    def run(pending: object) -> None:
        raise trouble.pop(0)

    world.house.run = run  # type: ignore[method-assign]
    assert not world.background.attempt()
    assert world.background.error is None
    assert not world.background.attempt()
    assert isinstance(world.background.error, LogDamaged)
    assert not world.background.stopped.is_set()


def test_rounds_go_on_until_they_are_stopped(world: BackgroundWorld) -> None:
    """Without work the loop pauses; a stop ends it, also during a pause."""
    world.clock.waits.clear()
    world.clock.on_wait = lambda: world.background.stop() if len(world.clock.waits) == 3 else None
    world.background.run()
    assert world.clock.waits == [IDLE_SECONDS] * 3


# -------------------------------------------------------------------------------------------------------- rehearsals


def test_a_new_worker_rehearses_before_its_first_bin(world: BackgroundWorld) -> None:
    """All cold workers rehearse at once; then they are warm, and the migration continues."""
    world.targets.rescale(tuple(map(Worker, range(4))))
    world.round()
    assert world.rehearsed == []
    joined(world, 2, 3)
    assert world.round()
    assert world.rehearsed == [[2, 3]]
    assert world.coordinator.migrations.warm >= {2, 3}
    world.round()
    assert world.rehearsed == []


def test_the_one_that_cannot_rehearse_is_found(world: BackgroundWorld) -> None:
    """After a failed rehearsal each worker has its own; workers that succeed are warm then."""
    migration = world.targets.rescale(tuple(map(Worker, range(4))))
    joined(world, 2, 3)
    world.unfit[3] = UserFunctionFailed("no module named x")
    rounds = []
    for _ in range(3):
        world.round()
        world.clock.sleep(60.0)
        rounds.append(list(world.rehearsed))
    assert rounds == [[[2, 3]], [[2], [3]], [[3]]]
    assert world.coordinator.migrations.warm == {0, 1, 2}
    assert migration.status == "cancelled"
    assert migration.reason == "worker 3 cannot run an epoch: no module named x"


def test_a_worker_that_may_get_well_is_tried_more_often(world: BackgroundWorld) -> None:
    """A lost executor or an unavailable store: seven attempts, with growing pauses between them."""
    migration = world.targets.rescale(tuple(map(Worker, range(3))))
    joined(world, 2)
    world.unfit[2] = EpochFailed("lost")
    tries = 0
    for _ in range(100):
        world.round()
        tries += len(world.rehearsed)
        world.clock.sleep(0.5)
    assert tries == 7
    assert migration.status == "cancelled"


def test_tries_are_counted_from_the_last_good_rehearsal(world: BackgroundWorld) -> None:
    """A worker whose rehearsal succeeds in the end gets its bins."""
    migration = world.targets.rescale(tuple(map(Worker, range(3))))
    joined(world, 2)
    world.unfit[2] = UserFunctionFailed("not yet")
    for _ in range(2):
        world.round()
        world.clock.sleep(60.0)
    world.unfit.clear()
    world.round()
    assert world.coordinator.migrations.warm == {0, 1, 2}
    assert not migration.ended


# ----------------------------------------------------------------------------------------------------------- giving up


def test_a_migration_waits_for_its_workers_for_a_while(world: BackgroundWorld) -> None:
    """A migration waits for the executor of a new worker for a minute; then it ends and names the missing worker, which gets its bins when it comes."""
    migration = world.targets.rescale(tuple(map(Worker, range(3))))
    for _ in range(61):
        world.round()
        assert not migration.ended
        world.clock.sleep(1.0)
    world.round()
    assert migration.status == "cancelled"
    assert migration.reason == "worker 2 has no executor after 60 s; its bins move when it has one"
    joined(world, 2)
    world.round()
    again = [*world.coordinator.migrations.history][-1]
    assert (again is not migration, again.request.workers) == (True, migration.request.workers)


def test_the_wait_for_a_worker_restarts_when_it_registers(world: BackgroundWorld) -> None:
    """The waiting time counts from when the worker was last registered."""
    migration = world.targets.rescale(tuple(map(Worker, range(3))))
    for number in range(100):
        if number == 50:
            joined(world, 2)
            world.unfit[2] = EpochFailed("lost")
        if number == 51:
            del world.executors[Worker(2)]
        world.round()
        world.clock.sleep(1.0)
    assert not migration.ended


# ------------------------------------------------------------------------------------------------------- after a round


def test_the_log_is_kept_short(world: BackgroundWorld) -> None:
    """A manifest is written when it is due, and the next record names it; also after a failed round."""
    for number in (2, 3):
        world.epoch(number)
    world.broken[0] = Fenced("replaced")
    world.background.attempt()
    assert world.house.manifest == 3
    world.epoch(4)
    assert world.log.index.manifests[-1] == 3


def test_an_idle_stream_is_woken_for_a_flip(world: BackgroundWorld) -> None:
    """When bins are ready to move, an epoch is requested, unless one is running."""
    world.targets.rescale((Worker(0),), strategy="AllAtOnce", pre_copy=False)
    world.loop.in_epoch.set()
    world.round()
    assert world.wakes == []
    world.loop.in_epoch.clear()
    world.round()
    assert world.wakes == [False]


def test_an_idle_stream_sleeps(world: BackgroundWorld) -> None:
    """If nothing moves, no epoch is requested."""
    for _ in range(3):
        world.round()
    assert world.wakes == []
