"""Answers the kubelet's probes of an executor's pod.

One request at a time, and little time for each: nothing else calls it.
"""

from __future__ import annotations

import http.server
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http import HTTPStatus
from typing import Any, Final

REQUEST_SECONDS: Final = 2.0


@contextmanager
def serve_health(address: tuple[str, int], checks: Mapping[str, Callable[[], bool]]) -> Iterator[None]:
    """Answer at this host and port in a thread: for each path, whether its check holds.

    Raises:
        OSError: the name of the host is not known, or the port is taken.
    """
    family, _, _, _, found = socket.getaddrinfo(*address, type=socket.SOCK_STREAM)[0]
    resolved = str(found[0]), address[1]

    class Health(http.server.BaseHTTPRequestHandler):
        timeout = REQUEST_SECONDS
        server_version, sys_version = "binshift", ""

        def do_GET(self) -> None:
            check = checks.get(self.path)
            found = HTTPStatus.NOT_FOUND
            if check is not None:
                found = HTTPStatus.OK if check() else HTTPStatus.SERVICE_UNAVAILABLE
            self.send_response(found)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *arguments: Any) -> None:
            """Probes are not logged."""

    class Server(http.server.HTTPServer):
        address_family = family

    with Server(resolved, Health) as server:
        thread = threading.Thread(target=server.serve_forever, name="binshift-health", daemon=True)
        thread.start()
        try:
            yield
        finally:
            server.shutdown()
