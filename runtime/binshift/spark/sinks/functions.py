"""`foreachBatch` and `foreach`: the user's own code as a sink.

A function of a whole batch may run any number of actions, so it gets a result that is materialised before. A function of
rows runs inside the epoch's one job, on the executors. Its error is returned as data, not as an exception, so that it can be
distinguished from a failure of the epoch itself. It must take every row of its partition, including rows that the user did not
want: otherwise S does not commit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Protocol, runtime_checkable

from pyspark import TaskContext
from pyspark.sql import DataFrame, Row

from binshift.errors import InvalidQuery, UserFunctionFailed
from binshift.spark.sinks.contract import Guarantee
from binshift.spark.sinks.user_code import traceback_end, user_failure

BatchFunction = Callable[[DataFrame, int], None]
RowFunction = Callable[[Row], None]


@runtime_checkable
class RowWriter(Protocol):
    """An object for `foreach`; it may also have ``open(partition_id, epoch_id) -> bool`` and ``close(error)``."""

    def process(self, row: Row) -> None:
        """Take one row."""


class ForeachBatchSink:
    """Passes each epoch's result to a function of the user."""

    name = "foreachBatch"
    guarantee = Guarantee.AT_LEAST_ONCE
    drains = True

    def __init__(self, function: BatchFunction) -> None:
        if not callable(function):
            raise InvalidQuery(f"foreachBatch got {function!r}; it takes a function of (DataFrame, epoch)")
        self._function = function

    def write(self, result: DataFrame, epoch: int) -> None:
        """Call the function."""
        try:
            self._function(result, epoch)
        except Exception as error:  # any error of the user's function
            raise user_failure(f"the foreachBatch function, in epoch {epoch},", error) from error

    def close(self) -> None:
        """Nothing to release."""


class ForeachSink:
    """Passes each row to a function, or to an object with ``process`` and optionally ``open`` and ``close``."""

    name = "foreach"
    guarantee = Guarantee.AT_LEAST_ONCE
    drains = False

    def __init__(self, receiver: RowFunction | RowWriter) -> None:
        if not callable(receiver):
            if not callable(getattr(receiver, "process", None)):
                raise InvalidQuery(f"foreach got {receiver!r}; it takes a function of a Row, or an object with process")
            for method in ("open", "close"):
                if hasattr(receiver, method) and not callable(getattr(receiver, method)):
                    raise InvalidQuery(f"foreach got an object whose {method!r} is not a method")
        self._receiver = receiver

    def write(self, result: DataFrame, epoch: int) -> None:
        """Run the function over all rows, in one job."""
        rows = result.rdd.mapPartitions(RowLoop(self._receiver, epoch))
        failures = rows.collect()
        if failures:
            raise UserFunctionFailed(f"the foreach function, in epoch {epoch}, raised:\n{failures[0]}")

    def close(self) -> None:
        """Nothing to release on the driver."""


class RowLoop:
    """One partition of `foreach`, on an executor; yields the traceback's end if the user's code raised.

    The order of calls is PySpark's: ``open``, ``process`` for each row if open returned true, ``close`` with the error.
    """

    def __init__(self, receiver: Any, epoch: int) -> None:
        self._receiver = receiver
        self._epoch = epoch

    def __call__(self, rows: Iterable[Row]) -> Iterator[str]:
        """Process a partition."""
        process = self._receiver if callable(self._receiver) else self._receiver.process
        try:
            wanted = self._open()
        except Exception as error:  # any error of the user's code
            yield traceback_end(error, frames_skipped=2)
            return
        failure: Exception | None = None
        try:
            for row in rows:
                if wanted and failure is None:
                    failure = _call(process, row)
        except Exception as error:  # an error of the epoch, not of the user's code: the partition's rows did not arrive
            self._close(error)
            raise
        for raised in filter(None, (failure, self._close(failure))):
            yield traceback_end(raised)

    def _open(self) -> bool:
        if callable(self._receiver) or not hasattr(self._receiver, "open"):
            return True
        context = TaskContext.get()
        return bool(self._receiver.open(0 if context is None else context.partitionId(), self._epoch))

    def _close(self, error: Exception | None) -> Exception | None:
        if callable(self._receiver) or not hasattr(self._receiver, "close"):
            return None
        return _call(self._receiver.close, error)


def _call(function: Callable[[Any], object], argument: object) -> Exception | None:
    try:
        function(argument)
    except Exception as error:  # any error of the user's code
        return error
    return None
