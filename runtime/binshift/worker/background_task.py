"""One round of background work on one worker: copy and catch up, drop, snapshot, within a budget of time.

A round never holds the store's write lock for long, reads only recorded state from the log, and stops at its budget, so an
epoch waits neither for a task slot nor for a lock (invariant I6). The next round does what this one leaves undone: an order has
the desired state, not the change.
"""

from __future__ import annotations

import contextlib
import logging
import math
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

import numpy as np

from binshift import failpoints
from binshift.entries import Entries, bins_array, row_bytes
from binshift.errors import BinshiftError, Fenced, LogDamaged, NeedsBringUp, StoreBusy, StoreDamaged
from binshift.log.files.blocks import write_file
from binshift.log.records.bin_sizes import pack
from binshift.log.records.commits import SnapshotRef
from binshift.log.storage.contract import Storage
from binshift.log.storage.layout import snapshot_name
from binshift.model import BinSet, Fence
from binshift.store.bins.binstore import BinStore
from binshift.store.bins.fenced_store import Reader
from binshift.worker.bring_up import bring_up
from binshift.worker.messages import BackgroundReport, BackgroundSpec, CopyOrder
from binshift.worker.rebuild import Limits

log = logging.getLogger(__name__)

ROUND_LIMITS = Limits(
    bins_at_once=1024,
    rows_at_once=64_000,
    bytes_at_once=4 << 20,
    rows_per_transaction=2_500,
    bytes_per_transaction=1 << 20,
)
"""Small transactions: an epoch must never wait long for the write lock. Small groups: a round ends soon after its budget."""

DUTY_MIN = 0.01
"""Of a core: no order makes background work stop."""

SNAPSHOT_REST_SECONDS_MAX = 0.5
"""A snapshot rests for so long: a migration may wait for the end of its round."""

SNAPSHOT_ROWS_AT_ONCE = 2_000
"""About so many rows are read between two rests: those of small bins together, as each batch costs as much as some hundred rows."""

Sleep = Callable[[float], None]


class Duty:
    """A share of a core for threads that work at the same time; one that works alone has all of it."""

    def __init__(self, share: float) -> None:
        self._share = max(share, DUTY_MIN)
        self._lock = threading.Lock()
        self._used_up_until = -math.inf

    def rest(self, began: float, ended: float, used: float) -> float:
        """Seconds to rest after a piece of work. Its wait for a core or a disk counts as rest; negative if that took longer.

        Args:
            began: of the same clock for all threads.
            ended: now.
            used: seconds of the processor.
        """
        with self._lock:
            self._used_up_until = max(self._used_up_until, began) + used / self._share
            return self._used_up_until - ended


@dataclass
class Budget:
    """Keeps a round of one operator within its time, and its worker within its duty cycle.

    Attributes:
        seconds: start nothing new after this long.
        duty: after each piece of work the round rests.
        clock: wall time.
        cpu: processor time of this thread.
        sleep: rests.
    """

    seconds: float
    duty: Duty
    clock: Callable[[], float] = time.monotonic
    cpu: Callable[[], float] = time.thread_time
    sleep: Sleep = time.sleep
    _started: float = field(init=False)
    _resumed: float = field(init=False)
    _used: float = field(init=False)

    def __post_init__(self) -> None:
        self._started = self._resumed = self.clock()
        self._used = self.cpu()

    def __call__(self) -> bool:
        """Rest as the duty cycle asks; whether there is time for more."""
        rest = self.duty.rest(self._resumed, self.clock(), self.cpu() - self._used)
        left = self.seconds - (self.clock() - self._started)
        if rest > 0 and left > 0:
            self.sleep(min(rest, left))
        self._resumed, self._used = self.clock(), self.cpu()
        return self._resumed - self._started < self.seconds


