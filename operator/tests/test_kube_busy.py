"""An API server that is too busy, and the errors that its responses become."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest

from binshift_operator import kube
from binshift_operator.errors import Unreachable
from binshift_operator.kube import Kube, ServerConnection

JSON = {"Content-Type": "application/json"}
STATUS = json.dumps({"kind": "Status", "message": "etcd is slow", "details": {"retryAfterSeconds": 4}}).encode()


class Busy(BaseHTTPRequestHandler):
    """Answers with what its server was given."""

    def do_GET(self) -> None:
        status, headers, body = self.server.answer  # type: ignore[attr-defined]
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing."""


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[HTTPServer]:
    """A server on loopback that stands for the cluster's."""
    found = HTTPServer(("127.0.0.1", 0), Busy)

    def here(client_configuration: Any) -> None:
        client_configuration.host = f"http://127.0.0.1:{found.server_address[1]}"

    monkeypatch.setattr(kube, "load_incluster_config", here)
    thread = threading.Thread(target=found.serve_forever, daemon=True)
    thread.start()
    yield found
    found.shutdown()
    thread.join()
    found.server_close()


@pytest.mark.parametrize(
    ("answer", "after", "message"),
    [
        ((429, {"Retry-After": "7"}, b"Too many requests"), 7.0, "Too many requests"),
        ((429, {}, b"Too many requests"), 0.0, "429"),
        ((503, {**JSON, "Retry-After": "4"}, STATUS), 4.0, "etcd is slow"),
        ((500, JSON, b'{"message": "failed calling webhook"}'), 0.0, "failed calling webhook"),
        ((503, {"Retry-After": "Fri, 31 Dec 1999 23:59:59 GMT"}, b"later"), 0.0, "later"),
    ],
)
def test_busy_server_names_the_retry_delay(server: HTTPServer, answer: Any, after: float, message: str) -> None:
    """A response with a retry delay becomes an error with that delay and the original message."""
    server.answer = answer  # type: ignore[attr-defined]
    with pytest.raises(Unreachable, match=message) as busy:
        Kube(ServerConnection()).get("Pod", "ns", "a")
    assert busy.value.retry_after == after
