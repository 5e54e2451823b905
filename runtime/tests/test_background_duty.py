"""The share of a core of background work: that of a worker, however many operators it has; and small again with each migration."""

from __future__ import annotations

from itertools import count, product
from pathlib import Path
from typing import Any

import pytest
from log_worlds import DictStorage
from stores import commit_epoch

from binshift import entries
from binshift.engine.background_scheduler import BackgroundScheduler
from binshift.engine.copies import Copies
from binshift.engine.pacer import Pacer
from binshift.engine.standbys import Standbys
from binshift.engine.worker_backoff import WorkerBackoff
from binshift.log.index.bringup import BringUp
from binshift.migration import Copy
from binshift.migration.events import StepNumber
from binshift.model import BinSet, Epoch, Fence, Stamp, Term, Worker
from binshift.pacing import Pace
from binshift.routing import Route
from binshift.store.bins.binstore import BinStore
from binshift.store.engine.contract import StoreLimits
from binshift.store.engine.lmdb_store import close_environments, open_lmdb
from binshift.worker import background_task
from binshift.worker.background_task import Budget, Duty, run_round
from binshift.worker.messages import BackgroundSpec
from simulator.clock import ManualClock

LAST, ROUTE = Epoch(4), Route.initial(8, map(Worker, range(2)))
OPERATORS = ("a", "b", "c")
DUTY = 0.3


class Recorded:
    """The part of an index, and of snapshots, that orders of copies need."""

    route, last = ROUTE, LAST

    def __init__(self, due: BinSet) -> None:
        self.due = due

    def sources_or_lost(self, operator: str, bins: BinSet, held: object, to: Epoch) -> BringUp:
        """Bins without any rows."""
        return BringUp(operator, to, bins, bins, ((Epoch(-1), bins),), (), ())

    def slice(self, index: object, operator: str, worker: Worker) -> BinSet:
        """The snapshots that are due."""
        return self.due & ROUTE.bins_of(worker)


def orders(copies: Copies, snapshots_of: BinSet | None = None) -> list[BackgroundSpec]:
    """Of all workers."""
    clock, world = ManualClock(), Recorded(snapshots_of or BinSet())
    index: Any = world
    snapshots: Any = world
    scheduler = BackgroundScheduler(OPERATORS, Term(1), Standbys(copies, 0, clock), snapshots, WorkerBackoff(clock))
    return scheduler.specs(index, ROUTE, ROUTE.workers, DUTY, moving=True)


def known() -> Copies:
    """Every worker has reported that it has no copies."""
    copies = Copies(OPERATORS)
    copies.held.update({(operator, worker): {} for operator in OPERATORS for worker in ROUTE.workers})
    return copies


def test_orders_have_the_share_of_the_worker() -> None:
    """For copies, drops and snapshots alike."""
    copies = known()
    copies.order(Copy(StepNumber(0), Worker(1), ROUTE.bins_of(Worker(0)), 0))
    copies.drop(Worker(0), BinSet([1]))
    found = orders(copies, BinSet([2]))
    assert {(spec.worker, spec.operator) for spec in found} == set(product(range(2), OPERATORS))
    assert {spec.duty for spec in found} == {DUTY}


def worked(threads: int, pieces: int) -> float:
    """How long so many threads take for so many pieces each, of 10 ms of processor time, with a fifth of a core for all."""
    duty = Duty(0.2)
    resumed = [0.0] * threads
    for _, thread in product(range(pieces), range(threads)):
        ended = resumed[thread] + 0.01
        resumed[thread] = ended + max(0.0, duty.rest(resumed[thread], ended, 0.01))
    return max(resumed)


def test_threads_share_it() -> None:
    """Each of three works for a third of it."""
    assert worked(threads=3, pieces=10) == pytest.approx(30 * 0.05)


def test_a_thread_alone_has_all_of_it() -> None:
    """Other operators have nothing to copy, or have ended."""
    assert worked(threads=1, pieces=10) == pytest.approx(10 * 0.05)


def test_waiting_is_rest() -> None:
    """Of a piece that waited for a disk, but it is not saved for later pieces."""
    duty = Duty(0.2)
    assert duty.rest(0.0, 1.0, 0.01) < 0
    assert duty.rest(1.0, 1.01, 0.01) == pytest.approx(0.04)


@pytest.mark.parametrize(("rows_at_once", "rests"), [(1, 8), (2, 5), (2_000, 2)])
def test_a_snapshot_rests_after_some_rows(
    rows_at_once: int, rests: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It takes its share of a core, like copies; small bins are read together, once their size is known."""
    monkeypatch.setattr(background_task, "SNAPSHOT_ROWS_AT_ONCE", rows_at_once)
    fence, bins = Fence(Term(1), Epoch(0), 0), BinSet(range(8))
    store = BinStore(open_lmdb(tmp_path), 16, StoreLimits())
    rows = [entries.make([bin], [b"k"], [b"v"]) for bin in bins]
    stamp = Stamp(fence.epoch, "a")
    commit_epoch(store, fence, expect=store.status().stamp, stamp=stamp, owned=bins, changes=rows, undo=False)
    clock, cpu = ManualClock(), count()
    budget = Budget(0.0, Duty(0.25), clock, lambda: next(cpu) / 200, clock.sleep)
    spec = BackgroundSpec(fence, "a", Worker(0), snapshot=bins, snapshot_attempt="1.s1")
    report = run_round(spec, store, DictStorage(), budget)
    assert report.snapshot is not None
    assert report.snapshot.bins == bins
    assert clock() == pytest.approx(0.02 * rests)
    close_environments(tmp_path)


def test_a_migration_begins_as_slowly_as_the_first() -> None:
    """What was fast enough for the migration before was measured at its load; what was too fast for it is not tried again."""
    pacer = Pacer(None, Pace(DUTY, 64))
    pacer.pace = Pace(0.9, 16, 1)
    assert pacer.restart() == pacer.pace == Pace(DUTY, 16, 1)
    pacer.pace = Pace(0.05, 16, 1)
    assert pacer.restart() == pacer.pace == Pace(0.05, 16, 1)


def test_calm_times_are_as_slow() -> None:
    """Snapshots, and drops of what a migration has moved away, have time."""
    pacer = Pacer(None, Pace(DUTY, 64))
    pacer.pace = Pace(0.9, 64)
    pacer.epoch(0.1, moving=False, flipped_bins=0)
    assert pacer.pace.duty == DUTY
