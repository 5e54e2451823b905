"""The one mechanism: a worker brings bins to an epoch from the log.

Migration, catch-up, recovery, standbys and rollback are all this: load a bin's newest snapshot, apply the recorded
deltas after it. The log is only read; the store is written in transactions small enough that an epoch waiting for
the write lock never notices. A bin becomes visible as a copy only when it is complete.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice

from binshift import failpoints
from binshift.entries import Entries
from binshift.errors import NeedsBringUp
from binshift.log.files.reading import read_parts
from binshift.log.index.bringup import CATCH_UP_EPOCHS_MAX, BringUp
from binshift.log.storage.contract import Storage
from binshift.model import Bin, BinSet, Epoch, Fence
from binshift.store.bins.binstore import BinStore
from binshift.worker.rebuild import BinRebuild, Limits

ATTEMPTS_MAX = 3
"""How often a bring-up retries after another one of the same bins has overtaken it."""

OLD_EPOCHS = CATCH_UP_EPOCHS_MAX // 2
"""A copy that is further behind is advanced before others are loaded."""

Pause = Callable[[], bool]
"""Called between transactions: may wait (to keep its duty cycle); returns whether to continue."""


def never_pause() -> bool:
    """Continue at full speed: bring-up inside an epoch."""
    return True


@dataclass
class Progress:
    """What a bring-up has done so far."""

    bins: int = 0
    rows: int = 0
    bytes: int = 0

    def count(self, changes: list[Entries]) -> None:
        """These rows were written."""
        self.rows += sum(part.num_rows for part in changes)
        self.bytes += sum(part.nbytes for part in changes)


def bring_up(
    store: BinStore,
    storage: Storage,
    fence: Fence,
    bins: BinSet,
    to: Epoch,
    files: BringUp,
    *,
    limits: Limits | None = None,
    pause: Pause = never_pause,
) -> Progress:
    """Make every one of ``bins`` a copy at epoch ``to``; complete copies at that epoch are left alone.

    Copies a few deltas behind are advanced; all others are loaded again. Stops early if ``pause`` returns False: then some bins
    are complete copies, the others as before.

    Raises:
        NeedsBringUp: ``files`` does not lead to ``to``.
        LogDamaged: a file is missing or damaged, and the bins that need it are not here.
    """
    work = _BringUp(store, storage, fence, to, files, limits or Limits(), pause)
    for attempt in range(1, ATTEMPTS_MAX + 1):
        try:
            work.attempt(bins)
            break
        except NeedsBringUp:
            if attempt == ATTEMPTS_MAX:
                raise
    return work.progress


@dataclass
class _BringUp:
    """One call of `bring_up`; the attributes are its arguments."""

    store: BinStore
    storage: Storage
    fence: Fence
    to: Epoch
    files: BringUp
    limits: Limits
    pause: Pause
    progress: Progress = field(default_factory=Progress)

    def attempt(self, bins: BinSet) -> None:
        """One pass over what is missing now: first the bins that are not here, then the copies that are behind.

        In this order a round that has little time gets somewhere with both: a copy that falls behind costs no more to advance
        later, until it is so old that it would be loaded again. Copies on the way to that come before all else.

        An epoch and a background round may bring up the same bins at the same moment; the slower of the two checks again what is
        missing.
        """
        status = self.store.status()
        wanted = bins - status.owned
        if self.files.lost:
            self.files.check_not_lost(wanted - BinSet([b for b in wanted if status.copies.get(b) == self.to]))
        held = [
            (epoch, some if epoch == self.to else self.files.continuing(some, epoch))
            for epoch, some in by_epoch(status.copies, wanted)
            if epoch <= self.to
        ]
        missing = wanted - BinSet([b for _, some in held for b in some.array])
        behind = sorted(((epoch, some) for epoch, some in held if epoch < self.to and some), key=lambda each: -each[0])
        self._catch_up([each for each in behind if each[0] < self.to - OLD_EPOCHS])
        rebuild = BinRebuild(self.storage, self.files, missing & self.files.fresh, self.pause)
        for group in rebuild.groups(self.limits):
            if not self.pause():
                return
            self._load(rebuild, group)
        if held_elsewhere := missing - self.files.fresh:
            raise NeedsBringUp(
                f"{held_elsewhere!r} were expected in this store; they cannot be rebuilt from the given files"
            )
        self._catch_up([each for each in behind if each[0] >= self.to - OLD_EPOCHS])

    def _catch_up(self, behind: Sequence[tuple[Epoch, BinSet]]) -> None:
        for epoch, some in behind:
            self.progress.bins += self._advance(some, epoch)

    def _advance(self, bins: BinSet, have: Epoch) -> int:
        """Apply the deltas after ``have`` to copies that are all there; returns how many bins reached ``to``.

        A copy that is many epochs behind has few rows in each: as many epochs as are small together share a transaction.
        """
        changes: list[Entries] = []
        rows = _delta_rows(self.storage, self.files, bins, have, self.to)
        for epoch in range(have + 1, self.to + 1):
            changes += next(rows)
            if epoch < self.to and self.limits.hold(changes):
                continue
            # What took all of a round's time to read is applied, or the next round would read it in vain as well.
            if not self.pause() and (self.progress.bins or self.progress.rows):
                return 0
            failpoints.reached("catchup.before")
            self.store.advance_copies(self.fence, bins, Epoch(epoch), changes, have=have)
            self.progress.count(changes)
            have, changes = Epoch(epoch), []
        return len(bins)

    def _load(self, rebuild: BinRebuild, bins: BinSet) -> None:
        if self.files.complete_to() < self.to:
            raise NeedsBringUp(f"the files given lead to epoch {self.files.complete_to()}, not to {self.to}")
        rows = rebuild.rows(bins)
        failpoints.reached("copy.before")
        self.store.install_copies(self.fence, bins, self.to, [rows], begin=True, done=True, pause=self.pause)
        failpoints.reached("copy.after")
        self.progress.bins += len(bins)
        self.progress.count([rows])


def by_epoch(copies: Mapping[Bin, Epoch], bins: BinSet) -> list[tuple[Epoch, BinSet]]:
    """The copies among ``bins``, grouped by their epoch.

    >>> by_epoch({Bin(1): Epoch(4), Bin(2): Epoch(5), Bin(3): Epoch(4)}, BinSet([1, 3, 9]))
    [(4, BinSet(1, 3))]
    """
    groups: dict[Epoch, list[int]] = {}
    for b in bins:
        if b in copies:
            groups.setdefault(copies[b], []).append(b)
    return [(epoch, BinSet(found)) for epoch, found in groups.items()]


def _delta_rows(storage: Storage, files: BringUp, bins: BinSet, have: Epoch, to: Epoch) -> Iterator[list[Entries]]:
    """What happened to ``bins`` in each epoch after ``have``."""
    deltas = [delta for delta in files.deltas if have < delta.epoch <= to and delta.bins & bins]
    parts = read_parts(storage, [(delta.file, delta.bins & bins) for delta in deltas])
    number = Counter(delta.epoch for delta in deltas)
    for epoch in range(have + 1, to + 1):
        yield [rows for part in islice(parts, number[Epoch(epoch)]) for rows in part]
