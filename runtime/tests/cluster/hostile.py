"""Required messages and files after a failure of a program: for tests of user functions and checkpoints."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from log_drivers import snapshot

from binshift.log.tools.inspect import verify
from binshift.spark.frontend.writer import StatefulStreamWriter

MESSAGE_LINES_MAX = 20
JAVA = ("org.apache.spark", "java.lang", "scala.", "\tat ", "py4j")
"""Text that a user must not have to read."""


def writer(made: StatefulStreamWriter, checkpoint: Path, sink: Any = None) -> StatefulStreamWriter:
    """The writer, ready to start."""
    made = made.outputMode("update").option("checkpointLocation", str(checkpoint))
    return made.foreachBatch(sink) if sink else made.format("noop")


def check_told(message: str, *wanted: str) -> None:
    """Check that a message has the wanted texts in a few lines, without a long Java trace."""
    assert len(message.splitlines()) < MESSAGE_LINES_MAX, message
    assert [each for each in wanted if each not in message] == [], message
    assert [each for each in JAVA if each in message] == [], message


def check_log(checkpoint: Path) -> None:
    """Check that every bin can be rebuilt from the log."""
    assert verify(str(checkpoint / "binshift")) == []


def bytes_of(checkpoint: Path) -> dict[str, bytes]:
    """Every file of a checkpoint, for a later comparison."""
    return snapshot(checkpoint)
