"""The tasks of one run of an epoch: what each is sent, as of the log and of the copies that workers hold now.

Made again for each run, because what a store lacks can change between two runs. Takes no I/O.
"""

from __future__ import annotations

from dataclasses import dataclass

from binshift.engine.bin_records import is_counted
from binshift.engine.epoch_plan import EpochPlan, RunTasks
from binshift.engine.migration_controller import MigrationController
from binshift.log.log import Log
from binshift.model import GENESIS, BinSet, Epoch, Fence, Stamp, Worker
from binshift.worker.messages import EpochSpec, Recorded


@dataclass(frozen=True)
class EpochTasks:
    """Makes the tasks of every run in one driver term.

    Attributes:
        log: where the bins come from.
        operators: the stateful operators.
        migrations: knows who holds copies, and which workers are warm; its lock is held while tasks are made.
        undo: whether stores keep what undoes an epoch.
    """

    log: Log
    operators: tuple[str, ...]
    migrations: MigrationController
    undo: bool

    def of_run(self, plan: EpochPlan, run: int, bring_up: frozenset[Worker]) -> RunTasks:
        """See `EpochPlan.tasks`."""
        with self.migrations.lock:
            fence = Fence(self.log.term, plan.epoch, run)
            specs = tuple(
                self._spec(plan, fence, operator, worker, worker in bring_up | plan.absent)
                for operator in self.operators
                for worker in plan.workers
            )
            return RunTasks(specs, self.migrations.warm, self.migrations.cold())

    def _spec(self, plan: EpochPlan, fence: Fence, operator: str, worker: Worker, everything: bool) -> EpochSpec:
        index, base = self.log.index, Epoch(plan.epoch - 1)
        owned = plan.route.bins_of(worker)
        before = BinSet() if plan.before is None else plan.before.bins_of(worker)
        wanted = owned if everything else owned - before
        have = {} if everything else self.migrations.copies.of(operator, worker, wanted)
        stamp = index.stamp(operator, worker, base)
        replay = None
        if plan.replay is not None:
            part = next(p for p in plan.replay.parts if p.operator == operator and p.worker == worker)
            replay = Recorded(Stamp(plan.epoch, part.attempt), part.delta)
        return EpochSpec(
            fence=fence,
            operator=operator,
            worker=worker,
            expect=stamp or GENESIS,
            owned_before=before,
            owned=owned,
            batch_time_ms=plan.batch.batch_time_ms,
            watermark_ms=plan.batch.watermark_ms,
            previous_watermark_ms=plan.previous_watermark_ms,
            bring_up=index.sources_or_lost(operator, wanted, have, base) if wanted else None,
            behind=index.stamp(operator, worker, Epoch(base - 1)) if base - 1 in index.records else None,
            replay=replay,
            undo=self.undo,
            scratch=worker in plan.absent,
            count_bins=plan.replay is None and is_counted(plan.epoch),
        )
