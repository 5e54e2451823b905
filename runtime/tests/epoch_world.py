"""One query's epochs, with a real coordinator and log, and jobs that do what a script says.

Time is simulated: it moves when somebody waits, and when a job takes a while.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest

from binshift.engine.coordinator import Coordinator
from binshift.engine.migrations import Request, Terms
from binshift.engine.movement import Movement
from binshift.engine.steering import Steering
from binshift.log.formats import LogFormat, OperatorFormat
from binshift.log.log import Log
from binshift.model import Epoch, Stamp, Worker
from binshift.protocol.spec import EpochSpec, Summary
from binshift.spark import attendance as attendances
from binshift.spark import runner as runners
from binshift.spark.attendance import Attendance
from binshift.spark.executors import Executor
from binshift.spark.offsets import BatchOffsets
from binshift.spark.runner import Runner
from binshift.testing.clock import ManualClock
from binshift.testing.faulty import Files

OPERATOR = "state"
ATTEMPTS_MAX = 6
WAIT_SECONDS, LOST_SECONDS = 60.0, 30.0
WATERMARK_MS = 500

Act = Callable[[], object]
"""What a run does before its tasks report; may raise."""


@dataclass(frozen=True)
class Run:
    """One run of an epoch, as its job got it.

    Attributes:
        number: of the run.
        workers: that take part.
        brought_up: those that got files to bring their bins up from.
        on: the executor of each worker's part.
        readers: executors that the batch's own tasks are pinned to; None: Spark's choice.
    """

    number: int
    workers: tuple[int, ...]
    brought_up: frozenset[int]
    on: tuple[str, ...]
    readers: tuple[str, ...] | None
    replay: bool


class StopEvent(threading.Event):
    """An event on the simulated clock: waiting for it takes no time."""

    def __init__(self, clock: ManualClock) -> None:
        super().__init__()
        self.clock = clock
        self.waits: list[float] = []

    def wait(self, timeout: float | None = None) -> bool:
        assert timeout is not None
        self.waits.append(timeout)
        self.clock.sleep(timeout)
        return self.is_set()


class EpochWorld:
    """See the module.

    Attributes:
        script: what the coming runs do; after its end they do nothing special.
        planning: how long planning the coming runs takes, in seconds.
        runs: what the jobs got.
        published: epochs whose results readers see.
        wakes: watermarks with which one more epoch was asked for.
        lost: workers whose bins were given to others.
    """

    def __init__(self, patch: pytest.MonkeyPatch, workers: int = 2, files: Files | None = None, term: int = 1) -> None:
        self.clock = ManualClock()
        self.script: deque[Act | Exception] = deque()
        self.planning: deque[float] = deque()
        self.offsets: deque[Exception] = deque()
        self.runs: list[Run] = []
        self.published: list[int] = []
        self.wakes: list[int] = []
        self.on_poll: Act = lambda: None
        self.watermark_ms = WATERMARK_MS
        self.executors = {Worker(w): executor(w, 1) for w in range(workers)}
        self.files = files or Files()
        format = LogFormat(bins=8, query="q", operators=(OperatorFormat(OPERATOR, "f"),))
        self.log = Log.on(self.files, format, nonce=f"driver {term}")
        movement = Movement(Terms(8, workers), [OPERATOR], self.log.term, self.clock)
        self.coordinator = Coordinator(self.log, 8, [OPERATOR], movement)
        self.steering = Steering(self.log, self.coordinator, Request(batch_size=8))
        self.measured: list[float] = []
        measured = self.coordinator.measured

        def measure(seconds: float, plan: Any) -> None:
            self.measured.append(seconds)
            measured(seconds, plan)

        patch.setattr(self.coordinator, "measured", measure)
        movement.warmed(frozenset(self.executors))
        self._make(patch)

    def epoch(self, number: int) -> None:
        """One call of `foreachBatch`."""
        self.runs.clear()
        self.loop.epoch("a batch", number)  # type: ignore[arg-type]

    def restarted(self, patch: pytest.MonkeyPatch) -> EpochWorld:
        """The next driver on the same log."""
        return EpochWorld(patch, len(self.executors), self.files, self.log.term + 1)

    def replaced(self, worker: int) -> None:
        """The executor of a worker is another one now."""
        before = int(self.executors[Worker(worker)].id.partition(".")[2])
        self.executors[Worker(worker)] = executor(worker, before + 1)

    def _read(self, epoch: Epoch) -> BatchOffsets:
        if self.offsets:
            raise self.offsets.popleft()
        return BatchOffsets(1000 * epoch, self.watermark_ms, f"input {epoch}")

    def _summaries(self, specs: Sequence[EpochSpec]) -> list[Summary]:
        return [self._summary(spec) for spec in specs]

    def _summary(self, spec: EpochSpec) -> Summary:
        stamp = Stamp(spec.epoch, f"{spec.run_prefix}{spec.worker}") if spec.replay is None else spec.replay.stamp
        return Summary(spec.fence, spec.operator, spec.worker, stamp, None, 5, 1, 0, {})

    # ------------------------------------------------------------------------------------ what stands for Spark

    def _make(self, patch: pytest.MonkeyPatch) -> None:
        time = SimpleNamespace(
            monotonic=self.clock, perf_counter=self.clock, time=lambda: 1000.0 + self.clock(), sleep=self._poll
        )
        patch.setattr(runners, "time", time)
        patch.setattr(attendances, "time", time)
        patch.setattr(runners, "timings_of", _timings)
        patch.setattr(runners, "collecting", _collecting)
        view: Any = SimpleNamespace(executors=lambda: dict(self.executors))
        attendance = Attendance(self.coordinator, view, self.steering.lost, WAIT_SECONDS, LOST_SECONDS)
        nothing: Any = SimpleNamespace()
        nothing.sparkContext = SimpleNamespace(setLocalProperty=lambda key, value: None)
        self.loop = _Faked(
            nothing,
            self.coordinator,
            SimpleNamespace(route=self._routed),  # type: ignore[arg-type]
            view,
            SimpleNamespace(pinned=lambda batch, locations: tuple(locations)),  # type: ignore[arg-type]
            SimpleNamespace(query="q"),  # type: ignore[arg-type]
            self._read,
            self._sink(),
            SimpleNamespace(over=lambda kind, executors: nullcontext()),  # type: ignore[arg-type]
            attendance,
            self.wakes.append,
            ATTEMPTS_MAX,
        )
        self.loop._prepared = True
        self.loop.stopping = StopEvent(self.clock)

    @property
    def stopping(self) -> StopEvent:
        """Set once the query is to stop; notes how long was waited for it."""
        stopping = self.loop.stopping
        assert isinstance(stopping, StopEvent)
        return stopping

    def _poll(self, seconds: float) -> None:
        self.clock.sleep(seconds)
        self.on_poll()

    def _routed(self, batch: Any, route: Any, workers: Any) -> Any:
        if self.planning:
            self.clock.sleep(self.planning.popleft())
        return batch

    def _sink(self) -> Any:
        def write(result: Any, epoch: Epoch, time_ms: int) -> None:
            readers, plan, specs, on, collected = result
            self.runs.append(
                Run(
                    specs[0].fence.run,
                    plan.workers,
                    frozenset(spec.worker for spec in specs if spec.bring_up is not None),
                    tuple(on[worker].id for worker in plan.workers),
                    None if readers == "a batch" else tuple(each.rpartition("_")[2] for each in readers),
                    plan.replay is not None,
                )
            )
            act = self.script.popleft() if self.script else None
            if isinstance(act, Exception):
                raise act
            if act is not None:
                act()
            collected.value.extend(self._summaries(specs))

        made: Any = write
        made.publish = self.published.append
        return made


class _Faked(Runner):
    def _result(self, *parts: Any) -> Any:
        return parts


@contextmanager
def _collecting(context: Any) -> Iterator[Any]:
    yield SimpleNamespace(value=[])


def _timings(plan: Any, run: int, summaries: Any, seconds: Any, record: float, started: float) -> Any:
    from binshift.spark.timings import EpochTimings

    return EpochTimings(plan.epoch, 0.0, run + 1, dict(seconds) | {"total": 1.0}, 0, 0, len(plan.moves))


def executor(worker: int, generation: int) -> Executor:
    """An executor of a worker."""
    return Executor(f"{worker}.{generation}", f"host-{worker}", 2)
