"""The machinery below the engine for tests in one process: workers with stores in memory, jobs that run task by task, and batches.

See `binshift.engine.ports`; what is decided is decided by the engine's own loops above.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from binshift.engine.epoch_plan import BatchOffsets, EpochPlan
from binshift.engine.ports import Executor, Placement
from binshift.errors import EpochFailed
from binshift.log.storage.contract import Storage
from binshift.model import Epoch, Worker
from binshift.operators.contract import BIN_COLUMN, Operator
from binshift.store.bins.binstore import BinStore
from binshift.store.engine.memory_store import MemoryStore
from binshift.worker.background_task import Budget, Duty, run_round
from binshift.worker.epoch_task import EpochTask
from binshift.worker.kept_times import KeptTimes
from binshift.worker.messages import BackgroundReport, BackgroundSpec, EpochSpec, Summary

ROUND_SECONDS_MAX = 60.0


@dataclass(frozen=True)
class Batch:
    """The input of an epoch.

    Attributes:
        rows: as F delivers them, of all workers, sorted by bin and key.
        offsets: times, and what identifies the batch.
    """

    rows: pa.RecordBatch
    offsets: BatchOffsets


@dataclass
class WorkerSlot:
    """A worker.

    Attributes:
        store: its bins.
        kept: what its process knows of them.
        executor: counts its processes.
        is_doomed: whether it is lost in the next epoch, with its store.
    """

    store: BinStore
    kept: KeptTimes = field(default_factory=KeptTimes)
    executor: int = 0
    is_doomed: bool = False

    def replace(self, bins: int) -> None:
        """Another process, on another machine."""
        self.store, self.kept = BinStore(MemoryStore(), bins), KeptTimes()
        self.executor, self.is_doomed = self.executor + 1, False


@dataclass
class Workers:
    """All workers; see `binshift.engine.ports.Executors`.

    Attributes:
        bins: the number of bins.
        members: by slot.
    """

    bins: int
    members: dict[Worker, WorkerSlot] = field(default_factory=dict)

    def grow(self, count: int) -> None:
        """Have at least so many."""
        for slot in range(len(self.members), count):
            self.members[Worker(slot)] = WorkerSlot(BinStore(MemoryStore(), self.bins))

    def alive(self) -> Mapping[Worker, Executor]:
        """See `Executors`."""
        return {slot: Executor(str(each.executor), str(slot), 2) for slot, each in self.members.items()}


class InProcessJobs:
    """Runs tasks one after the other; see `binshift.engine.ports.Jobs`.

    Args:
        workers: where they run.
        storage: of the log.
        operator: what is tested.
        deliver: gets the output of every run that has succeeded.
    """

    def __init__(
        self,
        workers: Workers,
        storage: Storage,
        operator: Callable[[], Operator],
        deliver: Callable[[Epoch, list[pa.RecordBatch]], None],
    ) -> None:
        self._workers = workers
        self._storage = storage
        self._operator = operator
        self._deliver = deliver
        self._attempts = 0

    def epoch(
        self, batch: Batch, plan: EpochPlan, specs: Sequence[EpochSpec], on: Placement, ready: Callable[[], None]
    ) -> Sequence[Summary]:
        """See `Jobs`."""
        ready()
        owners = plan.route.owners[batch.rows.column(BIN_COLUMN).to_numpy()]
        output, summaries = list[pa.RecordBatch](), list[Summary]()
        for spec in specs:
            rows = batch.rows.filter(pa.array(owners == spec.worker))
            output += self._task(spec, rows, summaries.append)
        self._deliver(plan.epoch, output)
        return summaries

    def _task(self, spec: EpochSpec, rows: pa.RecordBatch, report: Callable[[Summary], None]) -> list[pa.RecordBatch]:
        worker = self._workers.members[spec.worker]
        self._attempts += 1
        attempt = f"{spec.run_prefix}{self._attempts}"
        task = EpochTask(spec, self._operator(), worker.store, self._storage, attempt, worker.kept)
        steps = task.run([rows] if rows.num_rows else [], report)
        if worker.is_doomed:
            next(steps, None)
            worker.replace(self._workers.bins)
            raise EpochFailed(f"worker {spec.worker} was lost in epoch {spec.epoch}, as the test requested")
        return list(steps)

    def publish(self, epoch: Epoch) -> None:
        """See `Jobs`."""

    def background(
        self,
        specs: Sequence[BackgroundSpec],
        on: Mapping[Worker, Executor],
        report: Callable[[BackgroundReport], None],
    ) -> None:
        """See `Jobs`."""
        for spec in specs:
            budget = Budget(ROUND_SECONDS_MAX, Duty(1.0), sleep=lambda _: None)
            report(run_round(spec, self._workers.members[spec.worker].store, self._storage, budget))

    def rehearse(self, on: Mapping[Worker, Executor]) -> None:
        """See `Jobs`."""

    def working(self) -> bool:
        """See `Jobs`."""
        return False


@dataclass
class GivenBatches:
    """The batches so far; see `binshift.engine.ports.Batches`.

    Attributes:
        batches: by epoch.
        wake_at_ms: when an epoch is due without input; None: never.
    """

    batches: list[Batch] = field(default_factory=list)
    wake_at_ms: int | None = None

    def offsets(self, epoch: Epoch) -> BatchOffsets:
        """See `Batches`."""
        return self.batches[epoch].offsets

    def next_watermark_ms(self) -> int | None:
        """See `Batches`; the test decides when the next epoch is."""
        return None

    def wake(self, *, final: bool) -> None:
        """See `Batches`."""

    def wake_at(self, time_ms: int | None) -> None:
        """See `Batches`."""
        self.wake_at_ms = time_ms
