"""S in a standing task: the Python worker serves one epoch after the other (see `standing_channel`).

For each epoch the JVM sends an order, and the rows as an Arrow stream; it takes back chunks of output, each an Arrow stream of its own, and then
the summary, or the traceback of the error that S raised.
"""

from __future__ import annotations

import io
import logging
import pickle
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import pyarrow as pa

from binshift import failpoints
from binshift.spark.tasks.standing_channel import Channel, connected
from binshift.spark.tasks.task import Environment, Place, check_place, freeze_gc, part_of_epoch, task_context
from binshift.worker.messages import EpochSpec, Summary

log = logging.getLogger(__name__)

CHUNK_BYTES = 8 << 20
"""Output is passed on in chunks of about this size, so that a large one does not have to fit in memory."""


@dataclass(frozen=True)
class StandingFunction:
    """Runs until the driver ends the task; called by `mapInArrow`, whose rows it does not use.

    Attributes:
        place: the executor.
        environment: of the query.
        operators: pickled: by the operator's name, S (False) and what reads its state (True).
    """

    place: Place
    environment: Environment
    operators: Mapping[tuple[str, bool], bytes]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Serve epochs."""
        check_place(self.place)
        task = task_context().taskAttemptId()
        with connected() as channel:
            for order in channel.next_orders():
                self._epoch(order, channel, task)
        yield from batches  # none: the JVM ends them with the loop

    def _epoch(self, order: bytes, channel: Channel, task: int) -> None:
        reader = pa.ipc.open_stream(channel.orders)
        answer = _Answer(channel, reader)
        try:
            spec, reads = pickle.loads(order)  # noqa: S301 (the driver's, over Spark's RPC)
            self._run(spec, reader, answer, f"{spec.run_prefix}{task}", reads=reads)
        except Exception as error:  # every kind goes to the driver
            if answer.ended:  # it has the epoch: the next one finds the store behind
                log.warning("a local store lacks an epoch, and will catch up from the log: %s", error)
            else:
                answer.failed()
        freeze_gc("standing epochs")

    def _run(self, spec: EpochSpec, rows: pa.RecordBatchReader, answer: _Answer, attempt: str, *, reads: bool) -> None:
        operator = self.operators[spec.operator, reads]
        with part_of_epoch(spec, self.place, self.environment, operator, attempt) as epoch:
            for batch in epoch.read(rows) if reads else epoch.process(rows):
                answer.add(batch)
            answer.flush()
            if reads:
                answer.end(None)
                return
            with epoch.committing() as summary:
                answer.end(summary)
                failpoints.reached("commit.answered")


def _drain(rows: pa.RecordBatchReader) -> None:
    """Read what S left, so that the next order follows."""
    for _ in rows:
        pass


class _Answer:
    """Collects batches, writes them in chunks, and ends with a summary or an error."""

    def __init__(self, channel: Channel, rows: pa.RecordBatchReader) -> None:
        self.ended = False
        self._channel = channel
        self._rows = rows
        self._batches: list[pa.RecordBatch] = []
        self._bytes = 0

    def add(self, batch: pa.RecordBatch) -> None:
        if batch.num_rows:
            self._batches.append(batch)
            self._bytes += batch.nbytes
        if self._bytes >= CHUNK_BYTES:
            self.flush()

    def flush(self) -> None:
        if not self._batches:
            return
        sink = io.BytesIO()
        with pa.ipc.new_stream(sink, self._batches[0].schema) as writer:
            for each in self._batches:
                writer.write_batch(each)
        self._channel.chunk(sink.getbuffer())
        self._batches, self._bytes = [], 0

    def end(self, summary: Summary | None) -> None:
        _drain(self._rows)
        self._channel.ended(pickle.dumps(summary))
        self.ended = True

    def failed(self) -> None:
        _drain(self._rows)
        self._channel.failed()
