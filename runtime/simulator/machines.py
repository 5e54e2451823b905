"""Worker slots: a machine with a disk, and the executor process on it.

The disk outlives the executor: a new executor finds the stores as the last one left them. `wipe` replaces the machine of
the slot.

A task that answers early sends its summary first and commits its store later, as a standing task does. It keeps the store's lock: a task
that writes to the store waits for it, and one that only reads finds the state before.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from dataclasses import dataclass, field

import pyarrow as pa

from binshift.engine.ports import Executor
from binshift.errors import BinshiftError, InvalidSettings, StoreBusy
from binshift.log.storage.contract import Storage
from binshift.model import Worker
from binshift.operators.contract import Operator
from binshift.store.bins.binstore import BinStore
from binshift.store.engine.contract import KeyValueStore, StoreLimits
from binshift.store.engine.memory_store import MemoryStore
from binshift.worker.background_task import Budget, run_round
from binshift.worker.epoch_task import EpochTask
from binshift.worker.kept_times import KeptTimes
from binshift.worker.messages import BackgroundReport, BackgroundSpec, EpochSpec, Summary
from simulator.faults import Faults, Killed, Process
from simulator.faulty import FaultyStorage, FaultyStore
from simulator.flows import Row

NewStore = Callable[[str, Worker], KeyValueStore]
"""Creates an empty store for an operator on a worker."""


@dataclass
class Task:
    """One worker's part of a run of an epoch, in progress.

    Attributes:
        spec: the task's order.
        steps: its output, batch by batch; None once it has answered, and its store is not committed.
        rows: the output so far.
        answered: whether only the commit is left.
    """

    spec: EpochSpec
    steps: Generator[pa.RecordBatch | None]
    rows: list[Row] = field(default_factory=list)
    answered: bool = False

    def advance(self) -> bool:
        """Advance by one step; whether there are more."""
        try:
            batch = next(self.steps)
        except StopIteration:
            return False
        self.answered = batch is None
        if batch is not None:
            self.rows += batch.to_pylist()
        return True


class Machine:
    """One worker slot.

    Attributes:
        unfit: why no epoch can be rehearsed there.
        slot: its number.
        executor: counts the executors so far; a new one has the next number.
        process: the current executor, or the last one.
        alive: whether an executor is running.
        emptied: the operators whose stores were lost, and were not opened by an epoch since.
        committing: tasks that have answered, and hold the locks of their stores.
        behind: the operators whose last commit was cut off, and that no epoch has opened since.
        summaries_lost: the operators whose next summary will not arrive.
        broken: why no background task can run there; "killed" also kills the task's process.
    """

    def __init__(
        self, slot: Worker, bins: int, files: Storage, new_store: NewStore, limits: StoreLimits, faults: Faults
    ) -> None:
        self.slot = slot
        self.executor = 0
        self.process = Process(f"executor {slot}.0")
        self.alive = True
        self.broken = ""
        self.unfit = ""
        self.emptied: set[str] = set()
        self.committing: list[Task] = []
        self.behind: set[str] = set()
        self.summaries_lost: set[str] = set()
        self._bins = bins
        self._files = files
        self._new_store = new_store
        self._limits = limits
        self._faults = faults
        self._disk: dict[str, KeyValueStore] = {}
        self._kept: dict[tuple[str, str], KeptTimes] = {}

    @property
    def registered(self) -> Executor:
        """The current or last executor as a driver knows it."""
        return Executor(str(self.executor), str(self.slot), 2)

    def restart(self) -> None:
        """End the executor, if it has not ended, and start another one."""
        self._end()
        self.executor += 1
        self.process = Process(f"executor {self.slot}.{self.executor}")
        self.alive = True

    def leave(self) -> None:
        """End the executor; none is started."""
        self._end()
        self.alive = False

    def _end(self) -> None:
        self.process.dead = True
        for task in self.committing:
            self._cut_off(task)
        self.committing.clear()

    def _cut_off(self, task: Task) -> None:
        task.steps.close()
        self.behind.add(task.spec.operator)

    @property
    def uncommitted(self) -> set[str]:
        """The operators whose stores do not have the epoch that their last task has answered."""
        return self.behind | {task.spec.operator for task in self.committing}

    def commit(self) -> None:
        """Tasks that have answered commit their stores, as far as nothing prevents it."""
        while self.committing:
            task = self.committing.pop(0)
            try:
                task.advance()
            except Killed:
                self._cut_off(task)  # its process is found dead by the task that needs it next
            except BinshiftError:
                self._cut_off(task)

    def wipe(self) -> None:
        """Empty the disk and end its processes."""
        self.forget()
        if self.alive:
            self.restart()

    def forget(self) -> None:
        """Empty the stores without a report: as after damage that a store detects itself."""
        self.commit()
        self.emptied |= self._disk.keys()
        self._disk.clear()

    def disk(self, operator: str) -> KeyValueStore:
        """The rows on disk, for checks from outside."""
        if operator not in self._disk:
            self._disk[operator] = self._new_store(operator, self.slot)
        return self._disk[operator]

    def open_unfaulted(self, operator: str) -> BinStore:
        """The store as seen from outside, without faults."""
        return BinStore(self.disk(operator), self._bins, self._limits)

    def _store(self, operator: str) -> BinStore:
        store = FaultyStore(self.disk(operator), self._faults, self.process, self.commit)
        return BinStore(store, self._bins, self._limits)

    def _scratch(self) -> BinStore:
        """A store for one task, which is discarded afterwards."""
        return BinStore(FaultyStore(MemoryStore(self._limits), self._faults, self.process), self._bins, self._limits)

    def _storage(self) -> Storage:
        return FaultyStorage(self._files, self._faults, self.process)

    def run(
        self,
        spec: EpochSpec,
        operator: Operator,
        batches: Iterable[pa.RecordBatch],
        attempt: str,
        report: Callable[[Summary], None],
        *,
        early: bool = False,
    ) -> Task:
        """Start one task of an epoch; an ``early`` one answers before it commits."""
        process = self.process
        if early:  # one standing task has all epochs
            self.commit()

        def sent(summary: Summary) -> None:
            self._faults.step(process, f"sending its summary of epoch {spec.epoch}")
            if spec.operator in self.summaries_lost:
                self.summaries_lost.remove(spec.operator)
            else:
                report(summary)

        def steps(task: EpochTask) -> Generator[pa.RecordBatch | None]:
            if not early:
                yield from task.run(batches, sent)
                return
            yield from task.process(batches)
            with task.committing() as summary:
                sent(summary)
                yield None
                what = f"committing epoch {spec.epoch}"
                self._faults.effect(process, "store", what, lambda: None, StoreBusy)

        self.emptied.discard(spec.operator)
        self.behind.discard(spec.operator)
        store = self._scratch() if spec.scratch else self._store(spec.operator)
        kept = KeptTimes() if spec.scratch else self._kept.setdefault((process.name, spec.operator), KeptTimes())
        task = EpochTask(spec, operator, store, self._storage(), attempt, kept)
        return Task(spec, steps(task))

    def background(self, spec: BackgroundSpec, budget: Budget) -> BackgroundReport:
        """One background round."""
        process = self.process
        if self.broken == "killed":
            raise Killed(Process(f"a task on worker {self.slot}"), "its round")
        if self.broken:
            raise InvalidSettings(self.broken)
        report = run_round(spec, self._store(spec.operator), self._storage(), budget)
        self._faults.step(process, "reporting its round")
        return report
