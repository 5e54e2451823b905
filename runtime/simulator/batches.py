"""The stream of a simulated world as the engine of one driver sees it."""

from __future__ import annotations

from dataclasses import dataclass

from binshift.engine.epoch_plan import BatchOffsets
from binshift.model import Epoch
from simulator.world import World


@dataclass
class SimulatedBatches:
    """A world's stream for one driver; see `binshift.engine.ports.Batches`.

    Attributes:
        world: the owner of the stream.
        woken: whether an epoch is wanted, with or without input.
        wake_at_ms: when one is due; None: never.
    """

    world: World
    woken: bool = False
    wake_at_ms: int | None = None

    def offsets(self, epoch: Epoch) -> BatchOffsets:
        """See `Batches`."""
        self.woken = False
        batch = self.world.stream.batches[epoch]
        return BatchOffsets(batch.time_ms, batch.watermark_ms, batch.digest)

    def next_watermark_ms(self) -> int | None:
        """See `Batches`."""
        return self.world.stream.watermark_ms if self.world.stream.marks else None

    def wake(self, *, final: bool) -> None:
        """See `Batches`."""
        self.woken = True
        self.world.stream.final_epoch_required |= final

    def wake_at(self, time_ms: int | None) -> None:
        """See `Batches`."""
        self.wake_at_ms = time_ms
