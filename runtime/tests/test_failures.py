"""The meaning of a failed Spark job."""

from __future__ import annotations

import re
import traceback

import pytest
from pyspark.errors import PythonException

from binshift.errors import DiskFull, EpochFailed, Fenced, LogDamaged, NeedsBringUp, TaskFailed, UserFunctionFailed
from binshift.invariants import InvariantViolated
from binshift.spark.session.failures import classify, meaning, shorten

WORKER = """An exception was thrown from the Python worker:
Traceback (most recent call last):
  File "/opt/venv/lib/python3.11/site-packages/pyspark/python/lib/pyspark.zip/pyspark/worker.py", line 4207, in main
    process()
  File "/app/clicks.py", line 12, in step
    return 1 / 0
           ~~^~~
ZeroDivisionError: division by zero

\tat org.apache.spark.api.python.BasePythonRunner
"""

CHAINED = """An exception was thrown from the Python worker:
Traceback (most recent call last):
  File "/app/clicks.py", line 7, in price
    return PRICES[name]
           ~~~~~~^^^^^^
KeyError: 'pear'

The above exception was the direct cause of the following exception:

Traceback (most recent call last):
  File "/opt/venv/lib/python3.11/site-packages/binshift/operators/vectorised.py", line 98, in _invoke
    result = self.function(keys, rows, state)
             ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  File "/app/clicks.py", line 12, in step
    raise ValueError(f"no price for {name}") from error
ValueError: no price for pear

\tat org.apache.spark.api.python.BasePythonRunner
"""
JOB = (
    "An error occurred while calling o2111.save.\n: org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 in "
    "stage 19.0 failed 1 times, most recent failure: Lost task 0.0 in stage 19.0 (TID 40) (clicks-executor-0 executor 1)"
)
USERS_RESET = WORKER.replace("ZeroDivisionError: division by zero", "ConnectionResetError: Connection reset by peer")
SPARKS_RESET = USERS_RESET.replace("/app/clicks.py", "/opt/pyspark/serializers.py")
SOCKETS_RESET = USERS_RESET.replace("/app/clicks.py", "/usr/lib/python3.11/socket.py")
OURS_ALONE = WORKER.replace("/app/clicks.py", "/opt/binshift/worker/epoch_task.py")


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("x\nbinshift.errors.NeedsBringUp: worker 1 lacks 3 of its bins\n\tat org", NeedsBringUp),
        ("binshift.errors.Fenced: a newer driver", Fenced),
        ("binshift.invariants.InvariantViolated: a bin twice. This is a bug", InvariantViolated),
        ("Lost task 0.0 (TID 5): ExecutorLostFailure (executor 1 exited caused by ...)", EpochFailed),
        ("Python worker exited unexpectedly (crashed)", EpochFailed),
        (
            "SparkException: EOFException occurred while reading the port number from pyspark.daemon's stdout.",
            EpochFailed,
        ),
        (
            "java.io.IOException: Stream closed\n\tat org.apache.spark.api.python.PythonWorkerFactory.stopWorker(P.scala:523)",
            EpochFailed,
        ),
        (f"{JOB}: java.net.SocketTimeoutException: Read timed out\n\tat x", TaskFailed),
        ("[CHECKPOINT_RDD_BLOCK_ID_NOT_FOUND] Checkpoint block rdd_8_0 not found!", EpochFailed),
        (WORKER, UserFunctionFailed),
        (CHAINED, UserFunctionFailed),
        (USERS_RESET, UserFunctionFailed),
        (SPARKS_RESET, EpochFailed),
        (SOCKETS_RESET, EpochFailed),
        ("ExecutorLostFailure (executor 1 exited)\n" + WORKER, EpochFailed),
    ],
    ids=[
        *("ours", "fenced", "invariant", "executor", "worker", "daemon", "daemon's input", "source", "checkpoint"),
        *("user", "chained", "the user's connection", "Spark's connection", "a socket of Spark's", "both"),
    ],
)
def test_the_text_of_a_failure_becomes_its_type(text: str, kind: type[Exception]) -> None:
    """binshift errors are returned as they were raised, lost executors as retryable, the rest as the user's."""
    assert type(classify(RuntimeError(text))) is kind


def test_the_message_has_sparks_condition() -> None:
    """A program can find the name of the error in it, as in Spark's own message; without one there is none."""
    found = classify(PythonException(WORKER, "PYTHON_EXCEPTION", {}))
    assert str(found).splitlines()[0] == "the program failed inside an epoch [PYTHON_EXCEPTION]:"
    assert str(classify(RuntimeError(WORKER))).splitlines()[0] == "the program failed inside an epoch:"
    text = (
        f": dev.binshift.StandingDriver$Failed: x.PythonException: [PYTHON_EXCEPTION] An exception was thrown: {WORKER}"
    )
    assert str(classify(RuntimeError(text))).splitlines()[0] == str(found).splitlines()[0]
    own = WORKER.replace("ZeroDivisionError: ", "pyspark.errors.exceptions.base.PySparkTypeError: [UDF_RETURN_TYPE] ")
    assert (
        str(classify(PythonException(own, "PYTHON_EXCEPTION", {}))).splitlines()[0]
        == "the program failed inside an epoch:"
    )


