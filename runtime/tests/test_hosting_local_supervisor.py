"""The supervisor of a local run, against a fake cluster and control API; time is an input."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from binshift.control.models import Dataflow, Migration, State, Target
from binshift.control.requests import TargetRequest
from binshift.errors import BinshiftError, ControlUnreachable, MigrationRefused
from binshift.hosting.local.directory import DesiredScale, ScaleStatus
from binshift.hosting.local.supervisor import Supervisor
from binshift.model import Worker
from binshift.rescale import LOCAL_OWNER, Awaiting, Wait


@dataclass
class World:
    """Processes that register on request, a query that settles on request, and the requests received."""

    desired_scale: DesiredScale = field(default_factory=lambda: DesiredScale(1, 2))
    statuses: list[ScaleStatus] = field(default_factory=list)
    running: frozenset[Worker] = frozenset()
    starts: list[Worker] = field(default_factory=list)
    recorded: frozenset[Worker] = frozenset()
    registered: set[int] = field(default_factory=set)
    holding: list[int] = field(default_factory=lambda: [0, 1])
    target: Target | None = None
    epoch: int = 3
    error: BinshiftError | None = None
    puts: list[TargetRequest] = field(default_factory=list)
    now: float = 0.0

    def start_worker(self, worker: Worker) -> None:
        self.starts.append(worker)
        self.running |= {worker}

    def stop_worker(self, worker: Worker) -> None:
        self.running -= {worker}

    def supersede(self, generation: int) -> DesiredScale:
        self.desired_scale = DesiredScale(generation + 1, self.desired_scale.count)
        return self.desired_scale

    def request(self, count: int, above: int) -> DesiredScale:
        self.desired_scale = DesiredScale(max(self.desired_scale.generation, above) + 1, count)
        return self.desired_scale

    def set_status(self, status: ScaleStatus) -> None:
        self.statuses.append(status)

    def dataflow(self) -> Dataflow:
        if isinstance(self.error, ControlUnreachable):
            raise self.error
        return Dataflow(
            state=State.RUNNING,
            epoch=self.epoch,
            route_version=1,
            workers=self.holding,
            registered=sorted(self.registered),
            target=self.target,
        )

    def put_target(self, wanted: TargetRequest) -> Migration | None:
        self.puts.append(wanted)
        if self.error is not None:
            raise self.error
        self.set_target(wanted.owner, wanted.generation, wanted.workers, settled=False)
        return None

    def set_target(self, owner: str, generation: int, workers: list[int], *, settled: bool) -> None:
        """The target, as the control API shows it."""
        self.target = Target(
            owner=owner,
            generation=generation,
            workers=workers,
            strategy="Fluid",
            batch_size=1,
            pre_copy=True,
            latency_target_seconds=None,
            effective_workers=workers,
            settled=settled,
        )

    def settle(self) -> None:
        """Move all bins to the target's workers."""
        assert self.target is not None
        self.holding = self.target.workers
        self.set_target(self.target.owner, self.target.generation, self.target.workers, settled=True)


def supervised(world: World, *, has_api: bool = True) -> Supervisor:
    """A supervisor of that world, which is its cluster, its directory and its control API at once."""
    anything: Any = world
    return Supervisor(anything, anything, lambda: anything if has_api else None, lambda: world.now)


def settled_on(count: int, generation: int = 1) -> World:
    """A world in which ``count`` workers run, and have settled."""
    slots = list(range(count))
    world = World(
        DesiredScale(generation, count), running=frozenset(map(Worker, slots)), registered=set(slots), holding=slots
    )
    world.set_target(LOCAL_OWNER, generation, slots, settled=True)
    return world


def test_processes_start_before_there_is_a_control_api() -> None:
    """Before the program has an API, only the requested workers are started."""
    world = World()
    supervisor = supervised(world, has_api=False)
    supervisor.step()
    assert world.running == {0, 1}
    assert supervisor.step() == (Wait(Awaiting.RUNTIME),)
    assert (world.starts, world.puts) == ([0, 1], [])


def test_growing_starts_then_puts_then_settles() -> None:
    """A third worker is started, the target is set once it is registered, and after it has settled nothing is left to do."""
    supervisor = supervised(world := settled_on(2))
    assert supervisor.step() == ()
    world.desired_scale = DesiredScale(2, 3, "Batched", 16, False)
    supervisor.step()
    assert world.running == {0, 1, 2}
    assert world.statuses[-1] == ScaleStatus(2, "Registration", (2,))
    world.registered.add(2)
    supervisor.step()
    (put,) = world.puts
    assert (put.owner, put.generation, put.workers) == (LOCAL_OWNER, 2, [0, 1, 2])
    assert (put.strategy, put.batch_size, put.pre_copy) == ("Batched", 16, False)
    supervisor.step()
    assert world.statuses[-1].awaiting == "Migration"
    world.settle()
    assert supervisor.step() == ()
    assert world.statuses[-1] == ScaleStatus(2)


