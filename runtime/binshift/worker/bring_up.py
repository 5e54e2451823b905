"""The one mechanism: a worker brings bins to an epoch from the log.

Migration, catch-up, recovery, standbys and rollback are all this: load a bin's newest snapshot, apply the recorded
deltas after it. The log is only read; the store is written in transactions small enough that an epoch waiting for
the write lock never notices. A bin becomes visible as a copy only when it is complete.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice

from binshift import failpoints
from binshift.entries import Entries
from binshift.errors import NeedsBringUp
from binshift.log.blocks import read_parts
from binshift.log.index import BringUp
from binshift.log.storage import Storage
from binshift.model import Bin, BinSet, Epoch, Fence
from binshift.store.binstore import BinStore
from binshift.worker.rebuild import BinRebuild, Limits

ATTEMPTS_MAX = 3
"""How often a bring-up looks again after it was overtaken by another one of the same bins."""

Pause = Callable[[], bool]
"""Called between transactions: may wait (to keep its duty cycle), and says whether to go on."""


def never_pause() -> bool:
    """Go on at full speed: bring-up inside an epoch."""
    return True


@dataclass
class Progress:
    """What a bring-up has done so far."""

    bins: int = 0
    rows: int = 0
    bytes: int = 0


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
    """Make every one of ``bins`` a copy at epoch ``to``; bins that are there already are left alone.

    Copies a few deltas behind are advanced; all others are loaded afresh. Stops early when ``pause`` says so: then
    some bins are complete copies, the others as before.

    Raises:
        NeedsBringUp: ``files`` does not lead to ``to``.
        LogDamaged: a file is missing or damaged, and the bins that need it are not here.
    """
    limits = limits or Limits()
    progress = Progress()
    for attempt in range(1, ATTEMPTS_MAX + 1):
        try:
            _attempt(store, storage, fence, bins, to, files, limits, progress, pause)
            break
        except NeedsBringUp:
            if attempt == ATTEMPTS_MAX:
                raise
    return progress


def _attempt(
    store: BinStore,
    storage: Storage,
    fence: Fence,
    bins: BinSet,
    to: Epoch,
    files: BringUp,
    limits: Limits,
    progress: Progress,
    pause: Pause,
) -> None:
    """One pass over what is missing now: first the bins that are not here, then the copies that are behind.

    In this order a round that has little time gets somewhere with both: a copy that falls behind costs no more to advance later.
    An epoch and a background round may bring up the same bins at the same moment; whoever finds that the other was
    faster looks again at what is missing.
    """
    status = store.status()
    wanted = bins - status.owned
    if files.lost:
        files.check_not_lost(wanted - BinSet([b for b in wanted if status.copies.get(b) == to]))
    held = [
        (epoch, some)
        for epoch, some in by_epoch(status.copies, wanted)
        if epoch == to or (epoch < to and reaches(files, some, epoch))
    ]
    missing = wanted - BinSet([b for _, some in held for b in some.array])
    rebuild = BinRebuild(storage, files, missing & files.fresh)
    for group in rebuild.groups(limits):
        if not pause():
            return
        _load(store, rebuild, fence, group, to, limits, progress, pause)
    if held_elsewhere := missing - files.fresh:
        raise NeedsBringUp(f"{held_elsewhere!r} were thought to be held here; the files given do not build them anew")
    for epoch, some in sorted(held, key=lambda each: -each[0]):
        if epoch < to:
            progress.bins += advance(store, storage, fence, some, epoch, to, files, limits, progress, pause)


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


def reaches(files: BringUp, bins: BinSet, have: Epoch) -> bool:
    """Whether ``files`` tells of every epoch after ``have``, so that copies at ``have`` can be advanced."""
    return files.complete_from(bins) <= have


def advance(
    store: BinStore,
    storage: Storage,
    fence: Fence,
    bins: BinSet,
    have: Epoch,
    to: Epoch,
    files: BringUp,
    limits: Limits,
    progress: Progress,
    pause: Pause,
) -> int:
    """Apply the deltas after ``have`` to copies that are all there; returns how many bins reached ``to``.

    A copy that is many epochs behind has few rows in each: as many epochs as are small together share a transaction.
    """
    changes: list[Entries] = []
    rows = _delta_rows(storage, files, bins, have, to)
    for epoch in range(have + 1, to + 1):
        changes += next(rows)
        if epoch < to and sum(part.num_rows for part in changes) < limits.rows_per_transaction:
            continue
        # What took all of a round's time to read is applied, or the next round would read it in vain as well.
        if not pause() and (progress.bins or progress.rows):
            return 0
        failpoints.reached("catchup.before")
        store.advance_copies(fence, bins, Epoch(epoch), changes, have=have)
        _count(progress, changes)
        have, changes = Epoch(epoch), []
    return len(bins)


def _load(
    store: BinStore,
    rebuild: BinRebuild,
    fence: Fence,
    bins: BinSet,
    to: Epoch,
    limits: Limits,
    progress: Progress,
    pause: Pause,
) -> None:
    if rebuild.files.complete_to() < to:
        raise NeedsBringUp(f"the files given lead to epoch {rebuild.files.complete_to()}, not to {to}")
    rows = rebuild.rows(bins)
    begin, at = True, 0
    while begin or at < rows.num_rows:
        part = rows.slice(at, limits.rows_per_transaction)
        at += limits.rows_per_transaction
        done = at >= rows.num_rows
        failpoints.reached("copy.before")
        store.install_copies(fence, bins, to, [part] if part.num_rows else [], begin=begin, done=done)
        failpoints.reached("copy.after")
        begin = False
        if not done:
            pause()
    progress.bins += len(bins)
    _count(progress, [rows])


def _delta_rows(storage: Storage, files: BringUp, bins: BinSet, have: Epoch, to: Epoch) -> Iterator[list[Entries]]:
    """What happened to ``bins`` in each epoch after ``have``."""
    deltas = [delta for delta in files.deltas if have < delta.epoch <= to and delta.bins & bins]
    parts = read_parts(storage, [(delta.file, delta.bins & bins) for delta in deltas])
    number = Counter(delta.epoch for delta in deltas)
    for epoch in range(have + 1, to + 1):
        yield [rows for part in islice(parts, number[Epoch(epoch)]) for rows in part]


def _count(progress: Progress, changes: list[Entries]) -> None:
    progress.rows += sum(part.num_rows for part in changes)
    progress.bytes += sum(part.nbytes for part in changes)
