"""The cases of the fault campaign, by fault, victim and point, and how a case is run.

A case holds the process that reaches a point, then kills the victim, or suspends it for longer than every timeout and resumes
it. Dead processes are restarted, as by a supervisor. The rest is the same for all cases: some more epochs, each of them
compared with the reference.
"""

from __future__ import annotations

import itertools
import signal
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from faults_world import PATIENCE_SECONDS, POLL_SECONDS, World, send
from process_tree import command_line, descendants

from binshift.model import Worker

EPOCHS_AFTER = 3
CALM_EPOCHS = 20
SLOW = 2.0
"""An epoch is slow if it takes this many times as long as a calm one."""

TASK_POINTS = (
    *("epoch.fenced", "sink.middle", "delta.before", "delta.after", "commit.before", "commit.answered"),
    *("commit.inside", "commit.after"),
)
DRIVER_POINTS = (*("epoch.planned", "sink.before", "sink.after", "record.before", "record.after", "epoch.recorded"),)
MOVE_POINTS = ("copy.before", "copy.after", "catchup.before", "flip.planned", "retire.before", "retire.between")
HOUSE_POINTS = (
    *("snapshot.before", "snapshot.after", "manifest.before", "manifest.after"),
    *("retention.before", "retention.between"),
)
FILE_POINTS = ("publish.before", "publish.chosen", "publish.between", "publish.after")
"""Only if results are files."""
POINTS = (*TASK_POINTS, *DRIVER_POINTS, *MOVE_POINTS, *HOUSE_POINTS)
VICTIMS = ("python", "executor", "worker", "driver", "master", "all")
STOPPED = ("python", "machine", "worker", "driver")
"""Victims to suspend instead; a machine is an executor with its Python processes."""
GIVEN_UP = "because we got no heartbeat"
"""The master's message about a worker that it considers lost."""


class Case(NamedTuple):
    """One fault."""

    point: str
    victim: str
    stop: bool = False

    def __str__(self) -> str:
        return f"{self.point}, {self.victim} {'stopped' if self.stop else 'killed'}"


class Cost(NamedTuple):
    """The cost of a case.

    Attributes:
        epochs: the number of slow ones until an epoch was as fast as before.
        silence: the longest time between two commits, seconds.
        runs: the most runs of one epoch.
        restarts: the restarts of the driver.
        seconds: the duration of the whole case.
    """

    epochs: int
    silence: float
    runs: int
    restarts: int
    seconds: float


@dataclass
class Played:
    """A case and its result; a wrong result raises."""

    case: Case
    cost: Cost


def play(world: World, case: Case) -> Played:
    """Run one case on a running world."""
    begun = time.monotonic()
    starts = world.starts
    world.arm(case.point)
    provoke(world, case.point)
    world.until(lambda: bool(world.held()), f"a process reaches {case.point}")
    (held,) = world.held()
    struck = time.time()
    victims = victims_of(world, case.victim, held)
    if case.stop:
        freeze(world, case, victims)
    else:
        send(signal.SIGKILL, victims)
        world.release()
        # Only now: a supervisor does not know in advance what else is about to die.
        wait_dead(victims)
    world.until(lambda: not unsettled(world), "moves end")
    world.advance(EPOCHS_AFTER)
    return Played(case, cost(world, struck, world.starts - starts, time.monotonic() - begun))


def provoke(world: World, point: str) -> None:
    """Request moves; everything else happens by itself."""
    if point in MOVE_POINTS:
        world.rescale(2 if len(world.status()["workers"]) == 3 else 3)


def victims_of(world: World, victim: str, held: int) -> list[int]:
    """The victims: the processes of the held slot, or of slot 0 if the driver is held."""
    slot = slot_of(world, held)
    cluster = world.cluster
    match victim:
        case "python":
            return [held] if slot is not None else cluster.python_pids(Worker(0))[-1:]
        case "executor":
            return cluster.executor_pids(slot or Worker(0))
        case "machine":
            return [*cluster.executor_pids(slot or Worker(0)), *cluster.python_pids(slot or Worker(0))]
        case "worker":
            return cluster.worker_pids(slot or Worker(0))
        case "driver":
            return world.driver_pids()
        case "master":
            return cluster.master_pids()
        case _:
            every = [Worker(worker) for worker in range(cluster.workers)]
            below = [pid for worker in every for pid in cluster.worker_pids(worker)]
            return [*world.driver_pids(), *cluster.master_pids(), *below, *(p for b in below for p in descendants(b))]


