"""Keeps the log short: writes manifests and deletes garbage, concurrently with epochs.

A driver that starts reads one manifest and the records after it: of the epochs between two manifests that count, and at most
`rhythm.STRETCH_MAX` times as many.

Belongs to the background thread, between its rounds: no copy is then under way, so that no file it would need can go.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from binshift.engine.rhythm import Moment, Rhythm
from binshift.log.log import Log
from binshift.model import BEFORE_FIRST, Epoch


@dataclass
class Housekeeping:
    """Writes manifests and collects garbage when they are due.

    Attributes:
        log: of this query.
        manifest_every_epochs: epochs between two manifests.
        collect_every_epochs: epochs between two collections.
        clock: seconds that only grow.
        epochs_per_second: the most that count; see `Rhythm`.
    """

    log: Log
    manifest_every_epochs: int
    collect_every_epochs: int
    clock: Callable[[], float]
    epochs_per_second: float | None = None
    _written: Epoch | None = None
    _written_at: Moment | None = None
    _collected_at: Moment | None = None

    @property
    def manifest(self) -> Epoch | None:
        """The newest durable manifest, for the next record to name: never an older one than records have named."""
        written = () if self._written is None else (self._written,)
        return max((*self.log.index.manifests[-1:], *written), default=None)

    def run(self, pending: tuple[str, ...]) -> None:
        """Do what is due; ``pending`` are snapshots written that no record names yet.

        Raises:
            Fenced: a newer driver has opened the log.
            StorageUnavailable: try again later.
        """
        last = self.log.index.last
        if last <= BEFORE_FIRST:
            return
        rhythm = Rhythm(self.clock, self.epochs_per_second)
        newest = self.manifest
        self._written_at = self._written_at or rhythm.moment(BEFORE_FIRST if newest is None else newest)
        self._collected_at = self._collected_at or rhythm.moment(BEFORE_FIRST)
        if rhythm.since(self._written_at, last) >= self.manifest_every_epochs:
            self.log.write_manifest(last)
            self._written, self._written_at = last, rhythm.moment(last)
        if rhythm.since(self._collected_at, last) >= self.collect_every_epochs:
            # Spark commits batch N before it begins N+1, so N-1 is committed once N is recorded.
            self.log.collect(spark_committed=Epoch(last - 1), now=self.clock(), pending=pending)
            self._collected_at = rhythm.moment(last)
