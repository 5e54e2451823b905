"""A proxy in front of the S3 server of `log_s3` with faults: it rejects, stalls, closes connections, and loses responses.

A function of the request decides its fault, so that a test can choose faults or draw them from a seed; every request is kept,
so that a test can count them. The worst faults are those in which the write *succeeded* and no response arrived: the client then
repeats a conditional create that it has already won.
"""

from __future__ import annotations

import contextlib
import http.client
import os
import random
import select
import socket
import struct
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from enum import StrEnum
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import NamedTuple
from urllib.parse import urlsplit

from log_s3 import s3_server

from simulator import SimulatedCluster

SILENCE_SECONDS_MAX = 30.0
SLOW_SECONDS = 0.3
CLIENT_SECONDS = "2"
"""How long the log waits for one response here; a missing response costs as much."""
RETRIES = "3"


class Fault(StrEnum):
    """The fault of a request. Faults whose names begin with DONE carry out the request first."""

    ERROR = "500 InternalError"
    BUSY = "503 SlowDown"
    CONFLICT = "409 ConditionalRequestConflict"
    RESET = "reset"
    SILENCE = "silence"
    SLOW = "slow"
    DONE_ERROR = "done, then 500 InternalError"
    DONE_RESET = "done, then reset"
    DONE_SILENCE = "done, then silence"
    DONE_CUT = "done, and the answer cut in the middle"


EVERYWHERE = frozenset(Fault) - {Fault.CONFLICT}
"""Faults of any request; a conflict is S3's response to two simultaneous conditional writes."""
SILENT = frozenset({Fault.SILENCE, Fault.DONE_SILENCE})


class Request(NamedTuple):
    """A request as received.

    Attributes:
        method: the HTTP method.
        name: the object's name in the bucket; for a listing, the query.
        conditional: whether it creates only an object that does not exist.
    """

    method: str
    name: str
    conditional: bool


Choice = Callable[[Request], Fault | None]


class Chance:
    """Draws faults from a seed, never more than a limit in a row for the same request.

    Args:
        seed: the seed of all draws.
        share: the share of requests with a fault.
        faults: the faults to choose from.
        row_max: the limit for one method and name; by default so low that the client's own repetitions succeed.
    """

    def __init__(
        self, seed: object, share: float, faults: Collection[Fault], row_max: Callable[[Request], int]
    ) -> None:
        self._random, self._share = random.Random(str(seed)), share
        self._faults, self._row_max = sorted(faults), row_max
        self._row: Counter[Request] = Counter()
        self._lock = threading.Lock()

    def __call__(self, request: Request) -> Fault | None:
        """The fault of ``request``."""
        with self._lock:
            if self._row[request] >= self._row_max(request) or self._random.random() >= self._share:
                self._row[request] = 0
                return None
            self._row[request] += 1
            fault = self._random.choice(self._faults)
            return fault if fault is not Fault.CONFLICT or request.conditional else Fault.ERROR


class Proxy:
    """The part of the proxy that tests control and read.

    Attributes:
        choose: the fault of each request; None for no fault.
        seen: every request, in order, with its fault.
        options: the options to open a log through the proxy.
    """

    def __init__(self, upstream: str, options: dict[str, str]) -> None:
        self.upstream = urlsplit(upstream).netloc
        self.options = options
        self.choose: Choice | None = None
        self.seen: list[tuple[Request, Fault | None]] = []

    def fate(self, request: Request) -> Fault | None:
        """Choose the fault and record it."""
        fault = None if self.choose is None else self.choose(request)
        self.seen.append((request, fault))
        return fault

    def count(self) -> Counter[str]:
        """Requests since the last call, by method and the first folder below the log."""
        counted = Counter(f"{request.method} {folder(request.name)}" for request, _ in self.seen)
        self.seen.clear()
        return counted


def folder(name: str) -> str:
    """The folder of an object of a log that is one folder deep in its bucket.

    >>> folder("x/records/00000000000000000007.json"), folder("x?list-type=2")
    ('records', 'list')
    """
    return "list" if "?" in name else name.split("/")[1] if name.count("/") > 1 else name


