"""One worker's part of one run of an epoch, from opening the store to the summary.

The straight line: check what the store holds and bring it to the recorded state of the epoch before (usually: nothing to
do), run the operator, write the delta, commit the store, report. Output rows are yielded as they come; whatever ends the
generator early (a failing sink, a cancelled job) leaves a store that the next run undoes. The commit raises the fence; after
trouble it is raised first, so that no earlier run's task can commit meanwhile.

The log has the epoch once the delta is written, and the store is a cache of the log. A caller can therefore send the summary while the
commit is under way (`EpochTask.committing`). A store that is cut off in between is one epoch behind, and catches up by a delta.

In replay mode (the epoch's record exists already, but Spark has not heard of it) the operator runs for its output
alone, and the store adopts the recorded changes: the state of the record wins, always (invariant I3).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

import pyarrow as pa

from binshift import failpoints
from binshift.entries import Entries, merge_last_wins
from binshift.invariants import invariant
from binshift.log.files.blocks import write_file
from binshift.log.files.reading import read_all
from binshift.log.records.commits import FileRef
from binshift.log.storage.contract import Storage
from binshift.log.storage.layout import delta_name
from binshift.model import Stamp
from binshift.operators.contract import EpochContext, EpochState, Keyed, Processor, states_changed
from binshift.store.bins.binstore import BinStore
from binshift.store.bins.epoch_commit import EpochCommit
from binshift.store.bins.fenced_store import Reader
from binshift.store.engine.contract import Size
from binshift.worker.base_state import BaseState
from binshift.worker.kept_times import KeptTimes
from binshift.worker.key_sample import KeySample
from binshift.worker.messages import EpochSpec, Summary
from binshift.worker.record_counter import RecordCounter

Clock = Callable[[], float]
"""Seconds that only ever grow; for measuring, never for deciding."""


@dataclass
class EpochTask:
    """Runs one `EpochSpec` against a store and a log.

    Attributes:
        spec: what to do.
        operator: the state operator, or what runs before it.
        store: this worker's bins of this operator.
        storage: the log's files.
        attempt: the id of this attempt, unique forever; starts with the spec's ``run_prefix``.
        kept: what this process knows of the store's indexes by time.
        clock: measures the parts.
        seconds: the parts measured so far.
    """

    spec: EpochSpec
    operator: Processor
    store: BinStore
    storage: Storage
    attempt: str
    kept: KeptTimes = field(default_factory=KeptTimes)
    clock: Clock = time.perf_counter
    seconds: dict[str, float] = field(default_factory=dict)
    _counter: RecordCounter = field(init=False)
    _sample: KeySample | None = None
    _ran: _Ran | None = None
    _rows_out: int = 0
    _brought_up: int = 0

    def __post_init__(self) -> None:
        self._counter = RecordCounter(self.spec.owned if self.spec.count_bins else None)
        if self.spec.count_bins and isinstance(self.operator, Keyed):
            self._sample = KeySample(self.operator)

    def run(self, batches: Iterable[pa.RecordBatch], report: Callable[[Summary], None]) -> Iterator[pa.RecordBatch]:
        """Yield the output rows, then commit and report. Nothing is reported unless every row was taken.

        Raises:
            SparkRetried, NeedsBringUp, Fenced: as in `process`, or in `committing`.
        """
        yield from self.process(batches)
        with self.committing() as summary:
            pass
        report(replace(summary, seconds=dict(self.seconds)))

    def process(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the output rows. Nothing is changed yet, but for a store that has to be brought to the epoch before.

        Raises:
            SparkRetried: the store carries a state of this very run.
            NeedsBringUp: the store cannot be brought to the epoch before with the files given.
            Fenced: a newer run or driver owns the store.
        """
        invariant(self.attempt.startswith(self.spec.run_prefix), "an attempt id belongs to its run")
        with self._timed("bring_up"):
            base, self._brought_up = BaseState(self.spec, self.store, self.storage).reach()
        started = self.clock()
        with self.store.reader(remember=self.spec.undo) as reader:
            state = EpochState(reader, times=self.kept.at(base))
            for output in self.operator.run(self._counted(batches), state, self._context()):
                self._rows_out += output.num_rows
                yield output
                failpoints.reached("sink.middle")
        self.seconds["process"] = self.clock() - started
        self._ran = _Ran(base, reader, state)

    @contextmanager
    def committing(self) -> Iterator[Summary]:
        """The summary, once all rows were taken: the delta is durable, and the store is committed when the block is left normally.

        In the block the store is locked and nothing can be refused any more (I2, I8): the summary counts if it is sent. A store that
        has not got to its commit is an epoch behind.

        Raises:
            NeedsBringUp: another task has changed the store meanwhile.
            Fenced: a newer run or driver owns it.
        """
        ran = self._ran
        invariant(ran is not None, "an epoch is committed after its input")
        assert ran is not None
        stamp, delta, changes = self._settle(ran.state.changes)
        failpoints.reached("commit.before")
        started = self.clock()
        with self.store.committing(
            self.spec.fence,
            expect=ran.base,
            stamp=stamp,
            owned=self.spec.owned,
            changes=[changes] if changes.num_rows else [],
            undo=self.spec.undo,
            read=ran.reader,
        ) as commit:
            wake_at_ms, stored = self._keep_times(ran.state, stamp, changes, commit), commit.size()
            self.seconds["commit"] = self.clock() - started
            yield self._summary(stamp, delta, changes, ran.state, stored, wake_at_ms)
        self.seconds["commit"] = self.clock() - started
        failpoints.reached("commit.after")

    def read(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield what the operator makes of the rows and of the state before the epoch; nothing is committed or reported.

        Raises:
            SparkRetried, NeedsBringUp, Fenced: as in `run`.
        """
        BaseState(self.spec, self.store, self.storage).reach()
        with self.store.reader() as reader:
            yield from self.operator.run(iter(batches), EpochState(reader), self._context())

    def _settle(self, changes: Sequence[Entries]) -> tuple[Stamp, FileRef | None, Entries]:
        """Decide the new state: in replay the recorded one, else this attempt's, whose delta is made durable first."""
        with self._timed("delta"):
            if self.spec.replay is not None:
                recorded = self.spec.replay
                rows = list(read_all(self.storage, recorded.delta)) if recorded.delta else []
                return recorded.stamp, recorded.delta, merge_last_wins(rows)
            stamp = Stamp(self.spec.epoch, self.attempt)
            merged = merge_last_wins(changes)
            if not merged.num_rows:
                return stamp, None, merged
            name = delta_name(self.spec.epoch, self.spec.operator, self.spec.worker, self.attempt)
            failpoints.reached("delta.before")
            delta = write_file(self.storage, name, [merged])
            failpoints.reached("delta.after")
            return stamp, delta, merged

    def _keep_times(self, state: EpochState, stamp: Stamp, changes: Entries, commit: EpochCommit) -> int | None:
        """Keep what is known of the indexes by time after the epoch; returns when the owned bins need another one."""
        state.times.change(changes, self.spec.owned)
        self.kept.keep(stamp, state.times)
        return None if state.wake is None else state.wake.at_ms(commit.reader(), self.spec.owned)

    def _context(self) -> EpochContext:
        spec = self.spec
        return EpochContext(spec.epoch, spec.batch_time_ms, spec.watermark_ms, spec.previous_watermark_ms, spec.owned)

    def _counted(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            self._counter.add(batch)
            if self._sample is not None:
                self._sample.add(batch)
            yield batch

    def _summary(
        self,
        stamp: Stamp,
        delta: FileRef | None,
        changes: Entries,
        state: EpochState,
        stored: Size,
        wake_at_ms: int | None,
    ) -> Summary:
        states_set, states_deleted = states_changed(changes)
        return Summary(
            fence=self.spec.fence,
            operator=self.spec.operator,
            worker=self.spec.worker,
            stamp=stamp,
            delta=delta,
            rows_in=self._counter.rows - state.rows_late,
            rows_out=self._rows_out,
            seconds=dict(self.seconds),
            brought_up=self._brought_up,
            states_set=states_set,
            states_deleted=states_deleted,
            rows_late=state.rows_late,
            counts=dict(state.counts),
            rows_stored=stored.rows,
            bytes_stored=stored.bytes,
            records_in=self._counter.records,
            weighed_in=self._counter.weighed,
            bin_records=self._counter.packed(),
            frequent_key=None if self._sample is None else self._sample.most_frequent(),
            wake_at_ms=wake_at_ms,
        )

    def _timed(self, part: str) -> _Timer:
        return _Timer(self, part)


@dataclass(frozen=True)
class _Ran:
    """What an epoch's input has led to: from the state ``base``, which ``reader`` has read."""

    base: Stamp
    reader: Reader
    state: EpochState


@dataclass
class _Timer:
    task: EpochTask
    part: str
    started: float = 0.0

    def __enter__(self) -> None:
        self.started = self.task.clock()

    def __exit__(self, *error: object) -> None:
        self.task.seconds[self.part] = self.task.clock() - self.started
