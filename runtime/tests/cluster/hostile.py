"""What must be said and left when a program has gone wrong: for tests of user functions and checkpoints."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from log_drivers import snapshot

from binshift.log.tools.inspect import verify

MESSAGE_LINES_MAX = 20
JAVA = ("org.apache.spark", "java.lang", "scala.", "\tat ", "py4j")
"""What a user must not have to read."""


def writer(frame: Any, checkpoint: Path, sink: Any = None) -> Any:
    """A writer that only has to be started."""
    made = frame.writeStream.outputMode("update").option("checkpointLocation", str(checkpoint))
    return made.foreachBatch(sink) if sink else made.format("noop")


def check_told(message: str, *wanted: str) -> None:
    """A message that names what is wanted in a few lines, without a wall of Java."""
    assert len(message.splitlines()) < MESSAGE_LINES_MAX, message
    assert [each for each in wanted if each not in message] == [], message
    assert [each for each in JAVA if each in message] == [], message


def check_log(checkpoint: Path) -> None:
    """Every bin can be rebuilt from what the log has."""
    assert verify(str(checkpoint / "binshift")) == []


def bytes_of(checkpoint: Path) -> dict[str, bytes]:
    """Every file of a checkpoint, to compare it with itself later on."""
    return snapshot(checkpoint)