@contextmanager
def faulty_s3() -> Iterator[Proxy]:
    """An S3 server with an empty bucket, behind a proxy without faults at first."""
    with s3_server() as options:
        proxy = Proxy(options["endpoint"], {})
        server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"proxy": proxy}))
        server.daemon_threads = True
        server.block_on_close = False
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        endpoint = f"http://127.0.0.1:{server.server_port}"
        proxy.options = {**options, "endpoint": endpoint, "timeout_seconds": CLIENT_SECONDS, "retries": RETRIES}
        try:
            yield proxy
        finally:
            server.shutdown()
            thread.join()
            server.server_close()


class _Handler(BaseHTTPRequestHandler):
    """One connection of a client."""

    proxy: Proxy
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: object) -> None:
        """Requests are not logged."""

    def _one(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        name = self.path.lstrip("/").partition("/")[2] if "?" not in self.path else self.path
        request = Request(self.command, name, self.headers.get("If-None-Match") == "*")
        fault = self.proxy.fate(request)
        if fault is Fault.SLOW:
            time.sleep(SLOW_SECONDS)
        if fault in (None, Fault.SLOW):
            self._answer(*self._forwarded(body))
            return
        assert fault is not None
        answer = self._forwarded(body) if fault.name.startswith("DONE") else None
        match fault:
            case Fault.RESET | Fault.DONE_RESET:
                self._hang_up()
            case Fault.SILENCE | Fault.DONE_SILENCE:
                self._send_nothing()
            case Fault.DONE_CUT:
                assert answer is not None
                status, headers, data = answer
                self._answer(status, headers, data[: len(data) // 2], len(data))
                self._hang_up()
            case _:
                code = int(fault.removeprefix("done, then ").split()[0])
                text = f"<Error><Code>{fault.split()[-1]}</Code><Message>injected</Message></Error>".encode()
                self._answer(code, {"Content-Type": "application/xml"}, text)

    do_GET = do_PUT = do_HEAD = do_POST = do_DELETE = _one  # noqa: N815 (the server's names)

    def _forwarded(self, body: bytes) -> tuple[int, dict[str, str], bytes]:
        connection = http.client.HTTPConnection(self.proxy.upstream, timeout=60)
        headers = {key: value for key, value in self.headers.items() if key.lower() != "connection"}
        try:
            connection.request(self.command, self.path, body, headers)
            answer = connection.getresponse()
            return answer.status, dict(answer.getheaders()), answer.read()
        finally:
            connection.close()

    def _answer(self, status: int, headers: dict[str, str], data: bytes, size: int | None = None) -> None:
        kept = {key: value for key, value in headers.items() if key.lower() not in HOP_BY_HOP}
        if self.command != "HEAD":
            kept = {key: value for key, value in kept.items() if key.lower() != "content-length"}
            kept["Content-Length"] = str(len(data) if size is None else size)
        self.send_response_only(status)
        for key, value in kept.items():
            self.send_header(key, value)
        with contextlib.suppress(OSError):  # the client may have given up
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(data)

    def _send_nothing(self) -> None:
        """Send nothing until the client closes the connection."""
        until = time.monotonic() + SILENCE_SECONDS_MAX
        while time.monotonic() < until:
            readable, _, _ = select.select([self.connection], [], [], 0.1)
            if readable and not self._more():
                break
        self.close_connection = True

    def _more(self) -> bool:
        try:
            return bool(self.connection.recv(1, socket.MSG_PEEK))
        except OSError:
            return False

    def _hang_up(self) -> None:
        """Reset the connection, as a load balancer does."""
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        os.close(self.connection.detach())
        self.close_connection = True


HOP_BY_HOP = frozenset({"connection", "keep-alive", "transfer-encoding"})


def unwatched(cluster: SimulatedCluster) -> SimulatedCluster:
    """A cluster whose witness reads nothing: its requests would be counted, and meet faults meant for others."""
    cluster.witness = _Blind()  # type: ignore[assignment]
    cluster.world.stream.watch = lambda *_: None
    return cluster


class _Blind:
    """A witness that reads nothing."""

    def expect(self, batch: object) -> None:
        """Nothing is expected."""

    def check_epoch(self, epoch: object, index: object = None) -> None:
        """Nothing is read."""

    def check_stores(self) -> None:
        """Nothing is read."""