def run_round(
    spec: BackgroundSpec, store: BinStore, storage: Storage, budget: Budget | None = None
) -> BackgroundReport:
    """Do what ``spec`` asks as far as its budget goes, and report what the store holds.

    Raises:
        Fenced: the store belongs to a newer driver.
        StoreDamaged: it will be found empty.
    """
    budget = budget or Budget(spec.budget_seconds, Duty(spec.duty))
    failed = damaged = None
    size = 0
    try:
        _begin(store, spec)
        for order in spec.copies:
            if not budget():
                break
            _let_go(store, spec, order)
            progress = bring_up(
                store, storage, spec.fence, order.bins, order.epoch, order.bring_up, limits=ROUND_LIMITS, pause=budget
            )
            size += progress.bytes
        _retire(store, spec, budget)
    except (Fenced, StoreDamaged):  # the next task to open a damaged store finds it empty, and fills it again
        raise
    except (NeedsBringUp, StoreBusy) as error:
        log.info("a round of worker %s was overtaken by an epoch: %s", spec.worker, error)
    except BinshiftError as error:  # this worker's trouble is not that of the others
        failed = f"{type(error).__name__}: {error}"
        damaged = error.file if isinstance(error, LogDamaged) else None
    seconds = budget.clock() - budget._started
    rest = replace(budget, seconds=SNAPSHOT_REST_SECONDS_MAX)
    snapshot = _snapshot(spec, store, storage, rest) if spec.snapshot and not failed else None
    status = store.status()
    return BackgroundReport(
        operator=spec.operator,
        worker=spec.worker,
        copies={int(b): int(e) for b, e in status.copies.items()},
        dropping=status.dropping | spec.drop & (status.held_copies.bin_set() | status.partial_bins),
        bytes_copied=size,
        snapshot=snapshot,
        failed=failed,
        damaged=damaged,
        seconds=seconds,
    )


def _begin(store: BinStore, spec: BackgroundSpec) -> None:
    """What the store owns is what the records name: an epoch can be recorded, and its commit here still under way."""
    store.wait_for_writer()
    if spec.idle and store.status().owned:
        _forget(store, spec.fence)


def _retire(store: BinStore, spec: BackgroundSpec, budget: Budget) -> None:
    """Drop what was given away; a bin may have come back since the order."""
    if drop := spec.drop - store.status().owned:
        failpoints.reached("retire.before")
        store.drop_copies(spec.fence, drop, budget)


def _let_go(store: BinStore, spec: BackgroundSpec, order: CopyOrder) -> None:
    """Empty a store that owns bins which it is to get copies of: a run that never counted left it so.

    Or an epoch that runs now has just given it those bins: its fence is higher than the order's, and all stays as it is.
    """
    if store.status().owned & order.bins:
        _forget(store, spec.fence)


def _forget(store: BinStore, fence: Fence) -> None:
    """Empty the store, unless an epoch newer than the order uses it."""
    with contextlib.suppress(Fenced):
        store.reset(fence)


def _snapshot(spec: BackgroundSpec, store: BinStore, storage: Storage, rest: Budget) -> SnapshotRef | None:
    """Write the owned among the wanted bins, as of the stamp read in the same transaction; it rests in between."""
    with store.reader() as reader:
        bins = spec.snapshot & reader.status.owned
        stamp = reader.status.stamp
        if not bins or stamp.epoch < 0:
            return None
        failpoints.reached("snapshot.before")
        name = snapshot_name(stamp.epoch, spec.operator, spec.worker, spec.snapshot_attempt, 0)
        rows: dict[int, int] = {}
        size: dict[int, int] = {}
        file = write_file(storage, name, _counted(reader, bins, rows, size, rest))
    failpoints.reached("snapshot.after")
    return SnapshotRef.of(spec.operator, spec.worker, stamp, bins, file, pack([*rows.values()], [*size.values()]))


def _counted(
    reader: Reader, bins: BinSet, rows: dict[int, int], size: dict[int, int], rest: Callable[[], object]
) -> Iterator[Entries]:
    """All rows of ``bins``; how many, and their bytes, are noted for each bin that has any, in the bins' order."""
    at = done = 0
    while at < len(bins):
        per_bin = done / at if at else SNAPSHOT_ROWS_AT_ONCE
        some = bins.array[at : at + max(1, int(SNAPSHOT_ROWS_AT_ONCE / max(per_bin, 1)))]
        for part in reader.scan_bins(some.tolist()):
            found, first = np.unique(bins_array(part), return_index=True)
            counts, sizes = np.diff(first, append=part.num_rows), np.add.reduceat(row_bytes(part), first)
            for b, count, content in zip(found.tolist(), counts.tolist(), sizes.tolist(), strict=True):
                rows[b] = rows.get(b, 0) + count
                size[b] = size.get(b, 0) + content
            done += part.num_rows
            yield part
            rest()
        at += len(some)
