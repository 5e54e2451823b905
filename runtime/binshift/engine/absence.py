"""What becomes of an epoch whose workers stay away: the rule that the Spark runner and the simulator share.

An epoch without a record is planned again, and other workers take over the bins. An epoch with a record (a replay) keeps
the workers of its record: route, stamps and deltas are decided. Only the output of the absent workers is missing, and the
log is enough to compute it: a live executor runs their part in a scratch store, which is thrown away. The next epoch moves
the bins, as after any other loss.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from binshift.engine.coordinator import Coordinator
from binshift.engine.epochplan import EpochPlan
from binshift.model import Worker

Lost = Callable[[Sequence[Worker], Sequence[Worker]], object]
"""Gives the bins of some workers to those that are alive; `Steering.lost`."""


def without_idle(plan: EpochPlan, alive: Sequence[Worker]) -> EpochPlan:
    """The plan without workers that are away and own no bin in the epoch: they have nothing to do in it.

    Such a worker is about to get its first bin, or gives its last one away.
    """
    kept = {*plan.route.workers, *alive}
    return plan if kept.issuperset(plan.workers) else replace(plan, workers=tuple(w for w in plan.workers if w in kept))


def go_on_without(
    coordinator: Coordinator, lost: Lost, plan: EpochPlan, away: Sequence[Worker], alive: Sequence[Worker]
) -> EpochPlan:
    """The plan by which an epoch goes on without the workers of ``away``, which have stayed away for too long.

    Raises:
        MigrationRefused: ``alive`` is empty.
    """
    coordinator.abandoned(plan)
    lost(away, alive)
    if plan.replay is not None:
        return replace(plan, absent=plan.absent | frozenset(away))
    return coordinator.plan(plan.epoch, plan.offsets_hash, plan.batch_time_ms, plan.watermark_ms, tuple(alive))


def hosts(plan: EpochPlan, alive: Sequence[Worker]) -> Mapping[Worker, Worker]:
    """Whose executor runs which worker's part: its own, or for an absent worker one of ``alive``, in turns."""
    stand_ins = {worker: alive[at % len(alive)] for at, worker in enumerate(sorted(plan.absent))}
    return {worker: stand_ins.get(worker, worker) for worker in plan.workers}
