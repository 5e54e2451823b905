"""The JVM's half of a standing task: it listens, gives orders and takes answers, as `StandingTask.java` does."""

from __future__ import annotations

import pickle
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, cast

import pyarrow as pa
import pytest

from binshift.spark.tasks import standing_channel, standing_function
from binshift.spark.tasks.standing_channel import END, FAILED, NUMBER

SCHEMA = pa.schema([("k", pa.int64())])


@dataclass
class Jvm:
    """What the JVM does: it listens, and takes two connections."""

    orders: BinaryIO
    answers: BinaryIO

    def order(self, content: object, rows: list[int] | None) -> tuple[list[int], int, Any]:
        """Send an order, with its rows if it has any; the output, and the answer or the error."""
        data = pickle.dumps(content)
        self.orders.write(NUMBER.pack(len(data)) + data)
        if rows is not None:
            with pa.ipc.new_stream(self.orders, SCHEMA) as writer:
                for each in rows:
                    writer.write_batch(pa.record_batch([[each]], schema=SCHEMA))
        self.orders.flush()
        output: list[int] = []
        while (size := self.number()) not in (END, FAILED):
            output += pa.ipc.open_stream(self.answers.read(size)).read_all()["k"].to_pylist()
        found = self.answers.read(self.number())
        return output, size, pickle.loads(found) if size == END else found.decode()

    def number(self) -> int:
        """The next number."""
        found: int = NUMBER.unpack(self.answers.read(NUMBER.size))[0]
        return found


@contextmanager
def served(
    function: Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]],
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Jvm]:
    """The other half of a function that runs in a thread; it has ended behind the block."""

    class Context:
        def getLocalProperty(self, name: str) -> str:  # noqa: N802 (Spark's name)
            assert name == standing_channel.SOCKET
            return str(folder / "s")

        def taskAttemptId(self) -> int:  # noqa: N802 (Spark's name)
            return 99

    for module in (standing_function, standing_channel):
        monkeypatch.setattr(module, "task_context", Context)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(folder / "s"))
        server.listen()
        thread = threading.Thread(target=lambda: list(function(iter(()))), daemon=True)
        thread.start()
        orders, answers = (server.accept()[0] for _ in range(2))
        with orders, answers, orders.makefile("wb") as to, answers.makefile("rb") as back:
            made = Jvm(cast(BinaryIO, to), cast(BinaryIO, back))
            assert made.number() > 0  # the process's id
            yield made
            to.write(NUMBER.pack(END))
            to.flush()
            thread.join(20)
            assert not thread.is_alive()
