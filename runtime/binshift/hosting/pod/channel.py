"""Messages between the driver's two processes: lines of JSON, one pipe each way.

The driver's first line to the program's process has tokens and secret, so that they are in no environment; later ones are
requests. The process reports when it has a query, and how everything ended. The sockets of the control API are inherited; one
of the two answers on them at a time, and callers wait during the handover to the other.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping
from typing import Final

import msgspec

DESCRIPTORS_VARIABLE: Final = "BINSHIFT_DESCRIPTORS"
"""Numbers of the inherited files: the API's socket, the health socket, the pipe to the driver."""
LINE_BYTES_MAX: Final = 64 * 1024
SERVE: Final = b"serve"
"""Request: serve the sockets from now on; the other process does not."""
ACTIVATE: Final = b"activate"
"""Request: this driver is the active one, so queries can start."""
STOP: Final = b"stop"
"""Wish: stop the query after its epoch."""


class Hello(msgspec.Struct, frozen=True):
    """The driver's first line.

    Attributes:
        folder: an empty one that only we can read; the driver removes it.
        secret: Spark's; empty for none.
        admin: opens everything; None: no such token.
        drain: may only drain.
    """

    folder: str
    secret: str = ""
    admin: str | None = None
    drain: str | None = None


class Parked(msgspec.Struct, frozen=True, tag=True):
    """The program is about to start its first query, and waits until its driver is activated.

    Attributes:
        application: Spark's id of this session.
    """

    application: str


class Rehearsed(msgspec.Struct, frozen=True, tag=True):
    """The program still waits; the executors of these workers have rehearsed it, and are ready for a take-over."""

    workers: tuple[int, ...]


class Recorded(msgspec.Struct, frozen=True, tag=True):
    """The program is about to start its query, and waits for these workers, which hold its bins by the log."""

    workers: tuple[int, ...]


class Started(msgspec.Struct, frozen=True, tag=True):
    """There is a query: this process can answer for it.

    Attributes:
        application: Spark's id of this session.
    """

    application: str


class Stopping(msgspec.Struct, frozen=True, tag=True):
    """A stop of the query was requested from outside: whatever its result, the program is not run again."""


class Over(msgspec.Struct, frozen=True, tag=True):
    """The query has ended; the program may continue.

    Attributes:
        stop_requested: whether a stop of it was requested from outside.
    """

    stop_requested: bool


class Ended(msgspec.Struct, frozen=True, tag=True):
    """The program has ended, and its process is about to; it answers no longer.

    Attributes:
        state: one of `binshift.control.models.State`.
        reason: why.
        stop_requested: whether a stop of its query was requested from outside.
    """

    state: str
    reason: str
    stop_requested: bool = False


class Gone(msgspec.Struct, frozen=True, tag=True):
    """The process has ended: no process has the pipe any more."""


Report = Parked | Rehearsed | Recorded | Started | Stopping | Over | Ended
"""Messages from the program's process."""

Message = Report | Gone

_MESSAGES: Final = msgspec.json.Decoder(Report)
HELLO: Final = msgspec.json.Decoder(Hello)


class ChannelWriter:
    """The program's end of the pipe to the driver; any thread may use it."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._lock = threading.Lock()

    def send(self, message: Report) -> None:
        """Send a message; a driver that is gone hears nothing, and this process is about to end."""
        with self._lock:
            try:
                os.write(self._descriptor, msgspec.json.encode(message) + b"\n")
            except BrokenPipeError:
                return


def listen(descriptor: int, handle: Callable[[Message], None]) -> None:
    """Forward messages from a thread, until no process has the other end; that is the last of them."""

    def read() -> None:
        with os.fdopen(descriptor, "rb") as lines:
            for line in iter(lambda: lines.readline(LINE_BYTES_MAX), b""):
                handle(_MESSAGES.decode(line))
        handle(Gone())

    threading.Thread(target=read, name="binshift-program", daemon=True).start()


def described(descriptors: tuple[int, int, int]) -> dict[str, str]:
    """The variable with the files that a process inherits."""
    return {DESCRIPTORS_VARIABLE: ",".join(map(str, descriptors))}


def inherited(environment: Mapping[str, str]) -> tuple[int, int, int]:
    """The inherited files; what this process starts in turn does not inherit them."""
    api, health, pipe = (int(each) for each in environment[DESCRIPTORS_VARIABLE].split(","))
    for descriptor in (api, health, pipe):
        os.set_inheritable(descriptor, False)
    return api, health, pipe
