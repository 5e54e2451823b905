"""The driver's view of copies: which workers were ordered to make them, and the progress of each.

Workers report the epoch of every copy they hold after each round of background work; between reports the driver only
updates what a record implies (a bin that flipped is no copy any more, a bin that left is one at its source). The
knowledge may be behind, never ahead: an order built on it is at worst more than needed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from binshift.migration import Copy, CopyAt, CopyFailed, Event
from binshift.model import BinSet, Epoch, Moves, Worker
from binshift.worker.messages import BackgroundReport

Holder = tuple[str, Worker]
"""An operator on a worker."""


@dataclass
class Copies:
    """The copies of all workers, and the orders for them.

    Attributes:
        operators: every stateful operator; a bin is ready when it is for all of them.
        held: by operator and worker, the epoch of each copy.
        orders: copies that the migration has ordered and not yet flipped or dropped.
        drops: bins whose copies are to go, by worker.
    """

    operators: tuple[str, ...]
    held: dict[Holder, dict[int, int]] = field(default_factory=dict)
    orders: list[Copy] = field(default_factory=list)
    drops: dict[Worker, BinSet] = field(default_factory=dict)

    def of(self, operator: str, worker: Worker, bins: BinSet) -> Mapping[int, int]:
        """The epochs of those of ``bins`` that ``worker`` holds copies of."""
        held = self.held.get((operator, worker), {})
        return {b: held[b] for b in bins.array.tolist() if b in held}

    def known(self, operator: str, worker: Worker) -> bool:
        """Whether ``worker`` has reported its copies since it registered."""
        return (operator, worker) in self.held

    def count(self) -> int:
        """Copies held, over all workers and operators."""
        return sum(map(len, self.held.values()))

    def order(self, copy: Copy) -> None:
        """Remember an order of the migration; a drop of the same bins that has not run yet is off."""
        self.orders.append(copy)
        self._forget_drop(copy.destination, copy.bins)

    def drop(self, worker: Worker, bins: BinSet) -> None:
        """These copies are to go."""
        if not bins:
            return
        self.orders = [o for o in self.orders if o.destination != worker or not (o.bins & bins)]
        self.drops[worker] = self.drops.get(worker, BinSet()) | bins

    def drop_all(self) -> None:
        """Nothing moves: whatever copies there are, a driver before this one has left them."""
        for (_, worker), held in self.held.items():
            self.drop(worker, BinSet(held))

    def keep(self, standing: Mapping[Worker, BinSet]) -> None:
        """These copies are not to go, whatever moves."""
        for worker, bins in standing.items():
            self._forget_drop(worker, bins)

    def _forget_drop(self, worker: Worker, bins: BinSet) -> None:
        left = self.drops.pop(worker, BinSet()) - bins
        if left:
            self.drops[worker] = left

    def wanted(self, worker: Worker) -> BinSet:
        """All bins that ``worker`` should hold copies of."""
        wanted = BinSet()
        for order in self.orders:
            if order.destination == worker:
                wanted |= order.bins
        return wanted

    def apply_flip(self, epoch: Epoch, moves: Moves) -> None:
        """The record of ``epoch`` has made these moves facts."""
        for worker in {Worker(w) for w in moves.destinations.tolist()}:
            arrived = moves.bins_to(worker)
            self._forget_drop(worker, arrived)
            self.orders = [o for o in self.orders if o.destination != worker or not (o.bins & arrived)]
            for operator in self.operators:
                held = self.held.get((operator, worker), {})
                for b in arrived:
                    held.pop(b, None)
        for move in moves:
            for operator in self.operators:
                self.held.setdefault((operator, move.source), {})[move.bin] = epoch - 1

    def take_reports(self, reports: Sequence[BackgroundReport], dropped: Mapping[Worker, BinSet]) -> list[Event]:
        """Take in what workers hold; what the migration has to hear of it."""
        events: list[Event] = []
        for report in reports:
            if report.copies is not None:
                self.held[report.operator, report.worker] = dict(report.copies)
            elif self.known(report.operator, report.worker):
                del self.held[report.operator, report.worker]
            if report.failed is not None:
                events += self._failures(report.worker, report.failed)
        self._dropped([report for report in reports if report.copies is not None], dropped)
        return events + self.arrivals()

    def _dropped(self, reports: Sequence[BackgroundReport], ordered: Mapping[Worker, BinSet]) -> None:
        """An order to drop stands until no operator has anything left; what an earlier driver left half dropped goes too."""
        for worker in {report.worker for report in reports}:
            self._forget_drop(worker, ordered.get(worker, BinSet()))
        for report in reports:
            if left := report.dropping - self.wanted(report.worker):
                self.drops[report.worker] = self.drops.get(report.worker, BinSet()) | left

    def forget_worker(self, worker: Worker, reason: str) -> list[Event]:
        """The executor of ``worker`` is gone: what it held is not known any more, if it was."""
        known = [self.held.pop((operator, worker), None) is not None for operator in self.operators]
        return self._failures(worker, reason) if any(known) else []

    def _failures(self, worker: Worker, reason: str) -> list[Event]:
        return [CopyFailed(o.step, worker, reason, True, o.attempt) for o in self.orders if o.destination == worker]

    def arrivals(self) -> list[Event]:
        """Orders whose bins are all copied, with the epoch of the oldest."""
        events: list[Event] = []
        for order in self.orders:
            epochs = [self.of(operator, order.destination, order.bins) for operator in self.operators]
            if any(len(each) < len(order.bins) for each in epochs):
                continue
            epoch = Epoch(min(min(each.values()) for each in epochs))
            events.append(CopyAt(order.step, order.destination, epoch, order.attempt))
        return events

    def clear_orders(self) -> None:
        """The migration is over."""
        self.orders.clear()
