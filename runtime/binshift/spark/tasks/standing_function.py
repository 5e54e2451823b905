"""S in a standing task: the Python worker serves one epoch after the other, over Unix sockets of its own JVM.

The JVM is the other half of the task (`StandingTask.java`). It listens in a folder that only this user can enter, takes two
connections, for orders and for answers, and removes both. It gets this process's id, and kills it if the task ends in the middle
of an epoch. For each epoch it sends an order, and the rows as an Arrow stream; it takes back chunks of output, each an Arrow stream of
its own, and then the summary, or the traceback of the error that S raised.
"""

from __future__ import annotations

import io
import os
import pickle
import socket
import struct
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import BinaryIO, Literal, cast

import pyarrow as pa

from binshift.spark.tasks.task import Environment, Place, check_place, freeze_gc, part_of_epoch, task_context
from binshift.worker.messages import EpochSpec, Summary

SOCKET = "binshift.standing.socket"
"""The local property of the task that has the socket's path."""

END, FAILED = -1, -2
"""In place of the size of a chunk: the summary follows, or a traceback. The driver's end of the loop is `END`, too."""

NUMBER = struct.Struct(">i")

BUFFER_BYTES = 1 << 16

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
        context = task_context()
        path = str(context.getLocalProperty(SOCKET))
        with _connected(path, "rb") as orders, _connected(path, "wb") as answers:
            answers.write(NUMBER.pack(os.getpid()))
            answers.flush()
            while (size := _number(orders)) != END:
                self._epoch(_exactly(orders, size), orders, answers, context.taskAttemptId())
        yield from batches  # none: the JVM ends them with the loop

    def _epoch(self, order: bytes, rows: BinaryIO, answers: BinaryIO, task: int) -> None:
        reader = pa.ipc.open_stream(rows)
        try:
            spec, reads = pickle.loads(order)  # noqa: S301 (the driver's, over Spark's RPC)
            summary = self._run(spec, reader, answers, task, reads=reads)
        except Exception:  # every kind: the driver gets it as it would get the error of a task
            kind, content = FAILED, traceback.format_exc().encode()
        else:
            kind, content = END, pickle.dumps(summary)
        for _ in reader:  # what S left, so that the next order follows
            pass
        answers.write(NUMBER.pack(kind) + NUMBER.pack(len(content)) + content)
        answers.flush()
        freeze_gc("standing epochs")

    def _run(
        self, spec: EpochSpec, rows: pa.RecordBatchReader, answers: BinaryIO, task: int, *, reads: bool
    ) -> Summary | None:
        summaries: list[Summary] = []
        output = _Output(answers)
        operator = self.operators[spec.operator, reads]
        attempt = f"{spec.run_prefix}{task}"
        with part_of_epoch(spec, self.place, self.environment, operator, attempt) as epoch:
            for batch in epoch.read(rows) if reads else epoch.run(rows, summaries.append):
                output.add(batch)
        output.flush()
        return None if reads else summaries[0]


class _Output:
    """Collects batches, and writes them in chunks."""

    def __init__(self, answers: BinaryIO) -> None:
        self._answers = answers
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
        self._answers.write(NUMBER.pack(sink.getbuffer().nbytes))
        self._answers.write(sink.getbuffer())
        self._batches, self._bytes = [], 0


@contextmanager
def _connected(path: str, mode: Literal["rb", "wb"]) -> Iterator[BinaryIO]:
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(path)
        with connection.makefile(mode, BUFFER_BYTES) as stream:
            yield cast(BinaryIO, stream)


def _number(stream: BinaryIO) -> int:
    number: int = NUMBER.unpack(_exactly(stream, NUMBER.size))[0]
    return number


def _exactly(stream: BinaryIO, size: int) -> bytes:
    data = stream.read(size)
    if len(data) != size:
        raise EOFError("the JVM of a standing task has closed its socket")
    return data
