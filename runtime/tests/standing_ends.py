"""A `StandingDriver` for tests, which are in the place of its tasks: their reports go through the same method as over Spark's RPC."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from py4j.java_gateway import JavaObject
from pyspark.java_gateway import ensure_callback_server_started

from binshift.spark.session.jvm import install
from binshift.spark.session.standing_calls import SIZE

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Question:
    """A task's question for an order, to which the driver replies."""

    class Java:
        """What py4j needs."""

        implements = ["org.apache.spark.rpc.RpcCallContext"]  # noqa: RUF012

    def __init__(self) -> None:
        self.replies: list[str] = []
        self.replied = threading.Event()

    def reply(self, order: JavaObject) -> None:
        """Take an order: its kind."""
        self.replies.append(str(order[0]))
        self.replied.set()

    def sendFailure(self, error: JavaObject) -> None:  # noqa: N802
        """Never called."""
        raise AssertionError(error)

    def senderAddress(self) -> None:  # noqa: N802
        """Not known."""


class Driver:
    """A `StandingDriver`."""

    def __init__(self, spark: SparkSession) -> None:
        self._gateway: Any = spark.sparkContext._gateway
        ensure_callback_server_started(self._gateway)  # type: ignore[no-untyped-call]
        self._java = install(spark).bridge.standingDriver("test-standing-driver")
        self._pool = ThreadPoolExecutor()

    def array(self, *values: object) -> Any:
        """A Java array of objects."""
        made = self._gateway.new_array(self._gateway.jvm.Object, len(values))
        for number, value in enumerate(values):
            made[number] = value
        return made

    def report(self, id: str, kind: str, attempt: int, *more: object) -> Question:
        """A task's report, which is also its question for the next order."""
        question = Question()
        self._java.reported(self.array(id, kind, attempt, *more), question)
        return question

    def ready(self, id: str, attempt: int = 1) -> Question:
        """A task that has begun."""
        return self.report(id, "ready", attempt, "host", 1, id)

    def ask(self, *ids: str) -> Future[list[str]]:
        """An epoch's order for these tasks: their answers."""
        names = self._gateway.new_array(self._gateway.jvm.String, len(ids))
        for number, id in enumerate(ids):
            names[number] = id
        orders = self.array(*(self.array("map") for _ in ids))
        return self._pool.submit(lambda: [str(each) for each in self._java.ask(names, orders)])

    def are_ready(self, ids: str, millis: int = 0) -> Future[bool]:
        """Whether these tasks are ready, or become so within some milliseconds."""
        return self._pool.submit(lambda: bool(self._java.areReady(ids, millis)))

    def passed(self, *ids: str) -> Future[list[str]]:
        """A message for each of these tasks: their answers, or why there is none."""
        messages = bytearray(b"".join(SIZE.pack(len(id)) + id.encode() for id in ids))
        return self._pool.submit(lambda: [str(each) for each in self._java.passed(",".join(ids), messages)])

    def __getattr__(self, name: str) -> Callable[..., Any]:
        """Other methods are the Java object's."""
        method: Callable[..., Any] = getattr(self._java, name)
        return method