def test_shrinking_stops_processes_an_epoch_after_it_settled() -> None:
    """A process that is no longer wanted runs until its bins have moved and one more epoch is recorded."""
    world = settled_on(3)
    world.desired_scale = DesiredScale(2, 1)
    supervisor = supervised(world)
    supervisor.step()
    world.settle()
    supervisor.step()
    assert (set(world.running), world.statuses[-1].awaiting) == ({0, 1, 2}, "Hold")
    world.epoch += 1
    supervisor.step()
    assert world.running == {0}


def test_a_dead_process_is_started_again_with_more_patience_each_time() -> None:
    """A process that keeps dying is restarted after growing delays, and at once after it has run for a while."""
    world = settled_on(2)
    supervisor = supervised(world)
    begun = []
    for tick in range(160):
        world.now = tick / 10
        world.running = frozenset({Worker(0)})
        before = len(world.starts)
        supervisor.step()
        if len(world.starts) > before:
            begun.append(world.now)
    assert begun == [0.0, 1.0, 3.0, 7.0, 15.0]
    world.now += 1000
    world.running = frozenset({Worker(0)})
    supervisor.step()
    assert world.running == {0, 1}


def test_the_generation_of_an_earlier_run_is_outnumbered() -> None:
    """A checkpoint whose log has a newer local generation does not block a run that begins with 1."""
    world = settled_on(2)
    world.set_target(LOCAL_OWNER, 7, [0, 1, 2], settled=True)
    supervised(world).step()
    assert (world.desired_scale.generation, world.puts[-1].generation) == (8, 8)


@pytest.mark.parametrize("count", [1, 2, 4])
def test_a_newer_target_of_this_run_becomes_the_desired_scale(count: int) -> None:
    """A target set by the page is kept: its workers are started, and those beyond it end once their bins have moved."""
    supervisor = supervised(world := settled_on(3))
    supervisor.step()
    world.set_target(LOCAL_OWNER, 2, list(range(count)), settled=False)
    supervisor.step()
    assert (world.desired_scale, world.puts) == (DesiredScale(2, count), [])
    assert world.running >= set(range(count))
    world.settle()
    supervisor.step()
    world.epoch += 1
    supervisor.step()
    assert (set(world.running), world.puts) == (set(range(count)), [])


@pytest.mark.parametrize("slots", [[0, 2], list(range(201))], ids=["a gap", "too many"])
def test_a_newer_target_that_no_run_can_have_is_replaced(slots: list[int]) -> None:
    """A target with other slots than the lowest, or more than a run has, gives way to the desired scale."""
    supervisor = supervised(world := settled_on(2))
    supervisor.step()
    world.set_target(LOCAL_OWNER, 2, slots, settled=False)
    supervisor.step()
    assert (world.desired_scale, [put.workers for put in world.puts]) == (DesiredScale(3, 2), [[0, 1]])


def test_the_target_of_another_owner_is_replaced() -> None:
    """The cluster belongs to the run: a target from another owner is replaced."""
    world = settled_on(2)
    world.set_target("7d3c", 9, [0, 1, 2, 3], settled=False)
    supervised(world).step()
    assert (world.puts[-1].owner, world.puts[-1].generation) == (LOCAL_OWNER, 1)


def test_a_refused_target_is_not_requested_again() -> None:
    """A rejection by the API is reported once to the requester, and a new request is tried again."""
    world = settled_on(2)
    world.desired_scale, world.error = DesiredScale(2, 1), MigrationRefused("no")
    supervisor = supervised(world)
    supervisor.step()
    supervisor.step()
    assert (len(world.puts), world.statuses[-1]) == (1, ScaleStatus(2, refused="no"))
    world.desired_scale, world.error = DesiredScale(3, 1), None
    supervisor.step()
    assert [put.generation for put in world.puts] == [2, 3]


def test_workers_of_an_earlier_run_are_there_for_the_first_epoch_only() -> None:
    """If more workers own bins in the checkpoint than are requested, all of them are started until the query runs."""
    world = World(DesiredScale(1, 1), recorded=frozenset({Worker(0), Worker(2)}))
    away = supervised(world, has_api=False)
    away.step()
    assert world.running == {0, 2}
    world = settled_on(1)
    world.recorded = frozenset({Worker(0), Worker(2)})
    supervisor = supervised(world)
    supervisor.step()
    world.error = ControlUnreachable("away")
    supervisor.step()
    assert world.running == {0}


@pytest.mark.parametrize("count", [1, 3])
def test_nothing_moves_or_stops_while_the_api_is_away(count: int) -> None:
    """While bins are unknown, no process is stopped and no target is set."""
    world = settled_on(2)
    world.desired_scale, world.error = DesiredScale(2, count), ControlUnreachable("away")
    supervised(world).step()
    assert world.running >= {0, 1}
    assert world.puts == []
