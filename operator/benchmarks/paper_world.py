"""All pods of a namespace marked as running, and a simulated driver for each dataflow with the control API over HTTP."""

from __future__ import annotations

import json
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any

from kubernetes import client, config
from paper_pods import Paper

from binshift_operator.errors import OperatorError, Refused, Unreachable
from binshift_operator.kube import ServerConnection
from binshift_operator.model.names import LABEL_INSTANCE

TICK_SECONDS = 1.0
WATCH_SECONDS = 300


class World:
    """Use it as a context manager.

    Attributes:
        held: names of dataflows whose runtime makes no progress.
        reads: when each control API was read.
    """

    def __init__(self, namespace: str) -> None:
        self.namespace, self.connection = namespace, ServerConnection()
        self.papers: dict[str, Paper] = defaultdict(lambda: Paper(self.connection))
        self.held: set[str] = set()
        self.reads: dict[str, list[float]] = defaultdict(list)
        self.lock, self.over = threading.RLock(), threading.Event()
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self.server.daemon_threads = True

    @property
    def address(self) -> str:
        """Of control APIs, for the operator."""
        return f"http://127.0.0.1:{self.server.server_address[1]}/{{service}}"

    @property
    def violations(self) -> list[str]:
        """What the operator must not have done."""
        return [each for paper in list(self.papers.values()) for each in paper.violations]

    def gaps(self) -> list[float]:
        """Of each held dataflow: the longest time between two reconciliations, also for those without any."""
        now = time.monotonic()
        return [
            max(b - a for a, b in zip(times, [*times[1:], now], strict=True))
            for name, times in self.reads.items()
            if name in self.held and times
        ]

    def __enter__(self) -> World:
        for work in (self.server.serve_forever, self._watch, self._tick):
            threading.Thread(target=work, daemon=True).start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.over.set()
        self.server.shutdown()

    def answer(self, name: str, method: str, path: str, body: Any) -> Any:
        """What a driver answers."""
        if method == "GET":
            self.reads[name].append(time.monotonic())
        with self.lock:
            query = self.papers[name].query() if name in self.papers else None
            if query is None:
                raise Unreachable("no driver")
            return query.answer(method, path, body)

    def _tick(self) -> None:
        while not self.over.wait(TICK_SECONDS):
            with self.lock:
                for name, paper in list(self.papers.items()):
                    if name not in self.held:
                        paper.tick()

    def _watch(self) -> None:
        while not self.over.is_set():
            for event in self._events():
                pod = event["object"]
                if event["type"] not in ("ADDED", "MODIFIED", "DELETED"):
                    break
                name = (pod["metadata"].get("labels") or {}).get(LABEL_INSTANCE)
                if name is None:
                    continue
                with self.lock:
                    if event["type"] == "DELETED":
                        self.papers[name].lost(pod["metadata"]["name"])
                    else:
                        self.papers[name].came(pod)

    def _events(self) -> Iterator[dict[str, Any]]:
        configuration = client.Configuration()
        config.load_kube_config(client_configuration=configuration)  # type: ignore[no-untyped-call]
        api = client.CoreV1Api(client.ApiClient(configuration))
        try:
            answer: Any = api.list_namespaced_pod(
                self.namespace, watch=True, timeout_seconds=WATCH_SECONDS, _preload_content=False
            )
            for line in answer:
                yield json.loads(line)
        except (OSError, ValueError, client.ApiException):
            time.sleep(0.5)


def _handler(world: World) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        """One driver a path."""

        def _do(self) -> None:
            service, _, path = self.path.lstrip("/").partition("/")
            length = int(self.headers.get("Content-Length") or 0)
            body = json.loads(self.rfile.read(length)) if length else None
            try:
                status, answer = 200, world.answer(service.removesuffix("-driver"), self.command, f"/{path}", body)
            except Refused as no:
                status, answer = 409, {"message": str(no)}
            except OperatorError as no:
                status, answer = 503, {"message": str(no)}
            data = json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        do_GET = do_PUT = do_POST = do_DELETE = _do  # noqa: N815  (the names are those of http.server)

        def log_message(self, *_: Any) -> None:
            """Log nothing."""

    return Handler
