"""Broken variants of the engine's loops and standbys: each lacks one bound, wait, attempt or check."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from binshift.engine import background_loop, epoch_loop, executor_wait
from binshift.engine.background_loop import BackgroundLoop
from binshift.engine.coordinator import Coordinator
from binshift.engine.copies import Copies
from binshift.engine.epoch_loop import EpochLoop
from binshift.engine.epoch_plan import Finished
from binshift.engine.executor_wait import EpochLimits, ExecutorWait
from binshift.engine.migration_controller import MigrationController
from binshift.engine.standbys import Standbys
from binshift.model import BinSet, Epoch, Worker
from binshift.store.bins.binstore import BinStore
from binshift.worker import base_state
from binshift.worker.bring_up import bring_up, by_epoch
from simulator import driver

Patch = pytest.MonkeyPatch
ANY_WORKER = tuple(map(Worker, range(64)))


def runs_without_bound(patch: Patch) -> None:
    """An epoch is run again forever (I6)."""
    patch.setattr(driver, "EpochLimits", lambda attempts, *waits: EpochLimits(10**9, *waits))


def no_second_run(patch: Patch) -> None:
    """The first lost executor ends the query."""

    def ended(self: EpochLoop[Any], plan: Any, run: int, error: Exception) -> Any:
        self.coordinator.abandon(plan)
        raise error

    patch.setattr(EpochLoop, "_failed", ended)


def failures_of_tasks_not_counted(patch: Patch) -> None:
    """A task may fail as often as an executor may be lost."""
    patch.setattr(epoch_loop, "TASK_FAILURES_MAX", 10**9)


def taken_over_at_once(patch: Patch) -> None:
    """A worker that is briefly missing loses its bins."""
    of = ExecutorWait.wait_for

    def hasty(self: ExecutorWait, *how: Any) -> Any:
        return of(replace(self, limits=replace(self.limits, lost_worker_seconds=-1.0)), *how)

    patch.setattr(ExecutorWait, "wait_for", hasty)


def refuse_takeover(patch: Patch) -> None:
    """The others wait forever for a lost worker (I6)."""
    patch.setattr(executor_wait, "continue_without", lambda coordinator, lost, plan, away, alive: plan)


def rehearsed_for_ever(patch: Patch) -> None:
    """A worker that cannot rehearse is tried forever, and its migration waits (I6)."""
    patch.setattr(background_loop, "WARM_TRIES_MAX", 10**9)
    patch.setattr(background_loop, "WARM_RETRIES_MAX", 10**9)


def unfit_counts_as_warm(patch: Patch) -> None:
    """A worker whose rehearsal has failed gets bins nevertheless."""

    def warm(self: BackgroundLoop, group: Any, error: Exception) -> None:
        self.coordinator.migrations.mark_warm(frozenset(group))

    patch.setattr(BackgroundLoop, "_not_warm", warm)


def absent_workers_waited_for_for_ever(patch: Patch) -> None:
    """A migration waits for a worker that is never started (I6)."""
    patch.setattr(BackgroundLoop, "_give_up", lambda self, missing: None)


def given_up_at_once(patch: Patch) -> None:
    """A migration does not wait for its workers at all."""
    give_up = BackgroundLoop._give_up

    def hasty(self: BackgroundLoop, missing: list[Worker]) -> None:
        self.wait_seconds, before = -1.0, self.wait_seconds
        give_up(self, missing)
        self.wait_seconds = before

    patch.setattr(BackgroundLoop, "_give_up", hasty)


def epochs_not_measured(patch: Patch) -> None:
    """The pace does not follow the latency."""
    patch.setattr(
        Coordinator, "finish", lambda self, plan, seconds: Finished(not self.migrations.idle, self.wake_at_ms)
    )


def pace_not_applied(patch: Patch) -> None:
    """The pace is decided, but the running migration does not get it."""

    def measured(self: MigrationController, seconds: float, *, flipped_bins: int) -> None:
        self.pacer.epoch(seconds, moving=not self.idle, flipped_bins=flipped_bins)

    patch.setattr(MigrationController, "measure", measured)


def slow_plans_not_checked(patch: Patch) -> None:
    """A driver that was suspended while planning lets its sink write (I8)."""
    patch.setattr(epoch_loop, "FENCE_CHECK_SECONDS", math.inf)


def owed_epochs_forgotten(patch: Patch) -> None:
    """A stream that ends leaves closed groups in the state."""

    patch.setattr(EpochLoop, "_wake_stream", lambda self, plan, wake_at_ms: None)


def owed_epochs_without_end(patch: Patch) -> None:
    """Every epoch requests another one."""
    wake = EpochLoop._wake_stream

    def more(self: EpochLoop[Any], plan: Any, wake_at_ms: Any) -> None:
        wake(self, plan, wake_at_ms)
        self.ports.batches.wake(final=True)

    patch.setattr(EpochLoop, "_wake_stream", more)


def standby_without_the_last_delta(patch: Patch) -> None:
    """A worker that takes over bins declares its copies current, without the deltas that they lack (I2)."""
    of = bring_up

    def hasty(store: BinStore, storage: Any, fence: Any, bins: BinSet, to: Epoch, *how: Any) -> Any:
        for epoch, some in by_epoch(store.status().copies, bins):
            if epoch < to:
                store.advance_copies(fence, some, to, [], have=epoch)
        return of(store, storage, fence, bins, to, *how)

    patch.setattr(base_state, "bring_up", hasty)


def standbys_not_used(patch: Patch) -> None:
    """A lost worker is waited for although there are copies of its bins."""
    patch.setattr(Standbys, "covered", lambda self, index, lost, there: [])


def lost_standbys_take_over(patch: Patch) -> None:
    """A bin flips to its standby although that worker is lost as well."""
    of = Standbys.takeover
    patch.setattr(Standbys, "takeover", lambda self, index, lost, there: of(self, index, lost, ANY_WORKER))
    patch.setattr(Copies, "forget_worker", lambda self, worker, reason: [])


def standby_copies_not_kept(patch: Patch) -> None:
    """Copies that no migration needs are dropped, and made again."""
    patch.setattr(Copies, "keep", lambda self, standing: None)


def standbys_of_an_older_route(patch: Patch) -> None:
    """The standbys stay those of the first route."""
    of = Standbys.follow

    def once(self: Standbys, route: Any, *, moving: bool) -> None:
        of(self, self._route or route, moving=moving)

    patch.setattr(Standbys, "follow", once)


LOOP_MUTANTS: tuple[Callable[[Patch], None], ...] = (
    runs_without_bound,
    no_second_run,
    failures_of_tasks_not_counted,
    taken_over_at_once,
    refuse_takeover,
    rehearsed_for_ever,
    unfit_counts_as_warm,
    absent_workers_waited_for_for_ever,
    given_up_at_once,
    epochs_not_measured,
    pace_not_applied,
    slow_plans_not_checked,
    owed_epochs_forgotten,
    owed_epochs_without_end,
    standby_without_the_last_delta,
    standbys_not_used,
    lost_standbys_take_over,
    standby_copies_not_kept,
    standbys_of_an_older_route,
)
