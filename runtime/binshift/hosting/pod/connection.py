"""Whether Spark's master still knows the program: the one thing that a driver cannot find out by itself.

A driver that has lost its master waits for it silently, forever; a master restarted with its memory finds the driver, one
without it never does. So the driver polls the master: its status page, which is on loopback in the same pod, lists the
applications that it knows. An application that is missing for a minute is restarted; so is one whose master does not answer for
so long.
"""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final
from urllib.request import ProxyHandler, build_opener

LOST_SECONDS: Final = 60.0
LOOK_SECONDS: Final = 5.0
ANSWER_SECONDS_MAX: Final = 5.0
ANSWER_BYTES_MAX: Final = 16 << 20
KNOWN: Final = frozenset({"WAITING", "RUNNING"})
"""States of a program that has a connection to its master; after a restart it is UNKNOWN until it has been found."""

_OPENER: Final = build_opener(ProxyHandler({}))


@dataclass
class Connection:
    """Since when there is none. Pure.

    Attributes:
        since: when it was first missed, in the caller's seconds; None while it is connected.
    """

    since: float | None = None

    def seen(self, connected: bool, now: float) -> bool:
        """Whether it is lost for good, by the result of this check.

        >>> connection = Connection()
        >>> [connection.seen(there, at) for there, at in ((False, 0), (False, 59), (True, 61), (False, 62), (False, 122))]
        [False, False, False, False, True]
        """
        self.since = None if connected else now if self.since is None else self.since
        return self.since is not None and now - self.since >= LOST_SECONDS


def knows(status: Any, application: str) -> bool:
    """Whether a master's status names a program that it is connected to.

    >>> knows({"activeapps": [{"id": "app-1", "state": "RUNNING"}]}, "app-1"), knows({"activeapps": []}, "app-1")
    (True, False)
    """
    with contextlib.suppress(TypeError, KeyError):
        return any(each["id"] == application and each["state"] in KNOWN for each in status["activeapps"])
    return False


class MasterWatch:
    """Polls every few seconds, from a thread, until stopped or until the connection is lost.

    Args:
        port: of the master's status page.
        application: Spark's id of the session.
        lost: called once, when the master has not known it for a minute.
    """

    def __init__(self, port: int, application: str, lost: Callable[[], None]) -> None:
        self._url = f"http://127.0.0.1:{port}/json/"
        self._application = application
        self._lost = lost
        self._stopped = threading.Event()

    def start(self) -> None:
        """Begin."""
        threading.Thread(target=self._loop, name="binshift-master", daemon=True).start()

    def stop(self) -> None:
        """End; nothing is called any more."""
        self._stopped.set()

    def _loop(self) -> None:
        connection = Connection()
        while not self._stopped.wait(LOOK_SECONDS):
            if connection.seen(knows(self._status(), self._application), time.monotonic()):
                if not self._stopped.is_set():
                    self._lost()
                return

    def _status(self) -> Any:
        """None where there is no answer."""
        with (
            contextlib.suppress(OSError, ValueError),
            _OPENER.open(self._url, timeout=ANSWER_SECONDS_MAX) as answer,
        ):
            return json.loads(answer.read(ANSWER_BYTES_MAX))
        return None
