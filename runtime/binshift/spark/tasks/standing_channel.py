"""The Python worker's end of a standing task: Unix sockets of its own JVM, one for orders and one for answers.

The JVM is the other half of the task (`StandingTask.java`). It listens in a folder that only this user can enter, takes two
connections and removes both. It gets this process's id, and kills it if the task ends in the middle of an order.
"""

from __future__ import annotations

import os
import socket
import struct
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import BinaryIO, Literal, cast

from binshift.spark.tasks.task import task_context

SOCKET = "binshift.standing.socket"
"""The local property of the task that has the socket's path."""

END, FAILED = -1, -2
"""In place of the size of a chunk of output: the answer's end follows, or a traceback. The driver's end of the loop is `END`, too."""

NUMBER = struct.Struct(">i")

BUFFER_BYTES = 1 << 16


@dataclass(frozen=True)
class Channel:
    """Orders and answers, as streams.

    Attributes:
        orders: from the driver; what belongs to an order may follow it.
        answers: chunks of output, each after its size, and at last `ended` or `failed`.
    """

    orders: BinaryIO
    answers: BinaryIO

    def next_orders(self) -> Iterator[bytes]:
        """One order after the other, until the driver ends the task."""
        while (size := self._number()) != END:
            yield self._exactly(size)

    def ended(self, content: bytes) -> None:
        """Answer an order."""
        self._last(END, content)

    def failed(self) -> None:
        """Answer with the traceback of the error under way: the driver gets it as it would get the error of a task."""
        self._last(FAILED, traceback.format_exc().encode())

    def chunk(self, content: memoryview | bytes) -> None:
        """Return a part of the output."""
        self.answers.write(NUMBER.pack(len(content)))
        self.answers.write(content)

    def _last(self, kind: int, content: bytes) -> None:
        self.answers.write(NUMBER.pack(kind) + NUMBER.pack(len(content)) + content)
        self.answers.flush()

    def _number(self) -> int:
        number: int = NUMBER.unpack(self._exactly(NUMBER.size))[0]
        return number

    def _exactly(self, size: int) -> bytes:
        data = self.orders.read(size)
        if len(data) != size:
            raise EOFError("the JVM of a standing task has closed its socket")
        return data


@contextmanager
def connected() -> Iterator[Channel]:
    """The channel of the running task."""
    path = str(task_context().getLocalProperty(SOCKET))
    with _stream(path, "rb") as orders, _stream(path, "wb") as answers:
        answers.write(NUMBER.pack(os.getpid()))
        answers.flush()
        yield Channel(orders, answers)


@contextmanager
def _stream(path: str, mode: Literal["rb", "wb"]) -> Iterator[BinaryIO]:
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(path)
        with connection.makefile(mode, BUFFER_BYTES) as stream:
            yield cast(BinaryIO, stream)
