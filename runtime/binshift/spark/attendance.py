"""Who is there for an epoch: waits for the executors of its workers, and has it go on without those that stay away.

A worker that owns no bin in the epoch is left out at once. Others are waited for; then those that are there take over their
bins or, in a replay, run their part (see `binshift.engine.absence`).
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from binshift.engine.absence import Lost, go_on_without, without_idle
from binshift.engine.coordinator import Coordinator
from binshift.engine.epochplan import EpochPlan
from binshift.errors import EpochFailed
from binshift.model import Worker
from binshift.spark.executors import Executor, ExecutorView

log = logging.getLogger(__name__)

EXECUTOR_POLL_SECONDS = 0.05


@dataclass(frozen=True)
class Attendance:
    """See the module.

    Attributes:
        coordinator: plans again.
        view: the live executors.
        lost: gives the bins of workers that stay away to those that are there.
        executor_wait_seconds: how long an epoch waits for executors when there is nobody else.
        lost_worker_seconds: how long it waits for one before it goes on without.
    """

    coordinator: Coordinator
    view: ExecutorView
    lost: Lost
    executor_wait_seconds: float = 60.0
    lost_worker_seconds: float = 30.0

    def of(
        self, plan: EpochPlan, go_on: Callable[[EpochPlan, str], None]
    ) -> tuple[EpochPlan, Mapping[Worker, Executor]]:
        """The plan to run, and all executors there are; those of the workers it needs are among them.

        Args:
            plan: of the epoch.
            go_on: called while somebody is missing; raises if the epoch shall not go on.

        Raises:
            EpochFailed: they did not come back in time, and there is nobody to take over.
        """
        started = time.monotonic()
        while True:
            executors = self.view.executors()
            alive = tuple(sorted(executors))
            plan = without_idle(plan, alive)
            missing = [w for w in plan.needed if w not in executors]
            if not missing:
                return plan, executors
            go_on(plan, f"worker {missing[0]} has no executor")
            waited = time.monotonic() - started
            if waited > self.lost_worker_seconds and executors:
                log.warning("workers %s stay away: %s go on without them", missing, list(alive))
                plan = go_on_without(self.coordinator, self.lost, plan, missing, alive)
                started = time.monotonic()
            elif waited > self.executor_wait_seconds + self.lost_worker_seconds:
                raise EpochFailed(f"no executor for worker {missing[0]} within {waited:.0f} s; none is registered")
            time.sleep(EXECUTOR_POLL_SECONDS)
