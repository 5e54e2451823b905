"""What the driver's two processes say to each other: lines of JSON, one pipe each way.

The driver's first line to the program's process has the tokens, so that they are in no environment; later ones are wishes.
The process tells when its query answers for itself, and how everything ended. The sockets of the control API are inherited.
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
STOP: Final = b"stop"
"""The one wish: stop the query after its epoch."""


class Hello(msgspec.Struct, frozen=True):
    """The driver's first line.

    Attributes:
        admin: opens everything; None for nobody.
        drain: may only drain.
    """

    admin: str | None = None
    drain: str | None = None


class Serving(msgspec.Struct, frozen=True, tag=True):
    """There is a query, and this process answers for it.

    Attributes:
        application: Spark's id of this session.
    """

    application: str


class Stopping(msgspec.Struct, frozen=True, tag=True):
    """The query was asked to stop from outside: whatever comes of it, the program is not run again."""


class Stopped(msgspec.Struct, frozen=True, tag=True):
    """The query was asked to stop from outside, and has."""


class Ended(msgspec.Struct, frozen=True, tag=True):
    """The program has ended, and its process is about to.

    Attributes:
        state: one of `binshift.control.models.State`.
        reason: why.
        asked: whether its query was asked to stop from outside.
    """

    state: str
    reason: str
    asked: bool = False


class Gone(msgspec.Struct, frozen=True, tag=True):
    """The process has ended: nobody has the pipe any more."""


Word = Serving | Stopping | Stopped | Ended
"""What the program's process says."""

Message = Word | Gone

_MESSAGES: Final = msgspec.json.Decoder(Word)


class Teller:
    """The program's end of the pipe to the driver; any thread may use it."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._lock = threading.Lock()

    def tell(self, message: Word) -> None:
        """Send a message; a driver that is gone hears nothing, and this process is about to end."""
        with self._lock:
            try:
                os.write(self._descriptor, msgspec.json.encode(message) + b"\n")
            except BrokenPipeError:
                return


def listen(descriptor: int, heard: Callable[[Message], None]) -> None:
    """Hand on messages from a thread, until nobody has the other end; that is the last of them."""

    def read() -> None:
        with os.fdopen(descriptor, "rb") as lines:
            for line in iter(lambda: lines.readline(LINE_BYTES_MAX), b""):
                heard(_MESSAGES.decode(line))
        heard(Gone())

    threading.Thread(target=read, name="binshift-program", daemon=True).start()


def described(descriptors: tuple[int, int, int]) -> dict[str, str]:
    """The variable that tells a process which files it inherits."""
    return {DESCRIPTORS_VARIABLE: ",".join(map(str, descriptors))}


def inherited(environment: Mapping[str, str]) -> tuple[int, int, int]:
    """The inherited files; what this process starts in turn does not inherit them."""
    api, health, pipe = (int(each) for each in environment[DESCRIPTORS_VARIABLE].split(","))
    for descriptor in (api, health, pipe):
        os.set_inheritable(descriptor, False)
    return api, health, pipe
