"""What a worker process knows of the indexes by time of one store, from one epoch to the next."""

from __future__ import annotations

from dataclasses import dataclass, field

from binshift.model import GENESIS, Stamp
from binshift.operators.contract import IndexTimes


@dataclass
class KeptTimes:
    """Of one store. Another process may have changed the store, or an epoch may have been undone: only the stamp counts."""

    _stamp: Stamp = GENESIS
    _times: IndexTimes = field(default_factory=IndexTimes)

    def at(self, stamp: Stamp) -> IndexTimes:
        """What is known of the state with this stamp; nothing if another state was kept."""
        if stamp != self._stamp or stamp == GENESIS:  # many states are called `GENESIS`: those before the first epoch
            self.keep(stamp, IndexTimes())
        return self._times

    def keep(self, stamp: Stamp, times: IndexTimes) -> None:
        """Keep what is known of the state with this stamp."""
        self._stamp, self._times = stamp, times
