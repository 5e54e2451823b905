"""A program's process as the driver sees it, without Spark: reports what its kind requires. ``pods_child KIND [FILE]``.

Kinds: ``loads`` waits for workers 0 and 3 until it is stopped; ``serves`` until it is stopped; ``stubborn`` serves and never
stops; ``serves-and-dies`` is killed once FILE exists; ``fails``, ``finishes`` and ``dies`` at once; ``fails-once`` finishes if
FILE exists, and creates it; ``stubborn-once`` serves if FILE exists, and creates it.
"""

from __future__ import annotations

import os
import queue
import signal
import socket
import sys
import time
from pathlib import Path
from typing import NoReturn

from control_fakes import FakeService

from binshift.control import Control, ControlSettings, Listeners, Tokens
from binshift.hosting.pod import channel
from binshift.hosting.program import watch_parent


def main(kind: str, file: Path) -> int:
    """Run it."""
    api, health, pipe = channel.inherited(os.environ)
    writer = channel.ChannelWriter(pipe)
    lines: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    watch_parent(lines.put)
    hello = channel.HELLO.decode(lines.get())
    kind = of_this_time(kind, file)
    if (status := without_query(kind, writer, lines, file)) is not None:
        return status
    if kind == "dies":
        _die()
    listeners = Listeners(socket.socket(fileno=api), socket.socket(fileno=health))
    control = Control(ControlSettings(tokens=Tokens(hello.admin, hello.drain)), listeners)
    service = FakeService()
    control.services.current = service
    writer.send(channel.Started("app-1"))
    assert lines.get().strip() == channel.SERVE
    control.start()
    while kind == "serves-and-dies":
        if file.exists():
            file.unlink()
            _die()
        time.sleep(0.01)
    while kind == "stubborn":
        time.sleep(1)
    while not service.stopped and lines.empty():
        time.sleep(0.01)
    service.stopped = True
    writer.send(channel.Stopping())
    writer.send(channel.Over(True))
    control.stop()
    writer.send(channel.Ended("Stopped", "", stop_requested=True))
    return 0


def without_query(kind: str, writer: channel.ChannelWriter, lines: queue.SimpleQueue[bytes], file: Path) -> int | None:
    """The exit status of a kind without a query; None for others."""
    if kind in {"fails", "fails-once"}:
        file.touch()
        writer.send(channel.Ended("Failed", "ValueError: no"))
        return 1
    if kind == "finishes":
        writer.send(channel.Ended("Finished", ""))
        return 0
    if kind == "loads":
        writer.send(channel.Recorded((0, 3)))
        lines.get()
        writer.send(channel.Ended("Stopped", "", stop_requested=True))
        return 0
    return None


def of_this_time(kind: str, file: Path) -> str:
    """The current kind of one that changes with its second run."""
    if kind == "fails-once" and file.exists():
        return "finishes"
    if kind == "fails-then-loads":
        return "loads" if file.exists() else "fails"
    if kind == "stubborn-once":
        again = file.exists()
        file.touch()
        return "serves" if again else "stubborn"
    return kind


def _die() -> NoReturn:
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], Path(sys.argv[2])))
