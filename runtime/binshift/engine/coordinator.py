"""The driver's half of an epoch: decides its route, checks the tasks' reports, writes its record.

One coordinator owns one log for one driver term. The epoch loop calls it three times for each epoch: ``plan`` -> (tasks run) ->
``commit`` -> ``finish``; after a failed run ``replan`` or ``abandon``, and ``check_newest`` after slow planning. Its
state is not needed after a crash: route and state come from the records, the target from the log.

Two threads call it: the epoch's and the background's. Every public method takes the lock; none holds it during I/O of
data (records and their route are small).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from binshift.engine.bin_records import is_counted
from binshift.engine.epoch_plan import BatchOffsets, EpochPlan, Finished, one_each
from binshift.engine.epoch_tasks import EpochTasks
from binshift.engine.housekeeping import Housekeeping
from binshift.engine.key_reports import add_reports
from binshift.engine.migration_controller import NO_MOVES, MigrationController
from binshift.errors import EpochFailed, LogDamaged, ReplayMismatch, Retryable
from binshift.hotkeys import HotKeys
from binshift.log.log import Log
from binshift.log.records import terms
from binshift.log.records.commits import CommitRecord, Part, route_changes, whole_route
from binshift.model import BEFORE_FIRST, Epoch, Worker
from binshift.planner import bin_weights
from binshift.routing import Route
from binshift.worker.messages import BackgroundReport, BackgroundSpec, Summary


class Coordinator:
    """Owns the epochs of one driver term."""

    def __init__(
        self,
        log: Log,
        operators: Sequence[str],
        migrations: MigrationController,
        house: Housekeeping,
        undo: bool = True,
    ) -> None:
        self._log = log
        self.bins = migrations.policy.bins
        self._operators = tuple(operators)
        self._tasks = EpochTasks(log, self._operators, migrations, undo)
        self._house = house
        self.migrations = migrations
        self.hot_keys = HotKeys()
        self.lock = migrations.lock

    @property
    def route(self) -> Route | None:
        """The route of the newest recorded epoch; None before the first."""
        return self._log.index.route

    @property
    def last(self) -> Epoch:
        """The newest recorded epoch; -1 before the first."""
        return self._log.index.last

    @property
    def wake_at_ms(self) -> int | None:
        """When an epoch is due even without input (milliseconds since 1970), as of the newest record; None: never."""
        return self._log.index.record(self.last).wake_at_ms if self.last > BEFORE_FIRST else None

    def plan(self, epoch: Epoch, batch: BatchOffsets, alive: Sequence[Worker]) -> EpochPlan:
        """Decide what ``epoch`` will do.

        Args:
            epoch: the next one, or the last recorded one (replay).
            batch: its input.
            alive: workers that have an executor now.

        Raises:
            ReplayMismatch: the epoch is recorded with other input.
            LogDamaged: Spark's log and ours are of different queries or ages.
        """
        with self.lock:
            index = self._log.index
            if epoch <= index.last:
                return self._replay(epoch, batch)
            if epoch != index.last + 1:
                raise LogDamaged(
                    f"Spark is at batch {epoch}, but the log at {self._log.storage.url} ends with epoch {index.last}: one of the "
                    "two was replaced or restored from another backup. Restore both from the same backup"
                )
            before, moving = index.route, not self.migrations.idle
            if before is None:
                route, moves = self.migrations.first_route(alive), NO_MOVES
            else:
                moves = self.migrations.flip(epoch)
                route = before.moved(moves) if len(moves) else before
            # A worker that gives its last bin away takes part once more: only so does its store stop owning it.
            leaving = set() if before is None else set(before.workers) & set(alive)
            workers = tuple(sorted({*route.workers, *leaving, *self.migrations.participants(alive)}))
            batch = batch.behind(self._log.index.record(Epoch(epoch - 1))) if epoch > 0 else batch
            earlier = self._watermark_before(epoch)
            return EpochPlan(epoch, route, before, workers, moves, batch, earlier, self._tasks.of_run, moving=moving)

    def _replay(self, epoch: Epoch, batch: BatchOffsets) -> EpochPlan:
        index = self._log.index
        record = index.record(epoch)
        if epoch != index.last:
            raise LogDamaged(
                f"Spark repeats batch {epoch}, but epoch {index.last} is recorded: Spark's checkpoint is older than "
                "the log. Restore both from the same backup"
            )
        if record.offsets_hash != batch.digest:
            raise ReplayMismatch(
                f"epoch {epoch} is repeated with other input (hash {batch.digest}) than it was recorded with "
                f"({record.offsets_hash}): was Spark's checkpoint edited, or is the source not replayable?"
            )
        before = index.route_at(Epoch(epoch - 1)) if epoch > 0 else None
        earlier = self._watermark_before(epoch)
        moving = not self.migrations.idle
        return EpochPlan.again(record, index.route_at(epoch), before, earlier, self._tasks.of_run, moving=moving)

    def check_newest(self) -> None:
        """Raise `Fenced` if another driver has taken over."""
        terms.check_newest(self._log.storage, self._log.term)

    def _watermark_before(self, epoch: Epoch) -> int:
        """The watermark of the epoch before; Spark's begin at 0. Its record is held also where ``epoch`` is replayed."""
        return self._log.index.record(Epoch(epoch - 1)).watermark_ms if epoch > 0 else 0

    def commit(self, plan: EpochPlan, summaries: Sequence[Summary]) -> None:
        """Make the epoch exist (invariant I3), unless this is a replay, where it does already.

        Raises:
            EpochFailed: there is not exactly one summary of one run for each operator and worker.
            Fenced: another driver has taken over.
        """
        parts = one_each(plan, self._operators, summaries)
        with self.lock:
            if plan.replay is not None:
                return
            record = self._record(plan, parts)
            counts = self._log.append(record)
            if counts != record:
                raise EpochFailed(
                    f"epoch {plan.epoch} was recorded by term {counts.term} meanwhile; its record is adopted"
                )
            if is_counted(plan.epoch):
                self.migrations.bin_records.add(part.bin_records for part in parts)
                add_reports(self.hot_keys, parts, len(plan.route.workers))
            self.migrations.mark_participants_warm(plan.workers)
            self.migrations.apply_record(plan.epoch, plan.moves, self._log.index)

    def replan(self, plan: EpochPlan, error: Exception) -> EpochPlan:
        """The plan of the next run after ``error``: the same, unless the epoch has got a record, or a task has met a damaged file.

        What an older snapshot leads to is built from that one. Planned moves are given up: their bins stay where they are.

        Raises:
            LogDamaged: the epoch cannot do without the file, which the message names.
        """
        with self.lock:
            if isinstance(error, LogDamaged):
                plan = self._without_file(plan, error)
            if plan.replay is None and self._log.index.last >= plan.epoch:
                self.migrations.adopt(plan.epoch, plan.route, plan.moves, self._log.index)
                return self._replay(plan.epoch, plan.batch)
            return plan

    def _without_file(self, plan: EpochPlan, damage: LogDamaged) -> EpochPlan:
        try:
            if damage.file is None or not self._log.mark_unusable(damage.file):
                raise damage
        except Retryable:  # the file will be met again
            return plan
        if plan.replay is not None or not len(plan.moves):
            return plan
        self.migrations.abandon(plan.epoch)
        self.migrations.give_up(f"a file of the log is damaged: {damage}")
        return self.plan(plan.epoch, plan.batch, plan.workers)

    def take_reports(self, reports: Sequence[BackgroundReport], silent: Sequence[Worker] = (), why: str = "") -> None:
        """Apply the reports of a round's job (see `BackgroundScheduler.take_reports`); damaged files are rewritten.

        Raises:
            Fenced: something failed, and another driver has taken over.
        """
        with self.lock:
            for name in {report.damaged for report in reports if report.damaged is not None}:
                self._log.mark_unusable(name)
            self.migrations.take_reports(reports, silent, why)
        if silent or any(report.failed for report in reports):
            self.check_newest()

    def _record(self, plan: EpochPlan, parts: Sequence[Summary]) -> CommitRecord:
        return CommitRecord(
            epoch=plan.epoch,
            term=self._log.term,
            run=parts[0].fence.run,
            previous=self._log.index.tip,
            batch_time_ms=plan.batch.batch_time_ms,
            offsets_hash=plan.batch.digest,
            route_version=plan.route.version,
            moves=whole_route(plan.route) if plan.before is None else route_changes(plan.moves),
            workers=plan.workers,
            parts=tuple(Part(s.operator, s.worker, s.stamp.attempt, s.delta) for s in parts),
            snapshots=self.migrations.snapshots.take(self._log.index),
            watermark_ms=plan.batch.watermark_ms,
            manifest=self._house.manifest,
            wake_at_ms=min((s.wake_at_ms for s in parts if s.wake_at_ms is not None), default=None),
        )

    def background(self) -> list[BackgroundSpec]:
        """The workers' next background work."""
        with self.lock:
            return self.migrations.round(self._log.index)

    def finish(self, plan: EpochPlan, seconds: float) -> Finished:
        """The epoch took so long, from its trigger to its record; sets the pace of what moves."""
        with self.lock:
            self.migrations.measure(seconds, flipped_bins=len(plan.moves))
            return Finished(moving=not self.migrations.idle, wake_at_ms=self.wake_at_ms)

    def bin_weights(self) -> npt.NDArray[np.float64] | None:
        """For each bin its measured load, for the planner; None while nothing is known.

        That is half its share of the state's bytes, as of the newest snapshots (`Index.bin_bytes`), and half its share of the
        records, as counted in epochs of this driver (`BinRecords`); if one is not known, the other alone. Takes no I/O.
        """
        stored, run = self._log.index.bin_bytes(), self.migrations.bin_records.counts  # both are only ever replaced
        if stored is None and not run.any():
            return None
        return bin_weights(np.zeros(self.bins) if stored is None else stored, run)

    def have_standbys(self, away: Sequence[Worker], alive: Sequence[Worker]) -> bool:
        """Whether all bins of the workers of ``away`` have standby copies on workers of ``alive``."""
        with self.lock:
            return len(self.migrations.standbys.covered(self._log.index, away, alive)) == len(away)

    def abandon(self, plan: EpochPlan) -> None:
        """The epoch will not be run again by this driver: its moves did not happen."""
        with self.lock:
            self.migrations.abandon(plan.epoch)

    def needs_epoch(self) -> bool:
        """Whether an epoch should run even without input: a flip, a retirement or a repair is due."""
        with self.lock:
            if self.last <= BEFORE_FIRST:  # bins can move once they have owners
                return not self.migrations.idle
            repairing = any(len(self._log.index.unbuildable(operator)) for operator in self._operators)
            return repairing or self.migrations.needs_epoch()
