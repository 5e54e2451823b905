"""Which of a dataflow's drivers is the active one, as the drivers themselves show it to the executors.

Only the active driver listens on the port `active`. To each client it sends the time of its activation as a line, and then keeps the
connection: a client finds the active driver by its answer, learns of its end by the end of the connection, and prefers the driver that was
activated last. Nothing depends on it for correctness: a driver that was replaced is fenced by the log.
"""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Callable
from typing import Final

from binshift.control.server import bind
from binshift.hosting.pod.relay import shut

CLIENTS_MAX: Final = 4096
"""Two connections of each executor, and room; more are closed at once."""


class Activation:
    """Whether this driver is the active one. An active one stays so until its process ends.

    Args:
        active: whether it is so from the start, as without a standby; the port is not used then.
        host: the address to listen on.
        port: see above.
        clock: nanoseconds since 1970.

    Raises:
        InvalidSettings: the port is taken or not allowed.
    """

    def __init__(self, *, active: bool, host: str = "", port: int = 0, clock: Callable[[], int] = time.time_ns) -> None:
        self._event, self._lock, self._clock = threading.Event(), threading.Lock(), clock
        self._reserved = None if active else _reserve(host, port)
        self._clients = set[socket.socket]()
        if active:
            self._event.set()

    @property
    def is_standby(self) -> bool:
        """Whether it was, or is, a standby: its program waits for the activation."""
        return self._reserved is not None

    @property
    def active(self) -> bool:
        """Whether it is."""
        return self._event.is_set()

    def activate(self) -> None:
        """Make it the active one; no effect if it is."""
        with self._lock:
            if self._reserved is not None and not self._event.is_set():
                self._reserved.listen()
                line = b"%d\n" % self._clock()
                threading.Thread(
                    target=self._serve, args=(self._reserved, line), name="binshift-active", daemon=True
                ).start()
            self._event.set()

    def close(self) -> None:
        """Free the port, and end the connections."""
        if self._reserved is not None:
            shut(self._reserved)  # otherwise `accept` would keep it
            self._reserved.close()
        with self._lock:
            for client in self._clients:
                shut(client)

    def _serve(self, listener: socket.socket, line: bytes) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = listener.accept()
                with self._lock:
                    if len(self._clients) >= CLIENTS_MAX:
                        client.close()
                        continue
                    self._clients.add(client)
                threading.Thread(target=self._hold, args=(client, line), name="binshift-client", daemon=True).start()

    def _hold(self, client: socket.socket, line: bytes) -> None:
        """Keep a connection until the client closes it."""
        with contextlib.suppress(OSError):
            client.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            client.sendall(line)
            while client.recv(64):
                pass
        with self._lock:
            self._clients.discard(client)
        client.close()


def _reserve(host: str, port: int) -> socket.socket:
    """The port, bound and closed to clients: they are refused until the driver is activated."""
    return bind(host, port, backlog=None)
