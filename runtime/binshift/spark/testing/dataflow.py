"""`Dataflow`: a processor over epochs in one process, on the engine that runs queries, with moves, losses and restarts on request.

Stores and log are in memory; Spark is the test: it gives the batches. Each output is compared where an epoch runs more than once.
"""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql.conversion import ArrowTableToRowsConversion
from pyspark.sql.streaming.stateful_processor import StatefulProcessor
from pyspark.sql.types import Row, StructType

from binshift.engine.dataflow import Dataflow as Running
from binshift.engine.epoch_plan import BatchOffsets
from binshift.engine.ports import Ports
from binshift.errors import InvalidQuery
from binshift.log.storage.opening import open_storage
from binshift.model import Bin, Epoch, Worker
from binshift.operators.processor.evolution import Encoding, History, Rules
from binshift.spark.testing.ddl import parse
from binshift.spark.testing.engine import start
from binshift.spark.testing.processing import Processing
from binshift.spark.testing.stored import values_of
from binshift.spark.testing.tester import MODES
from binshift.spark.testing.workers import Batch, GivenBatches, InProcessJobs, Workers

EPOCH_MS = 1000
"""Between the times of two epochs, unless the test gives them."""
ROUNDS_MAX = 1000
EPOCHS_MAX = 20


class Dataflow:
    """A processor, its state on several workers, and the epochs so far.

    Args:
        processor: what is tested; every run of an epoch has a new instance, as in a query.
        input: the columns of input rows, as DDL or a `StructType`.
        keys: the names of the grouping columns.
        output: the columns that the processor returns.
        time_mode: "None", "ProcessingTime" or "EventTime", in any case.
        event_time: in event time: the column with the time of a row, a timestamp or milliseconds; without one no row is late.
        delay_ms: how far the watermark is behind the newest row, milliseconds.
        pandas: whether the processor gets and returns frames.
        avro: whether the state's schemas can change, as with Spark's encoding format "avro".
        bins: the number of bins, a power of two.
        workers: how many begin.

    Attributes:
        rows_late: how many rows the last epoch has dropped.

    Raises:
        InvalidQuery: a schema is wrong, or has no such key.
    """

    def __init__(
        self,
        processor: StatefulProcessor,
        *,
        input: str | StructType,
        keys: str | Sequence[str],
        output: str | StructType,
        time_mode: str = "None",
        event_time: str | None = None,
        delay_ms: int = 0,
        pandas: bool = False,
        avro: bool = False,
        bins: int = 8,
        workers: int = 2,
    ) -> None:
        if time_mode.lower() not in MODES:
            raise InvalidQuery(f"time_mode is {time_mode!r}; it is None, ProcessingTime or EventTime")
        names = (keys,) if isinstance(keys, str) else tuple(keys)
        schema = parse(input)
        if missing := [name for name in (*names, event_time) if name is not None and name not in schema.names]:
            raise InvalidQuery(f"the input has no column {missing[0]!r}; it has {', '.join(schema.names)}")
        rules = Rules(Encoding.AVRO if avro else Encoding.UNSAFE_ROW)
        self._processing = Processing(schema, names, parse(output), MODES[time_mode.lower()], pandas, event_time, rules)
        self._bins, self._count, self._delay_ms = bins, workers, delay_ms
        self._histories: tuple[History, ...] = ()
        self._operator, self._histories = self._processing.operator(processor, ())
        self._storage = open_storage(f"memory://binshift-testing-{uuid.uuid4().hex}")
        self._workers = Workers(bins)
        self._workers.grow(workers)
        self._batches = GivenBatches()
        self._output: dict[Epoch, list[Row]] = {}
        self._early: list[Row] = []
        self._watermark_ms = self._newest_ms = 0
        self.rows_late = 0
        self._running = self._started()

    def epoch(
        self, rows: Sequence[Any] = (), *, time_ms: int | None = None, watermark_ms: int | None = None
    ) -> list[Row]:
        """Run one epoch; the rows that the processor returns.

        Args:
            rows: the input: tuples or `Row`s in the order of the columns, or dictionaries.
            time_ms: the batch's time, milliseconds since 1970; default: a second after the last one.
            watermark_ms: default in event time: the newest row of earlier epochs less the delay; it never decreases.

        Raises:
            AssertionError: a run of the epoch that was made again has returned other rows.
            Exception: what the processor raises.
        """
        last = self._batches.batches[-1].offsets.batch_time_ms if self._batches.batches else 0
        wanted = max(self._newest_ms - self._delay_ms, 0) if watermark_ms is None else watermark_ms
        self._watermark_ms = max(self._watermark_ms, wanted)
        now = last + EPOCH_MS if time_ms is None else time_ms
        routed = self._processing.routed(rows, self._bins)
        self._newest_ms = max(self._newest_ms, self._processing.newest_ms(rows) or 0)
        early, self._early = self._early, []
        return early + self._next(routed, now)

    def move(self, bin: int, to: int) -> None:
        """Move a bin to a worker: its state is copied now, and it flips in the next epoch.

        If bins have moved in the last epoch, one without rows comes first, at the same time; what it returns is the next one's.

        Raises:
            InvalidQuery: there is no such bin or worker, or no epoch yet.
        """
        if not 0 <= bin < self._bins or Worker(to) not in self._workers.members or not self._batches.batches:
            raise InvalidQuery(f"bin {bin} cannot move to worker {to} of {len(self._workers.members)} before epoch 1")
        self._end_moves()
        self._running.targets.move({Bin(bin): Worker(to)})
        self._background()

    def rescale(self, workers: int) -> None:
        """Have the workers 0 to ``workers``-1 share all bins, from the next epoch on. See `move`."""
        self._end_moves()
        self._workers.grow(workers)
        self._running.targets.rescale(tuple(map(Worker, range(workers))))
        self._background()

    def kill(self, worker: int) -> None:
        """Lose a worker and its store in the middle of the next epoch, which then runs again; another worker takes its place.

        Raises:
            InvalidQuery: there is no such worker.
        """
        if Worker(worker) not in self._workers.members:
            raise InvalidQuery(f"there is no worker {worker}; there are {len(self._workers.members)}")
        self._workers.members[Worker(worker)].is_doomed = True

    def restart(self, processor: StatefulProcessor | None = None) -> None:
        """Start another driver on the log. Without another processor it replays the last epoch, as if Spark had not committed it.

        Args:
            processor: the program's new one.

        Raises:
            AssertionError: the replay has returned other rows.
            IncompatibleState: the new processor cannot continue with the state.
        """
        if processor is not None:
            self._operator, self._histories = self._processing.operator(processor, self._histories)
        self._running = self._started()
        if processor is None and self._batches.batches:
            self._run(Epoch(len(self._batches.batches) - 1))
        self._background()

    def state(self, name: str) -> dict[tuple[Any, ...], Any]:
        """The state of a variable by key: values as tuples, lists of them, or dictionaries of them.

        Raises:
            InvalidQuery: there is no such variable.
        """
        found = [each for each in self._histories if each.name == name and not each.deleted]
        if not found:
            raise InvalidQuery(
                f"there is no state {name!r}; there are {', '.join(each.name for each in self._histories)}"
            )
        return values_of(found[0], self._processing.key_schema, self._entries())

    def bin_of(self, *key: Any) -> int:
        """The bin of a key. It is another one on a cluster, where Spark's hash decides."""
        return self._processing.bin_of_key(key, self._bins)

    @property
    def owners(self) -> list[int]:
        """The worker of each bin in the last epoch; empty before the first one."""
        route = self._running.log.index.route
        return [] if route is None else list(map(int, route.owners))

    @property
    def wake_at_ms(self) -> int | None:
        """When an epoch is due even without rows, in processing time; milliseconds since 1970."""
        return self._batches.wake_at_ms

    # ----------------------------------------------------------------------------------------------------- the engine

    def _started(self) -> Running:
        jobs = InProcessJobs(self._workers, self._storage, lambda: self._operator, self._deliver)
        committed = Epoch(max(len(self._output) - 2, -1))  # Spark has not committed the newest one
        return start(self._storage, committed, Ports(self._workers, jobs, self._batches), self._bins, self._count)

    def _next(self, rows: pa.RecordBatch, time_ms: int) -> list[Row]:
        epoch = Epoch(len(self._batches.batches))
        self._batches.batches.append(Batch(rows, BatchOffsets(time_ms, self._watermark_ms, str(epoch))))
        self._run(epoch)
        self._background()
        return self._output[epoch]

    def _end_moves(self) -> None:
        """A migration ends with the epoch after its last flip."""
        for _ in range(EPOCHS_MAX):
            if all(each.ended for each in self._running.coordinator.migrations.history) or not self._batches.batches:
                return
            self._early += self._next(
                self._processing.routed((), self._bins), self._batches.batches[-1].offsets.batch_time_ms
            )

    def _run(self, epoch: Epoch) -> None:
        self._running.epochs.run(self._batches.batches[epoch], epoch)
        self.rows_late = sum(each.rows_late for each in self._running.epochs.timings[-1].operators)

    def _background(self) -> None:
        """Rounds until there is nothing to do."""
        for _ in range(ROUNDS_MAX):
            if not self._running.background.round():
                return

    def _deliver(self, epoch: Epoch, output: list[pa.RecordBatch]) -> None:
        schema = self._processing.output
        rows = [
            row
            for batch in output
            for row in ArrowTableToRowsConversion.convert(pa.Table.from_batches([batch]), schema)
        ]
        before = self._output.setdefault(epoch, rows)
        assert Counter(map(repr, before)) == Counter(map(repr, rows)), (
            f"epoch {epoch} ran again and has returned other rows: {rows}, before {before}. A processor must depend on its rows, "
            "its state and the given times alone"
        )

    def _entries(self) -> list[Any]:
        found = []
        for bin, owner in enumerate(self.owners):
            with self._workers.members[Worker(owner)].store.reader() as reader:
                found += list(reader.scan(Bin(bin)))
        return found
