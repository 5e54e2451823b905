"""How requests for movement reach a query, and how they outlive its driver.

A rescale is durable before it is answered: the target is written to the log first. A driver that starts finds the newest
target there and, where the recorded route does not agree with it, goes on towards it.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass, replace

from binshift.errors import MigrationRefused
from binshift.log import terms
from binshift.log.log import Log
from binshift.log.targets import Target
from binshift.model import Bin, Worker
from binshift.protocol.coordinator import Coordinator
from binshift.protocol.migrations import Migration, Request
from binshift.strategies import Strategy

TARGET_TRIES_MAX = 8
"""How often a target is written anew because another one came in between."""


@dataclass(frozen=True)
class Steering:
    """Accepts requests for one query.

    Attributes:
        log: where targets are kept.
        coordinator: carries requests out.
        defaults: strategy, batch size and pre-copy where a request leaves them open.
    """

    log: Log
    coordinator: Coordinator
    defaults: Request

    def rescale(
        self,
        workers: tuple[Worker, ...],
        strategy: str | None = None,
        batch_size: int | None = None,
        pre_copy: bool | None = None,
    ) -> Migration:
        """Ask for all bins to be shared by ``workers``.

        Raises:
            MigrationRefused: the strategy is unknown.
            Fenced: a newer driver has taken over; it is the one to ask.
            StorageUnavailable: the target could not be made durable; nothing was begun.
        """
        request = self._request(strategy, batch_size, pre_copy, workers=workers)
        self._write(request)
        return self._begin(request)

    def move(self, moves: Mapping[Bin, Worker], pre_copy: bool | None = None) -> Migration:
        """Ask for single bins to be elsewhere. A restarted driver does not remember it, and goes on towards the target."""
        return self._begin(self._request(None, None, pre_copy, moves=dict(moves)))

    def resume(self) -> Migration | None:
        """Go on towards the newest target, if the recorded route is not there yet."""
        newest, route = self.log.targets.newest(), self.log.index.route
        if newest is None or route is None:
            return None
        target = newest[1]
        workers = tuple(Worker(w) for w in target.workers)
        request = self._request(target.strategy, target.batch_size, target.pre_copy, workers=workers)
        # The same workers are not enough: a driver that died early has moved some of their bins only.
        return None if request.target(route) == route else self._begin(request)

    def _begin(self, request: Request) -> Migration:
        with self.coordinator.lock:
            migration = self.coordinator.movement.request(request)
            self.coordinator.movement.settle(self.log.index)
            return migration

    def _request(
        self,
        strategy: str | None,
        batch_size: int | None,
        pre_copy: bool | None,
        *,
        workers: tuple[Worker, ...] | None = None,
        moves: Mapping[Bin, Worker] | None = None,
    ) -> Request:
        return replace(
            self.defaults,
            workers=workers,
            moves=moves or {},
            strategy=self.defaults.strategy if strategy is None else strategy_of(strategy),
            batch_size=batch_size or self.defaults.batch_size,
            pre_copy=self.defaults.pre_copy if pre_copy is None else pre_copy,
        )

    def _write(self, request: Request) -> None:
        for _ in range(TARGET_TRIES_MAX):
            newest = self.log.targets.newest()
            number, generation = (0, 0) if newest is None else (newest[0], newest[1].generation)
            target = Target(
                owner="",
                generation=generation + 1,
                workers=request.workers or (),
                strategy=request.strategy.value,
                batch_size=request.batch_size,
                pre_copy=request.pre_copy,
                nonce=secrets.token_hex(8),
            )
            if self.log.targets.write(target, number):
                # A driver that came after this one has read the targets already: ask it, not this one.
                terms.check_newest(self.log.storage, self.log.term)
                return
        raise MigrationRefused(f"{TARGET_TRIES_MAX} other targets were set at the same moment; ask again")


def strategy_of(name: str) -> Strategy:
    """The strategy of that name, whatever its case.

    >>> strategy_of("optimized").value
    'Optimized'
    """
    for strategy in Strategy:
        if strategy.value.lower() == name.lower():
            return strategy
    raise MigrationRefused(f"there is no strategy {name!r}: choose from {', '.join(s.value for s in Strategy)}")
