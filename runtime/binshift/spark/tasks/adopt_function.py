"""The task that writes adopted rows to the log: one partition for each worker, sorted by bin."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import msgspec
import pyarrow as pa

from binshift import entries
from binshift.log.files.blocks import FileWriter
from binshift.log.storage import layout
from binshift.model import Bin, Epoch, IntArray, Term, Worker
from binshift.operators.contract import EpochState
from binshift.operators.grouping import bin_groups
from binshift.operators.stored import Adoptable
from binshift.spark.tasks.task import storage_of, task_context
from binshift.worker.messages import LogLocation

WRITTEN = "worker int, attempt string, file string, wake_at_ms long"
"""What a task returns: a row with the worker, the attempt, the file as JSON, null if it has no rows, and `EpochState.wake`."""

GROUP_BYTES = 16 << 20


class NoState:
    """A reader of a state without rows."""

    def get_many(self, bins: IntArray, keys: pa.BinaryArray) -> pa.BinaryArray:
        """Nothing is stored."""
        return pa.nulls(len(keys), pa.binary())

    def scan(self, bin: Bin, start: bytes = b"", stop: bytes | None = None) -> Iterator[entries.Entries]:
        """Nothing is stored."""
        return iter(())

    def scan_bins(self, bins: Sequence[Bin], start: bytes, stop: bytes) -> Iterator[entries.Entries]:
        """Nothing is stored."""
        return iter(())

    def first_keys(self, bins: IntArray, space: bytes, length: int) -> list[bytes]:
        """Nothing is stored."""
        return [b""] * len(bins)


@dataclass(frozen=True)
class AdoptFunction:
    """For `mapInArrow`.

    Attributes:
        operator: whose state the rows become.
        name: the operator's name on the log.
        location: of the log.
        epoch: whose state it is.
        term: the driver's.
        workers: by partition.
    """

    operator: Adoptable
    name: str
    location: LogLocation
    epoch: Epoch
    term: Term
    workers: tuple[Worker, ...]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Write the file of this partition's worker; a task that Spark repeats writes another one."""
        context = task_context()
        worker = self.workers[context.partitionId()]
        attempt = f"{self.term}.{self.epoch}.adopted.{context.taskAttemptId()}"
        name = layout.delta_name(self.epoch, self.name, worker, attempt)
        wakes: list[int] = []
        with FileWriter(storage_of(self.location), name) as writer:
            for group in bin_groups(batches, GROUP_BYTES):
                state = EpochState(NoState())
                self.operator.adopt(_one(group), state)
                changes = entries.sort(entries.concat(state.changes))
                writer.add(changes)
                wakes += _wake_of(state, changes)
            file = writer.finish()
        text = None if file is None else msgspec.json.encode(file).decode()
        columns = [pa.array([worker], pa.int32()), pa.array([attempt], pa.string()), pa.array([text], pa.string())]
        wake = pa.array([min(wakes, default=None)], pa.int64())
        yield pa.RecordBatch.from_arrays([*columns, wake], ["worker", "attempt", "file", "wake_at_ms"])


def _wake_of(state: EpochState, changes: entries.Entries) -> list[int]:
    """The moment at which the changes need an epoch, if there is one."""
    if state.wake is None:
        return []
    first = state.wake.index.first_of(changes)
    return [] if first is None else [first + state.wake.after_ms]


def _one(group: pa.Table) -> pa.RecordBatch:
    (batch,) = group.combine_chunks().to_batches()
    return batch
