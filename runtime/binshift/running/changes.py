"""What has changed in a run since the last look, as lines for a terminal. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from binshift.control.models import Dataflow, Migration

RUNS_FAILED_MIN: Final = 2
"""One run fails whenever an executor is lost; more is trouble."""

Change = tuple[str, Mapping[str, object]]
"""An event by its name, and its facts."""


class Changes:
    """Compares each look with the one before it."""

    def __init__(self) -> None:
        self._registered: list[int] | None = None
        self._holding: list[int] | None = None
        self._begun = self._ended = 0
        self._trouble: tuple[int, str] | None = None

    def of(self, seen: Dataflow) -> Iterator[Change]:
        """What is new, in the order in which it came about."""
        yield from self._of_workers(seen)
        if seen.migration is not None:
            yield from self._of_migration(seen.migration)
        yield from self._of_trouble(seen)

    def _of_workers(self, seen: Dataflow) -> Iterator[Change]:
        if self._registered is not None:
            if came := sorted({*seen.registered} - {*self._registered}):
                yield "workers registered", {"workers": came}
            if went := sorted({*self._registered} - {*seen.registered}):
                yield "workers away", {"workers": went}
        self._registered = seen.registered
        if seen.workers != self._holding and seen.workers:
            self._holding = seen.workers
            yield "bins", {"workers": seen.workers, "epoch": seen.epoch}

    def _of_migration(self, now: Migration) -> Iterator[Change]:
        if now.id > self._begun and now.bins_total is not None:
            self._begun = now.id
            if now.bins_total:
                yield "migration begun", {"id": now.id, "strategy": now.strategy, "bins": now.bins_total}
        if now.id > self._ended and now.ended_at is not None:
            self._ended = now.id
            began = now.started_at or now.ended_at
            lasted = round((now.ended_at - began).total_seconds(), 1)
            yield (
                f"migration {now.phase}",
                {"id": now.id, "bins": now.bins_moved or 0, "seconds": lasted, "reason": now.reason},
            )

    def _of_trouble(self, seen: Dataflow) -> Iterator[Change]:
        epoch = seen.under_way
        if epoch is not None and epoch.trouble and epoch.runs > RUNS_FAILED_MIN:
            if self._trouble != (epoch.epoch, epoch.trouble):
                self._trouble = (epoch.epoch, epoch.trouble)
                facts = {"epoch": epoch.epoch, "failed": epoch.runs - 1, "reason": epoch.trouble}
                yield "epoch in trouble", facts
        elif self._trouble is not None and seen.epoch >= self._trouble[0]:
            yield "epoch recorded after trouble", {"epoch": self._trouble[0]}
            self._trouble = None
