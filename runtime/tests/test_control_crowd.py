"""The control API under many simultaneous requests: valid, malformed, too large, or never finished."""

from __future__ import annotations

import random
import socket
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import httpx2
import pytest
from control_fakes import ADMIN
from control_simulated import World
from prometheus_client.registry import CollectorRegistry

from binshift.control import ControlServer, Tokens
from binshift.control import server as serving
from binshift.control.app import control_app
from binshift.control.auth import BODY_BYTES_MAX
from binshift.control.service_holder import ServiceHolder

CALLERS, GENERATIONS, SLOW = 16, 60, 200
SEED = 20261122
UID = "7d3c"


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture
def served(world: World) -> Iterator[str]:
    """The address of a query's control API."""
    with ControlServer(control_app(ServiceHolder(world.service), Tokens(ADMIN), CollectorRegistry())) as server:
        yield server.url


def client(url: str) -> httpx2.Client:
    return httpx2.Client(base_url=url, headers={"Authorization": f"Bearer {ADMIN}"}, timeout=30)


def test_the_newest_of_many_targets_stands(world: World, served: str) -> None:
    """Generations may arrive in any order, together with invalid requests: the newest is desired, and no response is a 500."""
    calls = [("target", number) for number in range(1, GENERATIONS + 1)]
    calls += [("nonsense", 0), ("large", 0), ("bins", 0), ("dataflow", 0)] * 15
    random.Random(SEED).shuffle(calls)

    def call(request: tuple[str, int]) -> tuple[str, int]:
        kind, number = request
        with client(served) as api:
            match kind:
                case "target":
                    body = {"owner": UID, "generation": number, "workers": list(range(number % 4 + 1))}
                    return kind, api.put("/v1/target", json=body).status_code
                case "nonsense":
                    return kind, api.put("/v1/target", content=b'{"generation": [').status_code
                case "large":
                    return kind, api.put("/v1/target", content=b" " * (BODY_BYTES_MAX + 1)).status_code
                case _:
                    return kind, api.get(f"/v1/{kind}").status_code

    with ThreadPoolExecutor(CALLERS) as callers:
        answers = Counter(callers.map(call, calls))
    assert set(answers) <= {
        *(("target", status) for status in (200, 202, 409)),
        *(("nonsense", status) for status in (400, 422)),
        ("large", 413),
        ("bins", 200),
        ("dataflow", 200),
    }, answers
    seen = world.service.snapshot().target
    assert seen is not None
    assert (seen.generation, seen.workers) == (GENERATIONS, list(range(GENERATIONS % 4 + 1)))


def test_slow_callers_do_not_keep_others_out(served: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """When more callers than the limit begin a request and do not finish it, others wait only until those are disconnected."""
    monkeypatch.setattr(serving, "REQUEST_SECONDS_MAX", 0.5)
    host, port = served.removeprefix("http://").split(":")
    with ExitStack() as crowd:
        for _ in range(SLOW):
            slow = crowd.enter_context(socket.create_connection((host, int(port)), timeout=30))
            slow.sendall(b"GET /v1/dataflow HTTP/1.1\r\nHost: x\r\n")
        deadline = time.monotonic() + 30
        with client(served) as api:
            while (status := api.get("/v1/dataflow").status_code) != 200:
                assert status == 503
                assert time.monotonic() < deadline, "unfinished requests still occupy all connections"
                time.sleep(0.05)
