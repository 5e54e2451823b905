"""Waits for the executors of an epoch's workers, and continues the epoch without lost ones.

A worker that owns no bin in the epoch is left out at once; so is one that would get its first bins in it: these stay where they
are, and move once it has returned. If all bins of the missing workers have standby copies on live workers, these
take over at once. Otherwise the epoch waits for the missing workers. If they do not return, an epoch
without a record is planned again, and other workers take over the bins. An epoch with a record (a replay) keeps the workers of
its record: route, stamps and deltas are decided. Only the output of the absent workers is missing, and the log is enough to
compute it: a live executor runs their part in a scratch store, which is discarded. The next epoch moves the bins, as after any
other loss.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from binshift.engine.coordinator import Coordinator
from binshift.engine.epoch_plan import EpochPlan
from binshift.engine.ports import Executor, Ports
from binshift.errors import EpochFailed
from binshift.model import Worker

log = logging.getLogger(__name__)

EXECUTOR_POLL_SECONDS = 0.05

Lost = Callable[[Sequence[Worker], Sequence[Worker]], object]
"""Gives the bins of some workers to the live ones; `TargetController.replace_lost`."""


def without_idle(plan: EpochPlan, alive: Sequence[Worker]) -> EpochPlan:
    """The plan without workers that are away and own no bin in the epoch: they have nothing to do in it.

    Such a worker is about to get its first bin, or gives its last one away.
    """
    kept = {*plan.route.workers, *alive}
    return plan if kept.issuperset(plan.workers) else replace(plan, workers=tuple(w for w in plan.workers if w in kept))


def only_destinations(plan: EpochPlan, away: Sequence[Worker]) -> list[Worker]:
    """The workers of ``away`` that own bins by this plan and owned none before: without a record, the plan can change."""
    if plan.before is None or plan.replay is not None:
        return []
    return [worker for worker in away if worker not in plan.before.workers]


def continue_without(
    coordinator: Coordinator, lost: Lost, plan: EpochPlan, away: Sequence[Worker], alive: Sequence[Worker]
) -> EpochPlan:
    """The plan by which an epoch continues without the workers of ``away``, whose time has expired.

    Raises:
        MigrationRefused: ``alive`` is empty.
    """
    coordinator.abandon(plan)
    lost(away, alive)
    if plan.replay is not None:
        return replace(plan, absent=plan.absent | frozenset(away))
    return coordinator.plan(plan.epoch, plan.batch, alive)


def hosts(plan: EpochPlan, alive: Sequence[Worker]) -> Mapping[Worker, Worker]:
    """Whose executor runs which worker's part: its own, or for an absent worker one of ``alive``, in turns."""
    stand_ins = {worker: alive[at % len(alive)] for at, worker in enumerate(sorted(plan.absent))}
    return {worker: stand_ins.get(worker, worker) for worker in plan.workers}


@dataclass(frozen=True)
class EpochLimits:
    """Limits for an epoch in trouble.

    Attributes:
        attempts_max: runs of one epoch before the query fails.
        executor_wait_seconds: how long an epoch waits for executors if no other worker can take over.
        lost_worker_seconds: how long it waits for a lost worker before it continues without it.
    """

    attempts_max: int = 20
    executor_wait_seconds: float = 60.0
    lost_worker_seconds: float = 30.0


@dataclass(frozen=True)
class ExecutorWait:
    """See the module.

    Attributes:
        coordinator: plans again.
        ports: executors, and a clock to wait by.
        lost: gives the bins of lost workers to the others.
        stopping: set when no further epoch must begin; ends every wait.
        limits: how long each wait may be.
    """

    coordinator: Coordinator
    ports: Ports[Any]
    lost: Lost
    stopping: threading.Event
    limits: EpochLimits

    def wait_for(
        self, plan: EpochPlan, go_on: Callable[[EpochPlan, str], None]
    ) -> tuple[EpochPlan, Mapping[Worker, Executor]]:
        """The plan to run, and all executors there are; those of the workers it needs are among them.

        Args:
            plan: of the epoch.
            go_on: called while an executor is missing; raises if the epoch must not continue.

        Raises:
            EpochFailed: they did not return in time, and no worker can take over.
        """
        started = self.ports.clock()
        while True:
            executors = self.ports.executors.alive()
            alive = tuple(sorted(executors))
            plan = without_idle(plan, alive)
            missing = [w for w in plan.needed if w not in executors]
            if not missing:
                return plan, executors
            if executors and (new := only_destinations(plan, missing)):
                log.warning(
                    "workers %s are missing in the epoch that would give them their first bins: these bins do not move yet",
                    new,
                )
                plan = continue_without(self.coordinator, self.lost, plan, new, alive)
                continue
            go_on(plan, f"worker {missing[0]} has no executor")
            if plan.replay is None and self.coordinator.have_standbys(missing, alive):
                log.warning("workers %s are lost: the standbys of their bins take over", missing)
                plan = continue_without(self.coordinator, self.lost, plan, missing, alive)
                continue
            waited = self.ports.clock() - started
            if waited > self.limits.lost_worker_seconds and executors:
                log.warning("workers %s are lost: workers %s continue without them", missing, list(alive))
                plan = continue_without(self.coordinator, self.lost, plan, missing, alive)
                started = self.ports.clock()
            elif waited > self.limits.executor_wait_seconds + self.limits.lost_worker_seconds:
                raise EpochFailed(f"no executor for worker {missing[0]} within {waited:.0f} s; none is registered")
            self.ports.clock.wait(self.stopping, EXECUTOR_POLL_SECONDS)
