"""Background rounds as messages: the Python worker's half, and what the driver makes of the answers."""

from __future__ import annotations

import pickle
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from standing_world import Jvm, served

from binshift.engine.ports import Executor
from binshift.errors import WrongExecutor
from binshift.model import Epoch, Fence, Term, Worker
from binshift.spark.jobs.standing_rounds import StandingRounds
from binshift.spark.tasks import background_function
from binshift.spark.tasks.background_function import RoundsFunction
from binshift.spark.tasks.standing_channel import END, FAILED
from binshift.spark.tasks.task import Place
from binshift.worker.messages import BackgroundReport, BackgroundSpec

HERE = Place(Worker(0), "here")


def spec(operator: str, worker: int = 0) -> BackgroundSpec:
    """An order to do nothing."""
    return BackgroundSpec(Fence(Term(1), Epoch(7), 0), operator, Worker(worker))


@pytest.fixture
def jvm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Jvm]:
    """The other half of a function that serves rounds, on stores that cannot be opened."""
    together = threading.Barrier(2)

    def store_of(environment: Any, operator: str, worker: Worker) -> Any:
        if operator.startswith("both"):
            together.wait(20)
        raise OSError(f"no store of {operator}")

    monkeypatch.setattr(background_function, "store_of", store_of)
    monkeypatch.setenv("SPARK_LOCAL_HOSTNAME", "here")
    with served(RoundsFunction(HERE, cast(Any, None)), tmp_path, monkeypatch) as found:
        yield found


def test_each_operator_has_a_report(jvm: Jvm) -> None:
    """Those of one worker run at the same time; what fails in one is in its report."""
    _, kind, reports = jvm.order([spec("both.0"), spec("both.1")], None)
    assert kind == END
    assert [(each.operator, each.failed) for each in reports] == [
        ("both.0", "OSError: no store of both.0"),
        ("both.1", "OSError: no store of both.1"),
    ]


def test_an_order_that_cannot_be_served_is_an_answer(jvm: Jvm) -> None:
    """The next one is served."""
    _, kind, text = jvm.order(None, None)
    assert kind == FAILED
    assert "TypeError" in text
    _, kind, reports = jvm.order([spec("one")], None)
    assert (kind, [each.operator for each in reports]) == (END, ["one"])


def test_another_executor_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """A task that Spark has sent elsewhere serves no round."""
    monkeypatch.setenv("SPARK_LOCAL_HOSTNAME", "there")
    with pytest.raises(WrongExecutor, match="runs on there"):
        list(RoundsFunction(HERE, cast(Any, None))(iter(())))


class Members:
    """Standing tasks with scripted answers, of which those in ``waiting`` wait for a message."""

    def __init__(self, waiting: set[str], answers: dict[str, bytes | str]) -> None:
        self.calls = SimpleNamespace(passed=self.passed)
        self.waiting, self.answers = waiting, answers
        self.started: list[str] = []
        self.messages: dict[str, list[tuple[str, int]]] = {}

    def are_ready(self, executors: Sequence[Executor], seconds: float = 0.0) -> bool:
        return {each.id for each in executors} <= self.waiting

    def start(self, on: dict[Worker, Executor]) -> None:
        self.started += [each.id for each in on.values()]

    def passed(self, ids: Sequence[str], messages: Sequence[bytes]) -> list[bytes | str]:
        self.messages = {
            id: [(spec.operator, spec.worker) for spec in pickle.loads(each)]
            for id, each in zip(ids, messages, strict=True)
        }
        return [self.answers[id] for id in ids]


def executors(*workers: int) -> dict[Worker, Executor]:
    """By worker; executor 7 is that of worker 0."""
    return {Worker(each): Executor(str(7 + each), "here", 4) for each in workers}


def test_reports_of_others_count_where_a_worker_is_lost() -> None:
    """Each worker gets the orders of its operators; its loss is an error as of a job."""
    reports = [BackgroundReport(name, Worker(1), None) for name in ("a", "b")]
    members = Members({"7", "8"}, {"7": "ExecutorLostFailure (executor 7 exited)", "8": pickle.dumps(reports)})
    rounds, taken = StandingRounds(cast(Any, members)), list[BackgroundReport]()
    assert rounds.ready(executors(0, 1))
    with pytest.raises(RuntimeError, match="executor 7 exited"):
        rounds.run([spec("a", 0), spec("a", 1), spec("b", 0), spec("b", 1)], executors(0, 1), taken.append)
    assert taken == reports
    assert members.messages == {"7": [("a", 0), ("b", 0)], "8": [("a", 1), ("b", 1)]}
    assert not members.started


def test_missing_tasks_are_started() -> None:
    """Until they wait for a message, a round is a job."""
    members = Members({"7"}, {})
    rounds = StandingRounds(cast(Any, members))
    assert not rounds.ready(executors(0, 1))
    assert members.started == ["7", "8"]
    assert rounds.ready(executors(0))
