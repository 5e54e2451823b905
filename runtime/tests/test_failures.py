"""What a failed Spark job is taken to mean."""

from __future__ import annotations

import pytest

from binshift.errors import EpochFailed, Fenced, NeedsBringUp, UserFunctionFailed
from binshift.invariants import InvariantViolated
from binshift.spark.failures import interpret, shorten

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


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("x\nbinshift.errors.NeedsBringUp: worker 1 lacks 3 of its bins\n\tat org", NeedsBringUp),
        ("binshift.errors.Fenced: a newer driver", Fenced),
        ("binshift.invariants.InvariantViolated: a bin twice. This is a bug", InvariantViolated),
        ("Lost task 0.0 (TID 5): ExecutorLostFailure (executor 1 exited caused by ...)", EpochFailed),
        ("Python worker exited unexpectedly (crashed)", EpochFailed),
        ("[CHECKPOINT_RDD_BLOCK_ID_NOT_FOUND] Checkpoint block rdd_8_0 not found!", EpochFailed),
        (WORKER, UserFunctionFailed),
    ],
    ids=["ours", "fenced", "invariant", "executor", "worker", "checkpoint", "user"],
)
def test_the_text_of_a_failure_becomes_its_type(text: str, kind: type[Exception]) -> None:
    """Our own errors come back as they were raised, lost executors as retryable, the rest as the user's."""
    assert type(interpret(RuntimeError(text))) is kind


def test_an_unknown_failure_stays_what_it_was() -> None:
    """Nothing is guessed."""
    error = RuntimeError("the source has no such topic")
    assert interpret(error) is error


def test_a_traceback_shows_the_users_lines_only() -> None:
    """Spark's own frames are left out."""
    told = str(interpret(RuntimeError(WORKER)))
    assert "clicks.py" in told
    assert "ZeroDivisionError: division by zero" in told
    assert "worker.py" not in told
    assert len(shorten("\n".join(f"line {n}" for n in range(99))).splitlines()) < 20
