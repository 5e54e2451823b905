"""`foreachBatch` and `foreach`: the user's code in a replay, and its errors."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import Row

from binshift.errors import EpochFailed, UserFunctionFailed
from binshift.spark.sinks import ForeachBatchSink, ForeachSink
from binshift.spark.sinks.functions import RowLoop

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@pytest.fixture
def result(spark: SparkSession) -> Callable[..., DataFrame]:
    """Makes results: one row for each number, on two partitions."""

    def make(*numbers: int) -> DataFrame:
        return spark.createDataFrame([(n, f"user {n}") for n in numbers], "n bigint, user string").coalesce(2)

    return make


def test_foreach_batch_gets_the_same_epoch_again(result: Callable[..., DataFrame]) -> None:
    """The function sees result and epoch in every run."""
    seen: list[tuple[int, int]] = []
    sink = ForeachBatchSink(lambda df, epoch: seen.append((df.count(), epoch)))
    sink.write(result(1, 2), 3)
    sink.write(result(1, 2), 3)
    assert seen == [(2, 3), (2, 3)]


def test_errors_of_a_batch_function_show_its_last_lines(result: Callable[..., DataFrame]) -> None:
    """The error names the epoch and the user's own line, and not binshift's."""

    def divide(df: DataFrame, epoch: int) -> None:
        raise ZeroDivisionError("by zero")

    with pytest.raises(UserFunctionFailed) as caught:
        ForeachBatchSink(divide).write(result(1), 3)
    text = str(caught.value)
    assert "foreachBatch function, in epoch 3" in text
    assert text.endswith("ZeroDivisionError: by zero")
    assert "in divide" in text
    assert "sinks/functions.py" not in text


@pytest.mark.parametrize(
    "message", ["Connection reset by peer", "Failed to connect to database", "java.io.EOFException"]
)
def test_a_users_own_connection_is_no_lost_executor(result: Callable[..., DataFrame], message: str) -> None:
    """A network error of the user's own client is the user's: the epoch is not run twenty more times."""

    def unlucky(df: DataFrame, epoch: int) -> None:
        raise OSError(message)

    with pytest.raises(UserFunctionFailed, match=message):
        ForeachBatchSink(unlucky).write(result(1), 3)


def test_lost_executors_under_a_batch_function_are_no_error_of_the_user(result: Callable[..., DataFrame]) -> None:
    """If an executor dies during the function's action, the epoch runs again."""

    def unlucky(df: DataFrame, epoch: int) -> None:
        raise PySparkException("Job aborted: ExecutorLostFailure (executor 1 exited)")

    with pytest.raises(EpochFailed):
        ForeachBatchSink(unlucky).write(result(1), 3)


def test_foreach_runs_a_function_on_every_row(result: Callable[..., DataFrame], tmp_path: Path) -> None:
    """Rows are PySpark rows; a replay processes them again."""

    def note(row: Row) -> None:
        with (tmp_path / f"{row.user}.{row.n}").open("a") as file:
            file.write("x")

    sink = ForeachSink(note)
    sink.write(result(1, 2), 3)
    sink.write(result(1, 2), 3)
    assert {each.name: each.read_text() for each in tmp_path.iterdir()} == {"user 1.1": "xx", "user 2.2": "xx"}


def test_foreach_gives_partition_and_epoch_to_open(result: Callable[..., DataFrame], tmp_path: Path) -> None:
    """`open` gets what identifies a replay, and it is the same in each run."""

    class Writer:
        def open(self, partition: int, epoch: int) -> bool:
            self.file = (tmp_path / f"{epoch}.{partition}").open("a")
            return True

        def process(self, row: Row) -> None:
            self.file.write(f"{row.n} ")

        def close(self, error: Exception | None) -> None:
            self.file.write(f"{error}\n")
            self.file.close()

    sink = ForeachSink(Writer())
    sink.write(result(1).coalesce(1), 3)
    sink.write(result(1).coalesce(1), 3)
    assert {each.name: each.read_text() for each in tmp_path.iterdir()} == {"3.0": "1 None\n1 None\n"}


def test_errors_of_a_row_function_show_its_last_lines(result: Callable[..., DataFrame]) -> None:
    """A failure on an executor is reported with the user's line, not with Java's."""

    def refuse(row: Row) -> None:
        raise ValueError(f"bad user {row.user}")

    with pytest.raises(UserFunctionFailed) as caught:
        ForeachSink(refuse).write(result(1), 3)
    assert str(caught.value).endswith("ValueError: bad user user 1")
    assert "in refuse" in str(caught.value)
    assert "java" not in str(caught.value)


class Log:
    """A row writer that records its calls, and fails on request."""

    def __init__(self, fails: str = "", wanted: bool = True) -> None:
        self.calls: list[object] = []
        self._fails, self._wanted = fails, wanted

    def _note(self, name: str, argument: object) -> None:
        self.calls.append((name, argument))
        if self._fails == name:
            raise ValueError(name)

    def open(self, partition: int, epoch: int) -> bool:
        self._note("open", (partition, epoch))
        return self._wanted

    def process(self, row: object) -> None:
        self._note("process", row)

    def close(self, error: Exception | None) -> None:
        self._note("close", None if error is None else str(error))


def _rows(taken: list[int], count: int = 2) -> Any:
    for n in range(count):
        taken.append(n)
        yield n


@pytest.mark.parametrize(
    ("log", "calls", "failures", "rows_taken"),
    [
        (Log(), [("open", (0, 7)), ("process", 0), ("process", 1), ("close", None)], 0, 2),
        (Log(wanted=False), [("open", (0, 7)), ("close", None)], 0, 2),
        (Log(fails="open"), [("open", (0, 7))], 1, 0),
        (Log(fails="process"), [("open", (0, 7)), ("process", 0), ("close", "process")], 1, 2),
        (Log(fails="close"), [("open", (0, 7)), ("process", 0), ("process", 1), ("close", None)], 1, 2),
    ],
)
def test_the_order_of_calls_is_pysparks(log: Log, calls: list[object], failures: int, rows_taken: int) -> None:
    """The order is open, process, close with the error; unwanted rows are taken nevertheless, so that the epoch completes."""
    taken: list[int] = []
    assert len(list(RowLoop(log, 7)(_rows(taken)))) == failures
    assert log.calls == calls
    assert len(taken) == rows_taken


def test_an_epoch_that_fails_under_foreach_stays_what_it_is() -> None:
    """If the rows themselves do not arrive, the writer is closed with the error and the error is raised."""

    def broken() -> Any:
        yield 1
        raise EpochFailed("the store is behind")

    log = Log()
    with pytest.raises(EpochFailed):
        list(RowLoop(log, 7)(broken()))
    assert log.calls[-1] == ("close", "the store is behind")
