"""The state that an epoch starts from: a worker's store is brought to what the record of the epoch before names.

Usually there is nothing to do. Else the store has an epoch that was never recorded, which is undone; or it was cut off before its last
commit, and its bins are copies that lack one delta; or it is of no use, and is emptied. Bins that are missing then come from the log (I2).

It must never let a store count that another task may be about to change: after trouble the fence is raised first, which waits for the
task that holds the store's lock (I8).
"""

from __future__ import annotations

from dataclasses import dataclass

from binshift import failpoints
from binshift.errors import NeedsBringUp, SparkRetried
from binshift.log.storage.contract import Storage
from binshift.model import Epoch, Stamp
from binshift.store.bins.binstore import BinStore
from binshift.store.bins.status import Status
from binshift.worker.bring_up import bring_up
from binshift.worker.messages import EpochSpec


@dataclass(frozen=True)
class BaseState:
    """Of one task.

    Attributes:
        spec: what the task is to do.
        store: this worker's bins of the operator.
        storage: the log's files.
    """

    spec: EpochSpec
    store: BinStore
    storage: Storage

    def reach(self) -> tuple[Stamp, int]:
        """Bring the store to the state that record ``epoch - 1`` names; returns the store's stamp, and the number of bins brought up.

        Raises:
            SparkRetried: the store carries a state of this very run.
            NeedsBringUp: bins are missing, and the given files do not lead to them.
            Fenced: a newer run or driver owns the store.
        """
        spec, status = self.spec, self._own()
        missing = spec.owned - status.owned
        if not missing:
            return status.stamp, 0
        without_files = missing if spec.bring_up is None else missing - spec.bring_up.bins
        if without_files - status.held_copies.at(spec.epoch - 1):
            raise NeedsBringUp(f"worker {spec.worker} lacks {len(missing)} of its bins at epoch {spec.epoch - 1}")
        if spec.bring_up is None:
            return status.stamp, 0
        progress = bring_up(self.store, self.storage, spec.fence, missing, Epoch(spec.epoch - 1), spec.bring_up)
        return status.stamp, progress.bins

    def _own(self) -> Status:
        """The store, in which all that is owned is in the state of the epoch before."""
        spec, store, status = self.spec, self.store, self.store.status()
        if not self._is_calm(status):
            store.raise_fence(spec.fence)
            status = store.status()
        failpoints.reached("epoch.fenced")
        if status.stamp.attempt.startswith(spec.run_prefix):
            raise SparkRetried(f"worker {spec.worker} has already run epoch {spec.epoch}, as {status.stamp.attempt}")
        if not self._is_reached(status) and status.undo_to is not None and status.undo_to == spec.expect:
            store.undo(spec.fence, spec.expect)
            status = store.status()
        if self._is_reached(status) or not status.owned:
            return status
        if status.stamp == spec.behind:
            store.disown(spec.fence)
        else:
            store.reset(spec.fence)
        return store.status()

    def _is_calm(self, status: Status) -> bool:
        """Whether no other task of this epoch, or of another driver, is known to have been here: then the commit raises the fence."""
        fence = self.spec.fence
        return self._is_reached(status) and fence.run == 0 and fence.term == status.fence.term and fence > status.fence

    def _is_reached(self, status: Status) -> bool:
        """Whether the owned bins are exactly in the state recorded for the epoch before."""
        if not self.spec.owned_before:
            return not status.owned
        return status.stamp == self.spec.expect and status.owned == self.spec.owned_before