def test_an_unknown_failure_stays_what_it_was() -> None:
    """An unknown error is returned unchanged."""
    error = RuntimeError("the source has no such topic")
    assert classify(error) is error


def test_a_task_that_failed_is_told_with_its_cause() -> None:
    """The message has its error and the root cause, without Java frames."""
    trace = "\tat a.B.c(B.scala:1)\nCaused by: java.io.IOException: x\n\t... 3 more\nCaused by: y.Refused: no bucket\n\tat d"
    shown = str(classify(RuntimeError(f"{JOB}: org.apache.spark.SparkException: a file\n{trace}")))
    assert shown.startswith(
        "a task failed: (TID 40) (clicks-executor-0 executor 1): org.apache.spark.SparkException: a file"
    )
    assert shown.endswith(", because of y.Refused: no bucket")


@pytest.mark.parametrize(
    ("cause", "meaning", "message"),
    [
        (
            "java.io.IOException: No space left on device",
            DiskFull,
            "/out/_staged-1 has no room .No space left on device",
        ),
        ("java.io.IOException: Disk quota exceeded", DiskFull, "free space there"),
        ("java.io.IOException: Input/output error", TaskFailed, "rows to file:/out/_staged-1, because of java.io.IOE"),
    ],
)
def test_results_that_cannot_be_written(cause: str, meaning: type[Exception], message: str) -> None:
    """The error has the location and the reason, without Java frames; if space is missing, it is retryable."""
    text = (
        "An error occurred while calling o1957.save.\n: org.apache.spark.SparkException: [TASK_WRITE_FAILED] Task failed "
        "while writing rows to file:/out/_staged-1. SQLSTATE: 58030\n\tat org.apache.spark.sql.X.y(X.scala:823)\n"
        f"Caused by: org.apache.hadoop.fs.FSError: {cause}\n\tat a.B.c(B.java:1)\nCaused by: {cause}\n\t... 44 more"
    )
    shown = classify(RuntimeError(text))
    assert type(shown) is meaning
    assert re.search(message, str(shown))
    assert "scala" not in str(shown)


def test_a_traceback_shows_the_users_lines_only() -> None:
    """Spark's own frames are omitted."""
    shown = str(classify(RuntimeError(WORKER)))
    assert "clicks.py" in shown
    assert "ZeroDivisionError: division by zero" in shown
    assert "worker.py" not in shown
    assert len(shorten("\n".join(f"line {n}" for n in range(99))).splitlines()) < 20


def test_an_error_and_its_cause_are_both_told() -> None:
    """Of chained errors the last one is shown with its cause, and without binshift's frames."""
    shown = str(classify(RuntimeError(CHAINED)))
    assert shown.splitlines()[-1] == "ValueError: no price for pear"
    assert "KeyError: 'pear'" in shown
    assert "vectorised.py" not in shown
    assert "org.apache" not in shown


def test_a_traceback_of_ours_alone_keeps_its_frames() -> None:
    """Without a user's frame, binshift's frames are kept because they are the only useful ones."""
    assert "worker/epoch_task.py" in str(classify(RuntimeError(OURS_ALONE)))


def test_the_damaged_file_crosses_spark() -> None:
    """The driver gets the file of a task's error as a field, whatever the message is, or no file."""
    try:
        raise LogDamaged("it is torn:\nin two").about(file="deltas/7/a.arrow")
    except LogDamaged:
        text = traceback.format_exc()
    found = classify(RuntimeError(f"{text}\n\tat org.apache.spark.A.b(A.java:1)"))
    assert isinstance(found, LogDamaged)
    assert found.file == "deltas/7/a.arrow"
    plain = classify(RuntimeError("binshift.errors.LogDamaged: deltas/7/a.arrow is torn"))
    assert isinstance(plain, LogDamaged)
    assert plain.file is None


def test_an_error_leaves_as_what_it_means() -> None:
    """A decorated function raises the meaning, without Spark's error as its cause; what has none is raised unchanged."""

    @meaning()
    def fail(error: Exception) -> None:
        raise error

    with pytest.raises(Fenced, match="a newer driver") as found:
        fail(RuntimeError("binshift.errors.Fenced: a newer driver\n\tat org"))
    assert (found.value.__cause__, found.value.__suppress_context__) == (None, True)
    unknown = KeyError("x")
    with pytest.raises(KeyError) as same:
        fail(unknown)
    assert same.value is unknown
