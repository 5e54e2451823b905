"""A query is stopped from outside, by its own function, and by a thread that its function waits for."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from typing import Any, cast

import pytest
from py4j.protocol import Py4JJavaError

from binshift.engine import epoch_loop
from binshift.engine.dataflow import Dataflow
from binshift.engine.epoch_loop import EpochLoop
from binshift.engine.ports import Ports
from binshift.errors import EpochFailed
from binshift.model import Epoch
from binshift.spark.frontend import stopping
from binshift.spark.frontend.dataflow import StreamingQuery
from binshift.spark.frontend.threads import INTERRUPTED, BatchCallback
from binshift.spark.jobs.input_meter import InputMeter
from binshift.spark.session.progress import Reports

PATIENCE_SECONDS = 60.0
"""The time after which the test assumes a deadlock."""


class Idle:
    """Jobs, none of which is running."""

    def working(self) -> bool:
        return False


class OneFunction(EpochLoop[Any]):
    """A loop whose epochs only call the user's function."""

    def __init__(self, function: Callable[[], None]) -> None:
        nothing = cast(Any, None)
        super().__init__(nothing, Ports(nothing, cast(Any, Idle()), nothing), nothing)
        self.function = function

    def _one(self, batch: object, epoch: Epoch) -> None:
        self.function()


class Stream:
    """Spark's query: its stop waits for the thread of the batch."""

    _jsq = None

    def __init__(self) -> None:
        self.ended = threading.Event()
        self.stops = 0
        self.thread: threading.Thread | None = None

    @property
    def isActive(self) -> bool:  # noqa: N802 (PySpark's name)
        return not self.ended.is_set()

    def awaitTermination(self) -> None:  # noqa: N802 (PySpark's name)
        self.ended.wait()

    def stop(self) -> None:
        self.stops += 1
        self.ended.set()
        if self.thread is not None:
            self.thread.join()


class Coordinator:
    """A coordinator with migrations."""

    class migrations:  # noqa: N801 (an attribute)
        running: Callable[[], bool]


class Played:
    """A query with one batch, whose function gets the query."""

    def __init__(self, function: Callable[[StreamingQuery], None]) -> None:
        self.stream = Stream()
        self.epochs = OneFunction(lambda: function(self.query))
        nothing = cast(Any, None)
        dataflow = Dataflow(nothing, cast(Any, Coordinator()), nothing, self.epochs, nothing)
        self.query = StreamingQuery(
            cast(Any, self.stream),
            nothing,
            dataflow,
            Reports(deque()),
            InputMeter(None, None),
            nothing,
            lambda: None,
            lambda: None,
        )
        callback = BatchCallback(self.epochs, nothing, lambda: None)
        self.stream.thread = threading.Thread(target=lambda: callback.epoch(nothing, 0), daemon=True)
        self.stream.thread.start()

    def await_end(self) -> None:
        assert self.stream.ended.wait(PATIENCE_SECONDS), "the query does not end"
        assert self.stream.thread is not None
        self.stream.thread.join(PATIENCE_SECONDS)
        assert not self.stream.thread.is_alive(), "the function hangs"


def test_a_function_stops_its_own_query() -> None:
    """The call returns, the epoch finishes, then the stream ends; later stops return."""
    after: list[bool] = []

    def function(query: StreamingQuery) -> None:
        query.stop()
        after.append(query.isActive)

    played = Played(function)
    played.await_end()
    assert after == [True]
    played.query.stop()
    assert not played.query.isActive


def test_a_function_aborts_its_own_query() -> None:
    """It works as `stop`, without waiting for the epoch."""
    played = Played(lambda query: query.abort())
    played.await_end()


class Interrupted(Py4JJavaError):  # type: ignore[misc]  # py4j has no types
    """As Spark's stop ends a job of the epoch: with a stack trace of both languages."""

    def __init__(self) -> None:
        Exception.__init__(self)

    def __str__(self) -> str:
        return (
            "An error occurred while calling o1.localCheckpoint.\n: java.lang.InterruptedException"
            + 200 * "\n\tat a.frame"
        )


def test_an_interrupted_job_ends_with_a_short_error() -> None:
    """Spark recognises it as a stop; with a long text after the name of the call its regular expression overflows the stack."""

    def interrupted() -> None:
        raise Interrupted

    callback = BatchCallback(OneFunction(interrupted), cast(Any, None), lambda: None)
    with pytest.raises(EpochFailed) as raised:
        callback.epoch(cast(Any, None), 0)
    assert str(raised.value).endswith(INTERRUPTED)
    assert raised.value.__suppress_context__


@pytest.mark.parametrize("how", ["stop", "abort"])
def test_a_function_waits_for_the_thread_that_stops_its_query(how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The deadlock cannot be detected: `stop` gives up after a limit, and its error gives the reason."""
    monkeypatch.setattr(epoch_loop, "STOP_SECONDS_MAX", 0.3)
    monkeypatch.setattr(stopping, "SPARK_STOP_SECONDS_MAX", 0.3)
    errors: list[str] = []

    def stopped(query: StreamingQuery) -> None:
        try:
            getattr(query, how)()
        except TimeoutError as error:
            errors.append(str(error))

    def function(query: StreamingQuery) -> None:
        thread = threading.Thread(target=stopped, args=(query,), daemon=True)
        thread.start()
        thread.join(PATIENCE_SECONDS)

    played = Played(function)
    played.await_end()
    assert "its foreachBatch function must return" in errors[0]
    played.query.stop()


def test_a_stop_waits_as_long_as_spark_works_for_the_epoch(monkeypatch: pytest.MonkeyPatch) -> None:
    """A long epoch is finished nevertheless."""
    monkeypatch.setattr(epoch_loop, "STOP_SECONDS_MAX", 0.0)
    monkeypatch.setattr(epoch_loop, "STOP_POLL_SECONDS", 0.01)
    reads, go_on, running = threading.Semaphore(0), threading.Event(), threading.Event()

    def working() -> bool:
        reads.release()
        return True

    def function(query: StreamingQuery) -> None:
        running.set()
        assert go_on.wait(PATIENCE_SECONDS)

    played = Played(function)
    monkeypatch.setattr(played.epochs.ports.jobs, "working", working)
    assert running.wait(PATIENCE_SECONDS)
    stopper = threading.Thread(target=played.query.stop, daemon=True)
    stopper.start()
    for _ in range(5):
        assert reads.acquire(timeout=PATIENCE_SECONDS)
    assert played.stream.stops == 0
    go_on.set()
    stopper.join(PATIENCE_SECONDS)
    assert played.stream.stops == 1


def test_no_epoch_begins_while_the_background_ends() -> None:
    """A round of background work may take seconds to end, and `stop` waits for it first; no batch becomes an epoch meanwhile."""
    begun: list[None] = []
    epochs = OneFunction(lambda: begun.append(None))

    def the_round_ends() -> None:
        assert not epochs.run(None, Epoch(8))

    stopping.stop_query(epochs, Stream(), lambda: None, before=the_round_ends)
    assert begun == []
