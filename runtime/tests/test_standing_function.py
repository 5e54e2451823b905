"""The Python half of a standing task, over sockets as its JVM has them: orders, rows, chunks of output, summaries and errors."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pytest
from standing_world import Jvm, served

from binshift.errors import StoreBusy, WrongExecutor
from binshift.model import BinSet, Epoch, Fence, Stamp, Term, Worker
from binshift.spark.tasks import standing_function
from binshift.spark.tasks.standing_channel import END, FAILED
from binshift.spark.tasks.standing_function import StandingFunction
from binshift.spark.tasks.task import Place
from binshift.worker.messages import EpochSpec

UNSTORABLE = 1000


@dataclass
class Stores:
    """What was committed, and whether a commit may go through now."""

    committed: list[str] = field(default_factory=list)
    may_commit: threading.Event = field(default_factory=threading.Event)


@dataclass
class DoublingEpoch:
    """In place of S: returns each row twice, and fails at a negative one; the commit fails if the rows add up to `UNSTORABLE`."""

    attempt: str
    stores: Stores
    total: int = 0

    def process(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """As `EpochTask.process`."""
        for batch in batches:
            (value,) = batch["k"].to_pylist()
            if value < 0:
                raise ValueError(f"row {value}")
            self.total += value
            yield from (batch, batch)

    @contextmanager
    def committing(self) -> Iterator[tuple[str, int]]:
        """As `EpochTask.committing`."""
        yield self.attempt, self.total
        assert self.stores.may_commit.wait(20)
        if self.total == UNSTORABLE:
            raise StoreBusy("simulated")
        self.stores.committed.append(self.attempt)

    def read(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """As `EpochTask.read`."""
        yield from batches


def spec(run: int) -> EpochSpec:
    """One of an operator named "op"."""
    fence = Fence(Term(1), Epoch(7), run)
    return EpochSpec(fence, "op", Worker(0), Stamp(Epoch(6), "x"), BinSet(), BinSet(), 0)


@pytest.fixture
def stores() -> Stores:
    """Commits are not held up unless a test does it."""
    found = Stores()
    found.may_commit.set()
    return found


@pytest.fixture
def jvm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stores: Stores) -> Iterator[Jvm]:
    """A running standing function's other half; the function has ended after the test."""

    @contextmanager
    def part(
        given: EpochSpec, place: Place, environment: Any, operator: bytes, attempt: str
    ) -> Iterator[DoublingEpoch]:
        assert operator in (b"pickled", b"reader")
        assert place.worker == 0
        yield DoublingEpoch(attempt, stores)

    monkeypatch.setattr(standing_function, "part_of_epoch", part)
    monkeypatch.setenv("SPARK_LOCAL_HOSTNAME", "here")
    operators = {("op", False): b"pickled", ("op", True): b"reader"}
    function = StandingFunction(Place(Worker(0), "here"), cast(Any, None), operators)
    with served(function, tmp_path, monkeypatch) as found:
        yield found


def test_epochs_follow_each_other(jvm: Jvm) -> None:
    """Each has an attempt of its own, which begins with its run's prefix."""
    assert jvm.order((spec(0), False), [1, 2]) == ([1, 1, 2, 2], END, ("1.7.0.99", 3))
    assert jvm.order((spec(1), False), []) == ([], END, ("1.7.1.99", 0))


def test_the_state_is_read_before_an_epoch(jvm: Jvm) -> None:
    """What reads it has no summary."""
    assert jvm.order((spec(0), True), [1, 2]) == ([1, 2], END, None)
    assert jvm.order((spec(0), False), [1, 2]) == ([1, 1, 2, 2], END, ("1.7.0.99", 3))


def test_an_error_leaves_the_next_epoch_whole(jvm: Jvm) -> None:
    """The traceback is returned, rows that S did not take are dropped, and the next order is served."""
    _, kind, text = jvm.order((spec(0), False), [1, -5, *range(20_000)])
    assert kind == FAILED
    assert text.startswith("Traceback")
    assert "ValueError: row -5" in text
    assert jvm.order((spec(1), False), [4]) == ([4, 4], END, ("1.7.1.99", 4))


def test_the_answer_does_not_wait_for_the_store(jvm: Jvm, stores: Stores) -> None:
    """The driver has it while the store is being committed; the next order waits for that."""
    stores.may_commit.clear()
    assert jvm.order((spec(0), False), [1]) == ([1, 1], END, ("1.7.0.99", 1))
    assert not stores.committed
    stores.may_commit.set()
    assert jvm.order((spec(1), False), []) == ([], END, ("1.7.1.99", 0))
    assert stores.committed[0] == "1.7.0.99"


def test_a_commit_that_fails_has_one_answer(jvm: Jvm, stores: Stores, caplog: pytest.LogCaptureFixture) -> None:
    """The epoch is in the log; the next order finds what is wrong with the store."""
    with caplog.at_level("WARNING"):
        assert jvm.order((spec(0), False), [UNSTORABLE])[1:] == (END, ("1.7.0.99", UNSTORABLE))
        assert jvm.order((spec(1), False), [4]) == ([4, 4], END, ("1.7.1.99", 4))
        jvm.order((spec(2), False), [])  # answered once the commit before is done
    assert stores.committed[0] == "1.7.1.99"
    assert "lacks an epoch" in caplog.text


def test_output_comes_in_chunks(jvm: Jvm, monkeypatch: pytest.MonkeyPatch) -> None:
    """A large one is passed on while S still runs."""
    monkeypatch.setattr(standing_function, "CHUNK_BYTES", 16)
    output, kind, _ = jvm.order((spec(0), False), list(range(100)))
    assert kind == END
    assert output == [each for each in range(100) for _ in range(2)]


def test_another_executor_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """A task that Spark has sent elsewhere serves no epoch."""
    monkeypatch.setenv("SPARK_LOCAL_HOSTNAME", "there")
    function = StandingFunction(Place(Worker(0), "here"), cast(Any, None), {})
    with pytest.raises(WrongExecutor, match="runs on there"):
        list(function(iter(())))
