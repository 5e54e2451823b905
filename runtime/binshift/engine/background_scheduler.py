"""The work of each worker in a background round, and the meaning of its report.

An order is always the whole of what is wanted now, built from the newest records; so a round that was lost, cut short or
done twice needs no memory of itself.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Sequence
from dataclasses import replace

from binshift.engine.snapshots import SnapshotCycle
from binshift.engine.standbys import Standbys
from binshift.engine.worker_backoff import WorkerBackoff
from binshift.log.index.index import Index
from binshift.migration import CopyFailed, Event
from binshift.model import BinSet, Fence, Term, Worker
from binshift.routing import Route
from binshift.worker.messages import BackgroundReport, BackgroundSpec, CopyOrder

SHORT_SECONDS = 0.4
"""Of a round that catches up: what it has reached is news that a flip may wait for."""

LONG_SECONDS = 4.0
"""Of a round with much to load: each begins by reading all the deltas again, a few hundred small files."""

LONG_BYTES = 4 * 1024 * 1024
LONG_BINS = 1024
"""So much is much: each group of bins is read from many snapshots, however small they are."""


class BackgroundScheduler:
    """Builds the orders of one driver term.

    Args:
        operators: of the query.
        term: the driver's.
        standbys: the copies for the case that a worker is lost; and all others.
        snapshots: which bins to write next.
        backoff: who cannot, and is left out for a while.
    """

    def __init__(
        self, operators: Sequence[str], term: Term, standbys: Standbys, snapshots: SnapshotCycle, backoff: WorkerBackoff
    ) -> None:
        self._operators = operators
        self._term = term
        self._copies = standbys.copies
        self._standbys = standbys
        self._snapshots = snapshots
        self._backoff = backoff
        self._numbers = itertools.count(1)
        self._ordered_drops: dict[Worker, BinSet] = {}

    def specs(
        self, index: Index, route: Route, alive: Collection[Worker], duty: float, *, moving: bool
    ) -> list[BackgroundSpec]:
        """The orders of the next round; none for workers with nothing to do.

        Args:
            index: of the log.
            route: the newest recorded one.
            alive: workers that have an executor.
            duty: share of a core that the tasks of a worker may use together.
            moving: whether a migration is under way.
        """
        if not moving:
            self._copies.drop_all()
        self._standbys.follow(route, moving=moving)
        self._ordered_drops = dict(self._copies.drops)
        there = set(alive) - self._backoff.resting()
        specs = [self._spec(index, route, o, w, duty) for o in self._operators for w in sorted(there)]
        due = [
            spec
            for spec in specs
            if spec.copies or spec.drop or spec.snapshot or not self._copies.known(spec.operator, spec.worker)
        ]
        return with_common_time(due)

    def _spec(self, index: Index, route: Route, operator: str, worker: Worker, duty: float) -> BackgroundSpec:
        wanted = self._copies.wanted(worker) - route.bins_of(worker)
        late, new = self._standbys.due(operator, worker, index.last)
        # A round ends when its time is over: copies are advanced before others are made, or they would be too old by then.
        orders = (self._order(index, operator, worker, bins) for bins in (wanted, late, new))
        copies = tuple(order for order in orders if order is not None)
        return BackgroundSpec(
            fence=Fence(self._term, index.last, 0),
            operator=operator,
            worker=worker,
            copies=copies,
            drop=self._ordered_drops.get(worker, BinSet()),
            snapshot=self._snapshots.slice(index, operator, worker),
            snapshot_attempt=f"{self._term}.s{next(self._numbers)}",
            budget_seconds=round_seconds(copies),
            duty=duty,
            idle=not route.bins_of(worker),
        )

    def _order(self, index: Index, operator: str, worker: Worker, wanted: BinSet) -> CopyOrder | None:
        """What brings these copies to the newest epoch; None if none is behind, or the log does not lead to it now."""
        held = self._copies.of(operator, worker, wanted)
        behind = BinSet([b for b in wanted if held.get(b) != index.last])
        if not behind:
            return None
        files = index.sources_or_lost(operator, behind, held, index.last)
        # Files that the log cannot provide now are replaced by the snapshot that their owner is to write.
        there = behind - files.lost_bins
        return CopyOrder(there, index.last, files) if there else None

    def take_reports(self, reports: Sequence[BackgroundReport], silent: Sequence[Worker], why: str) -> list[Event]:
        """Take in what a job of a round did; what the migration has to hear of it.

        Args:
            reports: of its tasks.
            silent: workers whose tasks did not report.
            why: they did not.
        """
        if len(silent) == 1:
            reports = [*reports, *(BackgroundReport(each, silent[0], None, failed=why) for each in self._operators)]
        else:
            self._backoff.suspect(silent)
        failed = {report.worker: report.failed for report in reports if report.failed is not None}
        for worker, reason in failed.items():
            self._backoff.record_failure(worker, reason)
        self._backoff.record_success({report.worker for report in reports} - failed.keys())
        for report in reports:
            if report.snapshot is not None:
                self._snapshots.add(report.snapshot)
        events = self._copies.take_reports(reports, self._ordered_drops)
        hopeless = self._backoff.hopeless()
        return [
            replace(event, retryable=False)
            if isinstance(event, CopyFailed) and event.destination in hopeless
            else event
            for event in events
        ]


def with_common_time(specs: Sequence[BackgroundSpec]) -> list[BackgroundSpec]:
    """All operators of a worker have as long as the one with the most to do: its round ends when all have ended."""
    longest: dict[Worker, float] = {}
    for spec in specs:
        longest[spec.worker] = max(spec.budget_seconds, longest.get(spec.worker, 0.0))
    return [replace(spec, budget_seconds=longest[spec.worker]) for spec in specs]


def round_seconds(copies: Sequence[CopyOrder]) -> float:
    """How long a round that makes these copies may take."""
    fresh = [order.bring_up for order in copies if order.bring_up.fresh]
    much = any(len(each.fresh) > LONG_BINS or each.bytes_total > LONG_BYTES for each in fresh)
    return LONG_SECONDS if much else SHORT_SECONDS
