"""The background of one query: rounds on a real coordinator and log, with jobs that do what a script says."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import pytest
from epoch_world import EpochWorld

from binshift.engine.housekeeping import Housekeeping
from binshift.model import Epoch, Worker
from binshift.protocol.spec import BackgroundReport, BackgroundSpec
from binshift.spark import mover as movers
from binshift.spark.mover import Mover

Act = Callable[[], object]


class BackgroundWorld(EpochWorld):
    """See the module.

    Attributes:
        jobs: the workers of each job of a round, in order.
        rehearsed: the workers of each rehearsal, in order.
        broken: what a worker's part of a job raises; nobody of that job has reported then.
        unfit: what a rehearsal with that worker raises.
        nudges: how often an epoch without input was asked for.
    """

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        super().__init__(patch)
        self.jobs: list[list[int]] = []
        self.rehearsed: list[list[int]] = []
        self.broken: dict[int, Exception] = {}
        self.failing: dict[int, str] = {}
        self.unfit: dict[int, Exception] = {}
        self.acts: deque[Act] = deque()
        self.nudges = 0
        self.house = Housekeeping(self.log, 2, 2, self.clock)
        for number in range(2):
            self.epoch(number)
        self._make_background(patch)

    def round(self) -> bool:
        """One round; whether there was anything to do."""
        self.jobs.clear()
        self.rehearsed.clear()
        return self.background._round()

    def attempt(self) -> bool:
        """One turn of the thread's loop: a round, and what becomes of its error."""
        try:
            return self.round()
        except Exception as error:  # as the thread does
            return self.background._failed(error)

    def _nudged(self) -> None:
        self.nudges += 1

    def _job(self, specs: Sequence[BackgroundSpec], report: Callable[[BackgroundReport], None]) -> None:
        workers = [spec.worker for spec in specs]
        self.jobs.append(list(map(int, workers)))
        if self.acts:
            self.acts.popleft()()
        for spec in specs:
            if spec.worker in self.broken:
                raise self.broken[spec.worker]
            copies = {int(b): int(order.epoch) for order in spec.copies for b in order.bins}
            failed = self.failing.get(spec.worker)
            report(BackgroundReport(spec.operator, spec.worker, None if failed else copies, failed=failed, seconds=1.0))

    def _rehearsal(self, workers: Sequence[Worker]) -> None:
        self.rehearsed.append(sorted(map(int, workers)))
        for worker in workers:
            if worker in self.unfit:
                raise self.unfit[worker]

    # ------------------------------------------------------------------------------------ what stands for Spark

    def _make_background(self, patch: pytest.MonkeyPatch) -> None:
        world = self

        class Faked(Mover):
            def _execute(self, specs: Any, executors: Any, reports: list[BackgroundReport]) -> None:
                world._job(specs, reports.append)

            def warm(self, executors: Mapping[Worker, Any]) -> None:
                world._rehearsal(list(executors))

        patch.setattr(movers, "made_up", lambda spark, schema: None)
        patch.setattr(movers, "inheritable_thread_target", lambda spark: lambda function: function)
        patch.setattr(movers, "time", SimpleNamespace(monotonic=self.clock))
        session = SimpleNamespace(conf=SimpleNamespace(set=lambda key, value: None))
        view: Any = SimpleNamespace(executors=lambda: dict(self.executors))
        nothing: Any = None
        self.in_epoch = threading.Event()
        self.background = Faked(
            nothing,
            self.coordinator,
            nothing,
            view,
            SimpleNamespace(cloned=lambda spark: session),  # type: ignore[arg-type]
            nothing,
            self.steering,
            self.house,
            nothing,
            self._nudged,
            self.in_epoch,
            nothing,
            60.0,
        )


def last(world: BackgroundWorld) -> Epoch:
    """The newest recorded epoch."""
    return world.coordinator.last