def slot_of(world: World, pid: int) -> Worker | None:
    """The worker whose task runs in a process; None for the driver's."""
    for worker in range(world.cluster.workers):
        if pid in world.cluster.python_pids(Worker(worker)):
            return Worker(worker)
    return None


def wait_dead(pids: list[int]) -> None:
    """Wait until none of them is alive (a process that waits for its parent has no command line)."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while any(command_line(pid) for pid in pids):
        assert time.monotonic() < deadline, "a killed process is alive"
        time.sleep(POLL_SECONDS)


def freeze(world: World, case: Case, victims: list[int]) -> None:
    """Suspend the victims, let the rest of the world continue past every timeout, and resume them."""
    send(signal.SIGSTOP, victims)
    world.release()
    match case.victim:
        case "driver":
            overtake(world, victims)
        case "python":
            hold_still(world.conf["tester"]["python_seconds"])
            send(signal.SIGCONT, victims)
        case _:
            if case.victim == "worker":  # its executor continues until the master notifies the driver
                given_up = world.cluster.master_log.count(GIVEN_UP)
                world.until(lambda: world.cluster.master_log.count(GIVEN_UP) > given_up, "the master gives it up")
            before = world.published()
            patience = world.conf["tester"]["frozen_seconds"]
            until_or(lambda: world.published() >= before + EPOCHS_AFTER, patience, world.repair)
            send(signal.SIGCONT, victims)


def overtake(world: World, frozen: list[int]) -> None:
    """Another driver takes over while the first one is suspended; then that one resumes, and must stop by itself."""
    old, world.program = world.program, None
    assert old is not None
    before = world.published()
    world.until(lambda: world.published() >= before + EPOCHS_AFTER, "another driver takes over")
    send(signal.SIGCONT, frozen)
    until_or(lambda: old.poll() is not None, PATIENCE_SECONDS, world.repair)
    assert old.poll() is not None, "the replaced driver continues"


def until_or(wanted: Callable[[], bool], seconds: float, meanwhile: Callable[[], None]) -> None:
    """Wait until a condition holds, or for this many seconds."""
    deadline = time.monotonic() + seconds
    while not wanted() and time.monotonic() < deadline:
        meanwhile()
        time.sleep(POLL_SECONDS)


def hold_still(seconds: float) -> None:
    """Suspend a process for this long: the delay itself is the fault."""
    until_or(lambda: False, seconds, lambda: None)


def unsettled(world: World) -> bool:
    """Whether bins move, or may begin to."""
    status = world.status()
    return status["epoch"] < 0 or any(each not in ("settled", "cancelled", "failed") for each in status["migrations"])


def cost(world: World, struck: float, restarts: int, seconds: float) -> Cost:
    """The cost, from the program's own timings."""
    timings = world.timings()
    before = [each for each in timings if each["at"] <= struck][-CALM_EPOCHS:]
    after = [each for each in timings if each["at"] > struck]
    calm = statistics.median([each["seconds"] for each in before]) if before else 0.0
    commits = [each["at"] for each in (before[-1:] + after)]
    gaps = [late - early for early, late in itertools.pairwise(commits)]
    slow = 0
    for gap, each in zip(gaps, after[-len(gaps) :] if gaps else [], strict=False):
        if max(gap - world.trigger_seconds, each["seconds"]) <= SLOW * max(calm, world.trigger_seconds):
            break
        slow += 1
    runs = max((int(each["runs"]) for each in after), default=1)
    return Cost(slow, round(max(gaps, default=0.0), 2), runs, restarts, round(seconds, 1))
