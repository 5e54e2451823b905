"""Waits for what the other pods bring: a name that resolves, a port that answers.

All pods of a dataflow start at once, and a name is known some seconds after its pod. Spark's processes would end at the
first name that is not known, and wait many seconds before they ask a master again that was not there yet.
"""

from __future__ import annotations

import logging
import socket
import time
from collections.abc import Callable
from typing import Final

log = logging.getLogger(__name__)

WAIT_SECONDS: Final = 60.0
POLL_SECONDS: Final = 0.2
CONNECT_SECONDS_MAX: Final = 2.0


def await_name(host: str, seconds: float = WAIT_SECONDS) -> bool:
    """Whether ``host`` resolves within so many seconds."""
    return _await(f"{host} to be known", lambda: bool(socket.getaddrinfo(host, None)), seconds)


def await_port(host: str, port: int, seconds: float = WAIT_SECONDS) -> bool:
    """Whether somebody listens there within so many seconds."""

    def connects() -> bool:
        with socket.create_connection((host, port), CONNECT_SECONDS_MAX):
            return True

    return _await(f"{host}:{port} to answer", connects, seconds)


def _await(what: str, look: Callable[[], bool], seconds: float) -> bool:
    began, told = time.monotonic(), False
    while True:
        try:
            return look()
        except OSError as error:
            if time.monotonic() - began > seconds:
                log.warning("waited %.0f s for %s: %s", seconds, what, error)
                return False
            if not told:
                told = True
                log.info("waiting for %s: %s", what, error)
        time.sleep(POLL_SECONDS)
