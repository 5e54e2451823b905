"""Which of two drivers is the active one, as an executor's pod sees it, and a relay to its control API.

The active driver is the one that listens on its port `active` (`binshift.hosting.pod.activation`), of several the one that was activated
last. The preStop hook knows one address of the control API, which is on loopback: a connection to it waits until there is an active driver,
and then leads to that driver's port. When that changes, all connections to the other one end.
"""

from __future__ import annotations

import contextlib
import itertools
import select
import socket
import threading
import time
from typing import Final

CONNECT_SECONDS: Final = 1.0
LINE_SECONDS: Final = 3.0
"""How long a driver that listens may take to send its line: one that hangs is not the active one."""
RETRY_SECONDS: Final = 0.2
OTHERS_SECONDS: Final = 1.0
"""Between two tries of the other driver while one is active: it may take over while that one ends or hangs."""
TRIES_PER_NAME: Final = 5
"""Tries with an address before its name is resolved again, which is the load on the name service."""
KEEPALIVE: Final = ((socket.TCP_KEEPIDLE, 5), (socket.TCP_KEEPINTVL, 2), (socket.TCP_KEEPCNT, 3))
"""A node that is lost sends no end of its connections: they end after these seconds."""
PIECE_BYTES: Final = 1 << 16
LINE_BYTES_MAX: Final = 64
CONNECTIONS_MAX: Final = 64


class ActiveDriver:
    """Which driver is the active one, as far as this pod knows."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._since: dict[str, int] = {}
        self._past: set[str] = set()
        self._links: dict[socket.socket, str] = {}

    @property
    def host(self) -> str | None:
        """Its host; None while there is none."""
        with self._changed:
            return self._host()

    def _host(self) -> str | None:
        return max(self._since, key=lambda host: self._since[host], default=None)

    def up(self, host: str, activated: int) -> None:
        """This driver is active since then; connections to others end."""
        with self._changed:
            self._since[host] = activated
            self._past.add(host)
            self._cut()

    def down(self, host: str) -> None:
        """It is not any more."""
        with self._changed:
            self._since.pop(host, None)
            self._cut()

    def _cut(self) -> None:
        now = self._host()
        for link, host in self._links.items():
            if host != now:
                shut(link)
        self._changed.notify_all()

    def wait(self, host: str) -> None:
        """Before ``host`` is tried again: briefly, and longer while another driver is active."""
        with self._changed:
            if self._host() in (None, host):
                self._changed.wait(RETRY_SECONDS)
            else:
                self._changed.wait_for(lambda: self._host() is None, OTHERS_SECONDS)

    def is_replaced(self, host: str) -> bool:
        """Whether ``host`` was the active driver, and another one is now."""
        with self._changed:
            return host in self._past and self._host() not in (None, host)

    def wait_replaced(self, host: str, seconds: float) -> bool:
        """The same, as soon as it is so, but at most after so many seconds."""
        with self._changed:
            return self._changed.wait_for(lambda: self.is_replaced(host), seconds)

    def forget(self, host: str) -> bool:
        """That it was the active one, if it is not connected any more: a process that comes back waits. Whether that is so."""
        with self._changed:
            if host not in self._since:
                self._past.discard(host)
            return host not in self._since

    def enter(self, host: str, *links: socket.socket) -> bool:
        """Whether these connections lead to the active driver; they end when another one is it."""
        with self._changed:
            if self._host() != host:
                return False
            self._links.update(dict.fromkeys(links, host))
            return True

    def leave(self, *links: socket.socket) -> None:
        """These connections have ended."""
        with self._changed:
            for link in links:
                self._links.pop(link, None)


def follow(host: str, port: int, active: ActiveDriver) -> None:
    """Watch one driver, forever."""
    address = host
    for tries in itertools.count():
        if tries % TRIES_PER_NAME == 0:
            address = _resolved(host, port)
        with contextlib.suppress(OSError, ValueError), connect(address, port) as driver:
            driver.settimeout(LINE_SECONDS)
            activated = int(driver.makefile("rb").readline(LINE_BYTES_MAX))
            driver.settimeout(None)
            active.up(host, activated)
            try:
                while driver.recv(LINE_BYTES_MAX):
                    pass
            finally:
                active.down(host)
        active.wait(host)


def _resolved(host: str, port: int) -> str:
    """The address of a host; its name while it has none."""
    with contextlib.suppress(OSError):
        return str(socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][4][0])
    return host


def connect(host: str, port: int) -> socket.socket:
    """A connection that notices the loss of its node. Raises OSError."""
    made = socket.create_connection((host, port), CONNECT_SECONDS)
    made.settimeout(None)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in KEEPALIVE:
        made.setsockopt(socket.IPPROTO_TCP, option, value)
    return made


def lead(client: socket.socket, port: int, active: ActiveDriver) -> None:
    """Connect a client with the active driver's port, as soon as there is one, until either closes."""
    with client:
        while not _has_ended(client):
            host = active.host
            driver = None
            with contextlib.suppress(OSError):
                driver = None if host is None else connect(host, port)
            if host is not None and driver is not None:
                with driver:
                    try:
                        if active.enter(host, client, driver):
                            _copy_both(client, driver)
                            return
                    finally:
                        active.leave(client, driver)
            time.sleep(RETRY_SECONDS)


def _has_ended(client: socket.socket) -> bool:
    """Whether the client has closed its side, whatever it has sent before."""
    poll = select.poll()
    poll.register(client, select.POLLRDHUP | select.POLLHUP | select.POLLERR)
    return bool(poll.poll(0))


def _copy_both(one: socket.socket, other: socket.socket) -> None:
    back = threading.Thread(target=_copy, args=(other, one), daemon=True)
    back.start()
    _copy(one, other)
    back.join()


def _copy(source: socket.socket, target: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while piece := source.recv(PIECE_BYTES):
            target.sendall(piece)
    shut(source)
    shut(target)


def shut(link: socket.socket) -> None:
    """End a connection in both directions, or wake up who accepts on it; no effect if it has ended."""
    with contextlib.suppress(OSError):
        link.shutdown(socket.SHUT_RDWR)


def serve(listener: socket.socket, port: int, active: ActiveDriver) -> None:
    """Lead every client of ``listener`` to the active driver's ``port``, forever."""
    free = threading.BoundedSemaphore(CONNECTIONS_MAX)

    def led(client: socket.socket) -> None:
        try:
            lead(client, port, active)
        finally:
            free.release()

    while True:
        free.acquire()
        client, _ = listener.accept()
        threading.Thread(target=led, args=(client,), daemon=True).start()
