"""The meaning of a failed Spark job: which of binshift's errors it carries, or that an executor was lost.

Spark passes a Python worker's exception to the driver as text inside a Java exception. This module turns that text back into
the typed error, and reduces long Java traces to the last lines of the user's own traceback.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from pyspark.errors import PySparkException

from binshift.errors import BinshiftError, DiskFull, EpochFailed, TaskFailed, UserFunctionFailed
from binshift.spark.session.error_text import parse

LOST = re.compile(
    r"ExecutorLostFailure|FetchFailed|Executor heartbeat timed out|executor \S+ exited|worker lost|Worker lost"
    r"|Python worker exited unexpectedly|Connection reset|Remote RPC client disassociated|Master removed our application"
    r"|Job \d+ cancelled|Failed to connect to|java\.io\.EOFException|CHECKPOINT_RDD_BLOCK_ID_NOT_FOUND"
    r"|Checkpoint block \S+ not found|reading the port number from pyspark\.daemon|PythonWorkerFactory\.stopWorker"
)
"""An executor, or its Python worker, was lost: the epoch can run again."""

TASK = re.compile(r"Lost task \S+ in stage \S+ (.*)")
"""A task failed on a live executor."""

WRITE = re.compile(r"\[TASK_WRITE_FAILED\] Task failed while writing rows to (\S+?)\. ")
"""Results could not be written; Spark does not retry such a task."""

FULL = re.compile("No space left on device|Disk quota exceeded")

CAUSE = re.compile(r"^Caused by: (.*)", re.MULTILINE)

INVARIANT = re.compile(r"binshift\.invariants\.InvariantViolated: ([^\n]*)")
CHAINED = r"(?:The above exception was the direct cause|During handling of the above exception)"
TRACEBACK = re.compile(
    rf"Traceback \(most recent call last\):\n.*?(?=\n\n(?!{CHAINED}|Traceback \()|\n\tat |\Z)", re.DOTALL
)
"""A Python traceback with those of its causes, which come first."""

CONDITION = re.compile(r"^pyspark\.errors\.\S+: \[[A-Z]", re.MULTILINE)
"""An error of PySpark's own checks in a worker, which begins with Spark's name of it."""

OUTER_CONDITION = re.compile(r"(?:^|: )\[([A-Z][A-Z0-9_.]*)\] ", re.MULTILINE)
"""Spark's name of an error that a standing task has reported as text."""

HEADER = "Traceback (most recent call last):"
SPARKS_FRAME = re.compile(r"/pyspark/|pyspark\.zip")
OUR_FRAME = re.compile(r"/binshift/(?:spark|engine|worker|operators|store|log)/")
LIBRARY_FRAME = re.compile(r"/lib/python3\.\d+/(?!site-packages|dist-packages)|\"pyarrow/|/pyarrow/|\"<frozen")
"""The last frame when a socket is read, in any module."""

JAVA_FRAME = re.compile(r"\s+(at \S+\(.*\)|\.\.\. \d+ more)\s*$")

TASK_MESSAGE_CHARACTERS = 300
"""The most characters shown of a task's error."""
MESSAGE_LINES_MAX = 12
"""Lines of a user's traceback worth showing."""


def classify(error: Exception) -> Exception:
    """The error behind a failed job: a binshift error, `EpochFailed` for lost executors, `TaskFailed`, or the original.

    >>> type(classify(RuntimeError("... ExecutorLostFailure (executor 1 exited) ..."))).__name__
    'EpochFailed'
    """
    if isinstance(error, BinshiftError):
        return error
    text = str(error)
    if (ours := parse(text)) is not None:
        return ours
    if (broken := INVARIANT.search(text)) is not None:
        from binshift.invariants import InvariantViolated

        return InvariantViolated(broken.group(1))
    traceback = TRACEBACK.search(text)
    own = traceback is not None and _is_users(traceback[0])
    if LOST.search(TRACEBACK.sub("", text) if own else text):
        return EpochFailed(f"an executor or its Python worker was lost: {_first_line(text)}")
    if traceback:
        short = shorten(traceback[0])
        named = None if CONDITION.search(short) else _condition(error, text[: traceback.start()])
        where = f"inside an epoch [{named}]" if named else "inside an epoch"
        return UserFunctionFailed(f"the program failed {where}:\n{short}")
    if (write := WRITE.search(text)) is not None:
        return _not_written(write[1], text[write.end() :])
    if (task := TASK.search(text)) is not None:
        return TaskFailed(f"a task failed: {task[1][:TASK_MESSAGE_CHARACTERS]}{_because(text[task.end() :])}")
    return error


def _condition(error: Exception, message: str) -> str | None:
    """Spark's name of an error, if it has one."""
    if isinstance(error, PySparkException):
        return error.getCondition()
    found = OUTER_CONDITION.search(message)
    return found and found[1]


def _not_written(place: str, rest: str) -> Exception:
    if (full := FULL.search(rest)) is not None:
        return DiskFull(f"{place} has no room ({full[0]}): free space there; nothing is lost, and the write is retried")
    return TaskFailed(f"a task could not write its rows to {place}{_because(rest)}")


def _is_users(traceback: str) -> bool:
    """Whether user code was running: its connection errors are then not Spark's."""
    frames = [line for line in traceback.splitlines() if _is_frame(line)]
    not_theirs = [at for at, line in enumerate(frames) if SPARKS_FRAME.search(line) or OUR_FRAME.search(line)]
    return any(not LIBRARY_FRAME.search(line) for line in frames[max(not_theirs, default=-1) + 1 :])


def _is_frame(line: str) -> bool:
    return line.lstrip().startswith('File "')


def shorten(traceback: str) -> str:
    """The end of a traceback, without the frames of Spark's worker; binshift's frames are omitted if there are user frames."""
    in_user_code = _is_users(traceback)
    kept: list[str] = []
    skipping = False
    for line in traceback.rstrip().splitlines():
        if _is_frame(line):
            skipping = bool(SPARKS_FRAME.search(line) or (in_user_code and OUR_FRAME.search(line)))
        elif not line.startswith(" "):
            skipping = False
        if not skipping and line not in ("", HEADER):
            kept.append(line)
    return "\n".join(kept[-MESSAGE_LINES_MAX:])


def without_java(lines: Sequence[str]) -> list[str]:
    """Lines of a traceback without Java frames, which hide the message.

    >>> without_java(["x.Failed: no bucket", "\\tat org.x.A.b(A.java:1)", "\\t... 3 more", "Caused by: y"])
    ['x.Failed: no bucket', 'Caused by: y']
    """
    return [line for line in lines if not JAVA_FRAME.match(line)]


def _because(rest: str) -> str:
    """The root cause that Java reports, if it differs from the top-level error."""
    causes = CAUSE.findall(rest)
    return f", because of {causes[-1][:TASK_MESSAGE_CHARACTERS]}" if causes else ""


def _first_line(text: str) -> str:
    match = LOST.search(text)
    at = match.start() if match else 0
    return text[at : at + 200].splitlines()[0]


@contextmanager
def meaning() -> Iterator[None]:
    """Errors of Spark leave this context, or a function decorated with it, as what they mean, without their long Java traces."""
    try:
        yield
    except Exception as error:  # any error: the engine gets its meaning (see `classify`)
        found = classify(error)
        raise found from (None if found is not error else error.__cause__)
