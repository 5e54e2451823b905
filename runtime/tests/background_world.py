"""The background of one query: rounds on a real coordinator and log, with scripted jobs."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

from epoch_world import WAIT_SECONDS, Act, EpochWorld

from binshift.engine.background_loop import BackgroundLoop
from binshift.engine.ports import Executor, Ports
from binshift.model import Worker
from binshift.worker.messages import BackgroundReport, BackgroundSpec


class BackgroundWorld(EpochWorld):
    """See the module.

    Attributes:
        jobs: the workers of each job of a round, in order.
        rehearsed: the workers of each rehearsal, in order.
        broken: the error of a worker's part of a job; no worker of that job has reported then.
        unfit: the error of a rehearsal with that worker.
    """

    def __init__(self) -> None:
        super().__init__()
        self.jobs: list[list[int]] = []
        self.rehearsed: list[list[int]] = []
        self.broken: dict[int, Exception] = {}
        self.failing: dict[int, str] = {}
        self.unfit: dict[int, Exception] = {}
        self.acts: deque[Act] = deque()
        for number in range(2):
            self.epoch(number)
        self.wakes.clear()
        jobs: Any = SimpleNamespace(background=self.run_background, rehearse=self.rehearse)
        ports = Ports(self, jobs, self, self.clock)
        parts = (self.coordinator, ports, self.targets, self.house, self.loop.in_epoch, WAIT_SECONDS)
        self.background = BackgroundLoop(*parts)

    def round(self) -> bool:
        """One round; whether there was work."""
        self.jobs.clear()
        self.rehearsed.clear()
        return self.background.round()

    # -------------------------------------------------------------------------------------------------- the ports

    def run_background(
        self,
        specs: Sequence[BackgroundSpec],
        on: Mapping[Worker, Executor],
        report: Callable[[BackgroundReport], None],
    ) -> None:
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

    def rehearse(self, on: Mapping[Worker, Executor]) -> None:
        self.rehearsed.append(sorted(map(int, on)))
        for worker in on:
            if worker in self.unfit:
                raise self.unfit[worker]
