"""Both loops of the engine, on the simulator, at their limits of time and number: bounds, waits, attempts, pace.

The random histories run the same code, but rarely up to its limits. Each story here reaches one of them.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest

from binshift.errors import BinshiftError, EpochFailed, Fenced, TaskFailed
from binshift.migration import Limits
from binshift.model import Worker
from simulator import Effect, Meanwhile, SimulatedCluster, Totals, Tuning
from simulator.clock import ManualClock

pytestmark = pytest.mark.oracle

FAILURES = 40
"""More than any bound."""
WAITS_MAX = 10_000


class Waiting(ManualClock):
    """A clock with a limit on waits, and with scheduled events."""

    def __init__(self, at: float = 0.0, act: Callable[[], object] = lambda: None) -> None:
        super().__init__()
        self.at, self.act, self.waits = at, act, 0

    def sleep(self, seconds: float) -> None:
        super().sleep(seconds)
        self.waits += 1
        assert self.waits < WAITS_MAX, "a thread waits forever"
        if self.at and self.now >= self.at:
            self.at = 0.0
            self.act()


def rows(epoch: int, keys: int = 12) -> list[dict[str, object]]:
    """A row for each key."""
    return [{"key": f"k{n}", "value": epoch, "time": 700 * epoch} for n in range(keys)]


def begun(tuning: Tuning, epochs: int = 3, **options: object) -> SimulatedCluster:
    """A cluster of two workers with bins and three machines."""
    made = SimulatedCluster(Totals(), **{"bins": 8, "workers": 2, "slots": 3, "tuning": tuning, **options})  # type: ignore[arg-type]
    made.world.clock = Waiting()
    for number in range(epochs):
        made.epoch(rows(number))
        made.background()
    return made


def failing(cluster: SimulatedCluster, error: type[BinshiftError]) -> list[str]:
    """Let many summaries fail with this error; returns the runs, as they begin."""
    runs, left = list[str](), FAILURES

    def fail() -> None:
        raise error("the disk is unavailable")

    def plan(effect: Effect) -> Meanwhile | None:
        nonlocal left
        if effect.what.startswith("starting run"):
            runs.append(effect.what)
        if not effect.what.startswith("sending its summary") or not left:
            return None
        left -= 1
        return fail

    cluster.world.faults.plan = plan
    return runs


def test_an_epoch_that_never_succeeds_ends() -> None:
    """After the allowed number of runs the query ends with the reason; its next driver runs the epoch."""
    cluster = begun(Tuning(attempts_max=6))
    runs = failing(cluster, EpochFailed)
    with pytest.raises(EpochFailed, match=r"failed 6 times.*the disk is unavailable"):
        cluster.epoch(rows(3))
    assert len(runs) == 6
    cluster.world.faults.plan = lambda effect: None
    cluster.epoch(rows(4))


def test_a_task_that_always_fails_ends_the_query() -> None:
    """A failure not caused by binshift or a lost executor is tried four times, whatever number of runs is allowed."""
    cluster = begun(Tuning())
    runs = failing(cluster, TaskFailed)
    with pytest.raises(TaskFailed, match="the disk is unavailable"):
        cluster.epoch(rows(3))
    assert len(runs) == 4
    cluster.world.faults.plan = lambda effect: None
    cluster.epoch(rows(4))


def test_a_worker_that_comes_back_in_time_keeps_its_bins() -> None:
    """An epoch waits for it, and no other worker takes over."""
    cluster = begun(Tuning(take_over=True, lost_worker_seconds=30.0))
    clock = cluster.world.clock = Waiting()
    cluster.restart_driver()
    cluster.epoch(rows(3))
    cluster.away(1)
    clock.at, clock.act = clock.now + 20.0, lambda: cluster.back(1)
    cluster.epoch(rows(4))
    assert clock.at == 0.0
    assert cluster.route is not None
    assert cluster.route.workers == (0, 1)


def test_others_take_over_from_a_worker_that_stays_away() -> None:
    """After the time-out the epoch continues without it; once it has returned, it gets its share again."""
    cluster = begun(Tuning(take_over=True, lost_worker_seconds=30.0))
    cluster.away(1)
    before = cluster.world.clock.now
    cluster.epoch(rows(3))
    assert 30.0 < cluster.world.clock.now - before < 31.0
    assert cluster.route is not None
    assert list(cluster.route.workers) == [0]
    cluster.back(1)
    cluster.settle()
    assert list(cluster.route.workers) == [0, 1]


def test_a_worker_that_cannot_rehearse_gets_no_bins() -> None:
    """After three attempts the migration to it ends with the reason, and the healthy workers keep the bins."""
    cluster = begun(Tuning())
    cluster.world.machines[Worker(2)].unfit = "no module named x"
    migration = cluster.rescale(3)
    cluster.settle()
    assert migration.status == "cancelled"
    assert migration.reason == "worker 2 cannot run an epoch: no module named x"
    assert cluster.route is not None
    assert cluster.route.workers == (0, 1)
    cluster.world.machines[Worker(2)].unfit = ""
    again = cluster.rescale(3)
    cluster.settle()
    assert again.status == "settled"


def test_a_migration_to_a_worker_that_never_comes_ends() -> None:
    """After a minute it ends with the name of the missing worker, and moves nothing."""
    cluster = begun(Tuning(executor_wait_seconds=60.0))
    cluster.away(2)
    before = cluster.world.clock.now
    migration = cluster.rescale(3)
    cluster.settle()
    assert migration.reason == "worker 2 has no executor after 60 s; its bins move when it has one"
    assert 60.0 < cluster.world.clock.now - before < 65.0


def test_slow_flips_become_smaller() -> None:
    """If a flip makes an epoch slower than the aim, fewer bins flip in the following ones."""
    limits = Limits(steps_inflight_max=32, flips_per_epoch_max=8)
    tuning = Tuning(epoch_seconds=0.1, flip_seconds=0.1, limits=limits)
    cluster = begun(tuning, 8, bins=512, workers=1, slots=2)
    migration = cluster.rescale(2, "Batched", batch_size=4)
    cluster.settle()
    assert migration.status == "settled"
    owners = cluster.witness.owners
    flipped = [sum(a != b for a, b in zip(*pair, strict=True)) for pair in itertools.pairwise(owners)]
    flips = [bins for bins in flipped if bins]
    assert cluster.driver.migrations.pacer.pace.bins_per_flip < max(flips), flips
    assert max(flips[len(flips) // 2 :]) < max(flips), flips


def test_a_driver_that_slept_while_it_planned_writes_nothing() -> None:
    """It finds that another one has taken over, before its sink takes a row."""
    cluster = begun(Tuning())

    def sleep() -> None:
        cluster.take_over()
        cluster.world.clock.sleep(10.0)

    def plan(effect: Effect) -> Meanwhile | None:
        return sleep if effect.process.name == "driver 1" and effect.what.startswith("starting run") else None

    cluster.world.faults.plan = plan
    cluster.epoch(rows(3))
    assert [type(end) for end in cluster.ends] == [Fenced]
    assert cluster.world.stream.deliveries[3] == 1  # type: ignore[index]


def test_what_a_stream_owes_is_paid() -> None:
    """A stream that runs the available input and then ends runs one more epoch for the closed groups, and no further one."""
    flow = Totals("windows", window_ms=2_000, delay_ms=0)
    cluster = SimulatedCluster(flow, workers=2)
    stream = cluster.world.stream
    cluster.epoch(rows(0))
    assert not stream.final_epoch_required
    cluster.epoch(rows(9))
    assert stream.final_epoch_required
    cluster.epoch()
    assert not stream.final_epoch_required
    assert stream.batches[-1].watermark_ms == stream.watermark_ms


LOOP_STORIES: tuple[Callable[[], None], ...] = (
    test_an_epoch_that_never_succeeds_ends,
    test_a_task_that_always_fails_ends_the_query,
    test_a_worker_that_comes_back_in_time_keeps_its_bins,
    test_others_take_over_from_a_worker_that_stays_away,
    test_a_worker_that_cannot_rehearse_gets_no_bins,
    test_a_migration_to_a_worker_that_never_comes_ends,
    test_slow_flips_become_smaller,
    test_a_driver_that_slept_while_it_planned_writes_nothing,
    test_what_a_stream_owes_is_paid,
)
"""The stories that the broken variants of the loops are tried on."""
