"""One query's epochs, with a real coordinator and log, and scripted jobs.

Time is simulated: it advances when a thread waits, and while a job runs.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

from binshift.engine.coordinator import Coordinator
from binshift.engine.epoch_loop import EpochLoop
from binshift.engine.epoch_plan import BatchOffsets, EpochPlan
from binshift.engine.executor_wait import EpochLimits
from binshift.engine.housekeeping import Housekeeping
from binshift.engine.migration_controller import MigrationController
from binshift.engine.migration_options import MigrationOptions
from binshift.engine.migrations import MigrationPolicy
from binshift.engine.ports import Executor, Placement, Ports
from binshift.engine.target_controller import TargetController
from binshift.log.log import Log
from binshift.log.records.formats import LogFormat, OperatorFormat
from binshift.model import Epoch, Stamp, Worker
from binshift.worker.messages import EpochSpec, Summary
from simulator.clock import ManualClock
from simulator.faulty import Files

OPERATOR = "state"
ATTEMPTS_MAX = 6
WAIT_SECONDS, LOST_SECONDS = 60.0, 30.0
WATERMARK_MS = 500

Act = Callable[[], object]
"""What a run does before its tasks report; it may raise."""


@dataclass(frozen=True)
class Run:
    """One run of an epoch, as its job received it.

    Attributes:
        number: the run's number.
        workers: the workers that take part.
        brought_up: the workers that got files to bring their bins up from.
        on: the executor of each worker's part.
        readers: executors that the batch's own tasks are pinned to; empty means any.
    """

    number: int
    workers: tuple[int, ...]
    brought_up: frozenset[int]
    on: tuple[str, ...]
    readers: tuple[str, ...]
    replay: bool


class WatchedClock(ManualClock):
    """A clock that records waits, and runs scripted changes during them."""

    def __init__(self) -> None:
        super().__init__()
        self.waits: list[float] = []
        self.on_wait: Act = lambda: None

    def wait(self, event: threading.Event, seconds: float) -> bool:
        self.waits.append(seconds)
        self.on_wait()
        return super().wait(event, seconds)


class EpochWorld:
    """See the module.

    Attributes:
        script: the actions of the coming runs; runs after its end do nothing special.
        planning: how long planning of the coming runs takes, in seconds.
        runs: what the jobs received.
        published: the epochs whose results readers see.
        wakes: for each requested epoch, whether it was a final one.
        woken_at: the times at which epochs were requested.
        due: when bins of workers need an epoch, as their tasks report it.
        without_input: epochs that keep the time of the one before.
        unreadable: the errors of the coming reads of offsets.
    """

    def __init__(self, workers: int = 2, files: Files | None = None, term: int = 1) -> None:
        self.clock = WatchedClock()
        self.script: deque[Act | Exception] = deque()
        self.planning: deque[float] = deque()
        self.unreadable: deque[Exception] = deque()
        self.runs: list[Run] = []
        self.published: list[int] = []
        self.wakes: list[bool] = []
        self.woken_at: list[int | None] = []
        self.due: dict[Worker, int] = {}
        self.watermark_ms = WATERMARK_MS
        self.without_input: set[int] = set()
        self.next_watermark: int | None = WATERMARK_MS + 1
        self.executors = {Worker(w): executor(w, 1) for w in range(workers)}
        self.files = files or Files()
        format = LogFormat(bins=8, query="q", operators=(OperatorFormat(OPERATOR, "f"),))
        self.log = Log.on(self.files, format, nonce=f"driver {term}")
        migrations = MigrationController(MigrationPolicy(8, workers), [OPERATOR], self.log.term, self.clock)
        self.house = Housekeeping(self.log, 2, 2, self.clock)
        self.coordinator = Coordinator(self.log, [OPERATOR], migrations, self.house)
        self.targets = TargetController(self.log, self.coordinator, MigrationOptions(batch_size=8))
        migrations.mark_warm(frozenset(self.executors))
        limits = EpochLimits(ATTEMPTS_MAX, WAIT_SECONDS, LOST_SECONDS)
        jobs: Any = SimpleNamespace(epoch=self.run_epoch, publish=self.publish, working=self.working)
        self.loop = EpochLoop[str](
            self.coordinator, Ports(self, jobs, self, self.clock), self.targets.replace_lost, limits
        )

    def epoch(self, number: int) -> None:
        """One batch of the stream."""
        self.runs.clear()
        self.loop.run("a batch", Epoch(number))

    def restarted(self) -> EpochWorld:
        """The next driver on the same log."""
        return EpochWorld(len(self.executors), self.files, self.log.term + 1)

    def replaced(self, worker: int) -> None:
        """The executor of a worker is replaced."""
        before = int(self.executors[Worker(worker)].id.partition(".")[2])
        self.executors[Worker(worker)] = executor(worker, before + 1)

    # -------------------------------------------------------------------------------------------------- the ports

    def alive(self) -> Mapping[Worker, Executor]:
        return dict(self.executors)

    def offsets(self, epoch: Epoch) -> BatchOffsets:
        if self.unreadable:
            raise self.unreadable.popleft()
        return BatchOffsets(1000 * epoch, self.watermark_ms, f"input {epoch}", keeps_time=epoch in self.without_input)

    def next_watermark_ms(self) -> int | None:
        return self.next_watermark

    def wake(self, *, final: bool) -> None:
        self.wakes.append(final)

    def wake_at(self, time_ms: int | None) -> None:
        self.woken_at.append(time_ms)

    def publish(self, epoch: Epoch) -> None:
        self.published.append(epoch)

    def working(self) -> bool:
        return False

    def run_epoch(
        self, batch: str, plan: EpochPlan, specs: Sequence[EpochSpec], on: Placement, ready: Act
    ) -> Sequence[Summary]:
        if self.planning:
            self.clock.sleep(self.planning.popleft())
        ready()
        self.runs.append(
            Run(
                specs[0].fence.run,
                plan.workers,
                frozenset(spec.worker for spec in specs if spec.bring_up is not None),
                tuple(on.parts[worker].id for worker in plan.workers),
                tuple(each.id for each in on.readers),
                plan.replay is not None,
            )
        )
        act = self.script.popleft() if self.script else None
        if isinstance(act, Exception):
            raise act
        if act is not None:
            act()
        self.clock.sleep(1.0)
        return [self.summary(spec) for spec in specs]

    def summary(self, spec: EpochSpec) -> Summary:
        """The report of a task."""
        stamp = Stamp(spec.epoch, f"{spec.run_prefix}{spec.worker}") if spec.replay is None else spec.replay.stamp
        return Summary(
            spec.fence, spec.operator, spec.worker, stamp, None, 5, 1, {}, wake_at_ms=self.due.get(spec.worker)
        )


def begun(world: EpochWorld, epochs: int = 2) -> EpochWorld:
    """The query after some calm epochs."""
    for number in range(epochs):
        world.epoch(number)
    return world


def executor(worker: int, generation: int) -> Executor:
    """An executor of a worker."""
    return Executor(f"{worker}.{generation}", f"host-{worker}", 2)
