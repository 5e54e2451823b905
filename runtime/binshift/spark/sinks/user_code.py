"""The error for a user function in a sink that raises: the end of its traceback only.

Long Java and binshift traces hide the one line that a user needs. Errors that only passed through the user's function, such as
an executor lost under its action, are raised as what they are, so that the epoch runs again.
"""

from __future__ import annotations

import traceback
from types import TracebackType

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from binshift.errors import BinshiftError, UserFunctionFailed
from binshift.invariants import InvariantViolated
from binshift.spark.session.failures import classify

LINES_MAX = 30
LINE_CHARS_MAX = 500


def user_failure(what: str, error: Exception) -> Exception:
    """The error to raise for ``error``, which left the user's function.

    Args:
        what: the function, for the message.
        error: the error that it raised.
    """
    # A connection error of a user's own client reads like Spark's message about a lost executor.
    if isinstance(error, BinshiftError | InvariantViolated | PySparkException | Py4JError):
        meaning = classify(error)
        if isinstance(meaning, BinshiftError | InvariantViolated) and not isinstance(meaning, UserFunctionFailed):
            return meaning
    return UserFunctionFailed(f"{what} raised:\n{traceback_end(error)}")


def traceback_end(error: BaseException, frames_skipped: int = 1) -> str:
    """The last lines of an error's traceback, from its first frame in user code on: after ``frames_skipped`` of binshift's."""
    at: TracebackType | None = error.__traceback__
    for _ in range(frames_skipped):
        at = at.tb_next if at is not None else None
    text = "".join(traceback.format_exception(type(error), error, at)).rstrip()
    lines = [line if len(line) <= LINE_CHARS_MAX else line[:LINE_CHARS_MAX] + " ..." for line in text.splitlines()]
    java = next((i for i, line in enumerate(lines) if line.startswith(("JVM stacktrace:", "\tat "))), len(lines))
    return "\n".join(lines[:java][-LINES_MAX:])
