"""An S3 server for tests: moto's, in this process, which answers one request at a time by default.

One at a time, because moto checks whether an object exists and stores it in two steps: with threads two writers could both
create it. The tests therefore cover binshift's side of conditional writes, not the atomicity that S3 itself guarantees.
"""

from __future__ import annotations

import threading
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import WSGIRequestHandler, make_server

BUCKET = "log"
CREDENTIALS = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test"}


@contextmanager
def credentials() -> Iterator[None]:
    """Set them in the environment, where the log reads them."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in CREDENTIALS.items():
            patch.setenv(name, value)
        yield


class _Silent(WSGIRequestHandler):
    def log(self, type: str, message: str, *args: object) -> None:
        """Requests are not logged."""


@contextmanager
def s3_server(*, threaded: bool = False) -> Iterator[dict[str, str]]:
    """A running server with one empty bucket; yields the options to open a log in it.

    With ``threaded``, many requests are answered at the same time; for tests in which no two writers compete, and clients keep
    idle connections open.
    """
    app = DomainDispatcherApplication(create_backend_app)
    server = make_server("127.0.0.1", 0, app, threaded=threaded, request_handler=_Silent)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    endpoint = f"http://127.0.0.1:{server.server_port}"
    try:
        with urllib.request.urlopen(urllib.request.Request(f"{endpoint}/{BUCKET}", method="PUT")):
            pass
        yield {"endpoint": endpoint, "region": "us-east-1", "allow_http": "true", "retries": "3"}
    finally:
        if threaded:
            server.block_on_close = False  # type: ignore[attr-defined]
        server.shutdown()
        thread.join()
        server.server_close()
