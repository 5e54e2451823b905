"""Keeps the log short: writes manifests and deletes garbage, concurrently with epochs.

Belongs to the background thread, between its rounds: no copy is then under way, so that no file it would need can go.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

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
    """

    log: Log
    manifest_every_epochs: int
    collect_every_epochs: int
    clock: Callable[[], float]
    _written: Epoch | None = None
    _collected: Epoch = BEFORE_FIRST

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
        newest = self.manifest
        if last - (BEFORE_FIRST if newest is None else newest) >= self.manifest_every_epochs:
            self.log.write_manifest(last)
            self._written = last
        if last - self._collected >= self.collect_every_epochs:
            # Spark commits batch N before it begins N+1, so N-1 is committed once N is recorded.
            self.log.collect(spark_committed=Epoch(last - 1), now=self.clock(), pending=pending)
            self._collected = last
