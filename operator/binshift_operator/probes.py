"""Health and metrics over HTTP, for the kubelet and Prometheus.

*Alive*: the threads that look at dataflows do so, or have nothing to do. *Ready*: dataflows could be listed lately. Neither depends
on the state of any dataflow: restarting the operator heals none.
"""

from __future__ import annotations

import errno
import socket
import threading
from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import CollectorRegistry

REQUEST_SECONDS_MAX = 10.0


class _OfBoth(ThreadingHTTPServer):
    """On all addresses, of IPv6 and of IPv4."""

    address_family = socket.AF_INET6

    def server_bind(self) -> None:
        """Bind."""
        self.socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        super().server_bind()


def _listening(port: int, handler: type[BaseHTTPRequestHandler]) -> ThreadingHTTPServer:
    try:
        return _OfBoth(("::", port), handler)
    except OSError as no:
        if no.errno not in (errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL):
            raise
        return ThreadingHTTPServer(("", port), handler)  # this machine knows no IPv6


class ProbeServer:
    """Serves ``/healthz``, ``/readyz`` and ``/metrics``.

    Args:
        port: 0 for any that is free.
        alive: why not; empty if it is.
        ready: why not; empty if it is.
        registry: what is measured.
    """

    def __init__(
        self, port: int, alive: Callable[[], str], ready: Callable[[], str], registry: CollectorRegistry
    ) -> None:
        class Handler(BaseHTTPRequestHandler):
            timeout = REQUEST_SECONDS_MAX

            def do_GET(self) -> None:
                path = self.path.partition("?")[0]
                if path == "/metrics":
                    encode, kind = choose_encoder(self.headers.get("Accept", ""))
                    self._answer(HTTPStatus.OK, encode(registry), kind)
                elif path in ("/healthz", "/readyz"):
                    wrong = alive() if path == "/healthz" else ready()
                    status = HTTPStatus.SERVICE_UNAVAILABLE if wrong else HTTPStatus.OK
                    self._answer(status, (wrong or "ok").encode(), "text/plain; charset=utf-8")
                else:
                    self._answer(HTTPStatus.NOT_FOUND, b"not found", "text/plain; charset=utf-8")

            def _answer(self, status: HTTPStatus, body: bytes, kind: str) -> None:
                self.send_response(status)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:
                """Probes come every few seconds, and say nothing."""

        self._server = _listening(port, Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, name="probes", daemon=True)

    @property
    def port(self) -> int:
        """The port it listens on."""
        return int(self._server.server_address[1])

    def start(self) -> None:
        """Serve."""
        self._thread.start()

    def stop(self) -> None:
        """End."""
        self._server.shutdown()
        self._server.server_close()
