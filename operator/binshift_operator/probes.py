"""Health and metrics over HTTP, for the kubelet and Prometheus.

*Alive*: the controller's threads run and none is stuck. *Ready*: dataflows were listed recently. Neither depends on the state of any
dataflow, because a restart of the operator repairs none.
"""

from __future__ import annotations

import errno
import socket
import threading
from collections.abc import Callable
from http import HTTPStatus
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

from prometheus_client.exposition import ThreadingWSGIServer, make_wsgi_app
from prometheus_client.registry import CollectorRegistry


class _DualStackServer(ThreadingWSGIServer):
    address_family = socket.AF_INET6

    def server_bind(self) -> None:
        """Bind to all IPv6 and IPv4 addresses."""
        self.socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        super().server_bind()


class _Handler(WSGIRequestHandler):
    timeout = 10.0

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing: probes arrive every few seconds."""


def _bind(port: int, app: Callable[..., Any]) -> WSGIServer:
    try:
        return make_server("::", port, app, _DualStackServer, _Handler)
    except OSError as error:
        if error.errno not in (errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL):
            raise
        return make_server("", port, app, ThreadingWSGIServer, _Handler)  # this machine has no IPv6


class ProbeServer:
    """Serves ``/healthz``, ``/readyz`` and ``/metrics``.

    Args:
        port: 0 for any free port.
        alive: the reason for which the process is not alive; empty if it is.
        ready: the same for readiness.
        registry: the metrics.
    """

    def __init__(
        self, port: int, alive: Callable[[], str], ready: Callable[[], str], registry: CollectorRegistry
    ) -> None:
        probes, metrics = {"/healthz": alive, "/readyz": ready}, make_wsgi_app(registry)

        def app(environ: dict[str, Any], start_response: Callable[..., Any]) -> Any:
            path = environ["PATH_INFO"]
            if path == "/metrics":
                return metrics(environ, start_response)
            problem = probes[path]() if path in probes else "not found"
            status = HTTPStatus.SERVICE_UNAVAILABLE if path in probes else HTTPStatus.NOT_FOUND
            status = status if problem else HTTPStatus.OK
            start_response(f"{status.value} {status.phrase}", [("Content-Type", "text/plain; charset=utf-8")])
            return [(problem or "ok").encode()]

        self._server = _bind(port, app)
        self._thread = threading.Thread(target=self._server.serve_forever, name="probes", daemon=True)

    @property
    def port(self) -> int:
        """The port it listens on."""
        return int(self._server.server_address[1])

    def start(self) -> None:
        """Start serving."""
        self._thread.start()

    def stop(self) -> None:
        """Stop serving."""
        self._server.shutdown()
        self._server.server_close()
