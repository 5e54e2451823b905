"""How many epochs count, where intervals are in epochs and epochs are short.

Snapshots, manifests and collections of garbage are due after so many epochs, as what they bound are deltas and records. Their
intervals suit a few epochs a second. Small epochs come several times as often, and would spend much of the processor on them.
There, an epoch counts for its time or for the bytes that it adds to the log, whichever is more.

However fast they come, one of `STRETCH_MAX` epochs counts: what an interval bounds is bounded without a clock, too.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from binshift.model import Epoch

EPOCHS_PER_SECOND = 7.0
"""The intervals were chosen for so many."""

STRETCH_MAX = 4
"""An interval has at most so many times its epochs."""

EPOCH_BYTES = 256 * 1024
"""In a fast stream, so many bytes of deltas count as an epoch, whatever the clock shows: a recovery has to read them."""


@dataclass(frozen=True, slots=True)
class Moment:
    """When something was done last.

    Attributes:
        epoch: the newest epoch then.
        seconds: of the clock.
        bytes: of all deltas until then.
    """

    epoch: Epoch
    seconds: float
    bytes: int


@dataclass(frozen=True)
class Rhythm:
    """Counts epochs.

    Attributes:
        clock: seconds that only grow.
        epochs_per_second: the most that count in full; None: every epoch does.

    >>> seconds = iter([0.0, 2.0])
    >>> rhythm = Rhythm(lambda: next(seconds), 7.0)
    >>> rhythm.since(rhythm.moment(Epoch(100)), Epoch(150))
    14
    """

    clock: Callable[[], float]
    epochs_per_second: float | None = None

    def moment(self, epoch: Epoch, bytes: int = 0) -> Moment:
        """Now, with the newest epoch and the bytes of all deltas."""
        return Moment(epoch, self.clock(), bytes)

    def since(self, moment: Moment, epoch: Epoch, bytes: int = 0) -> int:
        """The epochs since a moment that count; ``epoch`` is the newest one, and ``bytes`` are those of all deltas."""
        epochs = epoch - moment.epoch
        if self.epochs_per_second is None:
            return epochs
        of_time = int((self.clock() - moment.seconds) * self.epochs_per_second)
        return min(epochs, max(of_time, (bytes - moment.bytes) // EPOCH_BYTES, epochs // STRETCH_MAX))
