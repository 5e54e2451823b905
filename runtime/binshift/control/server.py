"""An HTTP server on its own thread, which ends on request.

The socket is bound before the thread begins, so that a port that is taken is an error of `start`, with its number in it,
and port 0 gives one that is free. It handles no signals: those belong to the program.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import socket
import ssl
import threading
from pathlib import Path
from typing import Final

import h11
import uvicorn
from fastapi import FastAPI
from uvicorn.protocols.http.h11_impl import H11Protocol

from binshift.control.certificate import ServedCertificate
from binshift.errors import InvalidSettings

START_SECONDS_MAX: Final = 30.0
STOP_SECONDS_MAX: Final = 5
"""How long open requests may take after the server was stopped."""
CONNECTIONS_MAX: Final = 128
"""More are answered 503 at once."""
LINGER_SECONDS: Final = 0.2
"""How long a connection without a request is kept when the server stops: the request may be on its way."""
IDLE_SECONDS_MAX: Final = 30
REQUEST_SECONDS_MAX: Final = 15.0
"""How long a client may take to send a request; at most twice as long after its first one."""
HEADER_BYTES_MAX: Final = 16 * 1024
BACKLOG: Final = 64


class _Server(uvicorn.Server):
    """Uvicorn's server, which reports whether it has started."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.decided = threading.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """As Uvicorn's."""
        await super().startup(sockets)
        self.decided.set()

    def run(self, sockets: list[socket.socket] | None = None) -> None:
        """As Uvicorn's."""
        try:
            super().run(sockets)
        finally:
            self.decided.set()


class _Connection(H11Protocol):
    """Uvicorn's, that does not turn away who has just connected, nor wait for who does not finish asking."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """As Uvicorn's."""
        super().connection_made(transport)
        self.loop.call_later(REQUEST_SECONDS_MAX, self._check, None)

    def _check(self, before: object) -> None:
        """Close the connection if the same request, or the first, has been awaited since the last check."""
        if self.transport.is_closing():
            return
        waits = self.conn.their_state in (h11.IDLE, h11.SEND_BODY)
        now = (self.cycle, self.conn.their_state) if waits else None
        if now is not None and (now == before or self.cycle is None):
            self.transport.close()
        else:
            self.loop.call_later(REQUEST_SECONDS_MAX, self._check, now)

    def shutdown(self) -> None:
        """As Uvicorn's, a moment later if there was no request yet."""
        if self.cycle is None:
            self.loop.call_later(LINGER_SECONDS, self._closed)
        else:
            self._end()

    def _closed(self) -> None:
        if not self.transport.is_closing():
            self._end()

    def _end(self) -> None:
        super().shutdown()
        if self.transport.is_closing() and self.transport.get_extra_info("ssl_object") is not None:
            # A client that keeps an idle connection does not always answer the end of TLS, and the next server would wait for it.
            self.loop.call_later(LINGER_SECONDS, self.transport.abort)


class ControlServer:
    """Serves one application; `start` and `stop`, or use as a context manager.

    Args:
        app: what to serve.
        host: an address of this machine; ``0.0.0.0`` for all.
        port: 0 for any that is free.
        listener: a socket that is bound already, instead of host and port. It stays open when the server stops, and
            new connections wait for the next server on it, in this process or in one that has inherited it.
        tls: the folder of its certificate (`ServedCertificate`); None for plain HTTP.
    """

    def __init__(
        self,
        app: FastAPI,
        host: str = "127.0.0.1",
        port: int = 0,
        listener: socket.socket | None = None,
        tls: Path | None = None,
    ) -> None:
        self._app, self._host, self._wanted, self._given, self._tls = app, host, port, listener, tls
        self._socket: socket.socket | None = None
        self._server: _Server | None = None
        self._thread: threading.Thread | None = None

    @property
    def port(self) -> int:
        """The port it listens on.

        Raises:
            InvalidSettings: it does not.
        """
        if self._socket is None:
            raise InvalidSettings("the control server has not been started")
        return int(self._socket.getsockname()[1])

    @property
    def url(self) -> str:
        """Where it answers, as seen from this machine. Errors as `port`."""
        host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(self._host, self._host)
        scheme = "http" if self._tls is None else "https"
        return f"{scheme}://[{host}]:{self.port}" if ":" in host else f"{scheme}://{host}:{self.port}"

    def start(self) -> ControlServer:
        """Bind and serve; returns itself once requests are answered.

        Raises:
            InvalidSettings: it runs already, the port is taken or not allowed, or the certificate cannot be used; the message names it.
        """
        if self._thread is not None:
            raise InvalidSettings(f"the control server is already running at {self.url}")
        tls = None if self._tls is None else ServedCertificate(self._tls).context
        self._socket = bind(self._host, self._wanted) if self._given is None else _shared(self._given)
        self._server = _Server(_config(self._app, tls))
        arguments = {"sockets": [self._socket]}
        self._thread = threading.Thread(target=self._server.run, kwargs=arguments, name="binshift-http", daemon=True)
        self._thread.start()
        if not self._server.decided.wait(START_SECONDS_MAX) or not self._server.started:
            self.stop()
            raise InvalidSettings(f"the control server on {self._host} did not start; the log has the reason")
        return self

    def stop(self) -> None:
        """End: requests under way are answered, a port of our own is free afterwards. May be called again."""
        if self._server is not None and self._thread is not None:
            self._server.should_exit = True
            self._thread.join(2 * STOP_SECONDS_MAX)
        if self._socket is not None:
            self._socket.close()
        self._server = self._thread = self._socket = None

    def __enter__(self) -> ControlServer:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()


def bind(host: str, port: int, backlog: int | None = BACKLOG) -> socket.socket:
    """A socket that is bound there and listens; who connects waits for a server. Without a backlog it refuses clients until it listens.

    Raises:
        InvalidSettings: the port is taken, not allowed or no port, or the address is not one of this machine's.
    """
    listener = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM)
    with contextlib.ExitStack() as undo:
        undo.callback(listener.close)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((host, port))
            if backlog is not None:
                listener.listen(backlog)
        except (OSError, OverflowError) as error:
            raise InvalidSettings(_unbound(host, port, error)) from error
        undo.pop_all()
    return listener


def _shared(listener: socket.socket) -> socket.socket:
    """A separate socket object on the same address.

    Whether a call blocks is a property of the shared description, also with other processes: if it were set to block, even for
    a moment, a server there could wait in it forever.
    """
    listener.setblocking(False)
    return listener.dup()


def _unbound(host: str, port: int, error: OSError | OverflowError) -> str:
    match getattr(error, "errno", None):
        case errno.EADDRINUSE:
            return f"port {port} of {host} is taken by another process: end that, or choose another port (0: any)"
        case errno.EACCES:
            return f"this user has no permission for port {port} of {host}: choose one above 1023"
        case _:
            return f"nothing can listen on {host}, port {port}: {error}"


def _config(app: FastAPI, tls: ssl.SSLContext | None) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        lifespan="off",
        ws="none",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        limit_concurrency=CONNECTIONS_MAX,
        timeout_keep_alive=IDLE_SECONDS_MAX,
        timeout_graceful_shutdown=STOP_SECONDS_MAX,
        h11_max_incomplete_event_size=HEADER_BYTES_MAX,
        http=_Connection,
        loop="asyncio",
        ssl_context_factory=None if tls is None else lambda _config, _default: tls,
    )
