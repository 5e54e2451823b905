"""Timeouts of requests to a driver: short for a connection, longer for a response."""

from __future__ import annotations

import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from types import SimpleNamespace
from typing import cast

import httpx2
import pytest
from test_driver_client import FakeDriver

from binshift_operator import driver_client
from binshift_operator.driver_client import DriverClient
from binshift_operator.errors import TimedOut, Unreachable


def test_silent_address_times_out_early(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pod that is gone: the time for a connection counts, and not the longer one for an answer."""
    monkeypatch.setattr(driver_client, "CONNECT_SECONDS_MAX", 0.1)
    monkeypatch.setattr(driver_client, "SECONDS_MAX", 3600.0)
    with ExitStack() as held:
        listening = held.enter_context(socket.create_server(("127.0.0.1", 0), backlog=0))
        address = listening.getsockname()
        held.enter_context(socket.create_connection(address))  # the one that waits; the kernel answers no other
        with pytest.raises(TimedOut):
            DriverClient(f"http://{address[0]}:{address[1]}", "t").dataflow()


def test_a_driver_that_is_busy_has_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Connected at once, it may take longer for the answer."""
    monkeypatch.setattr(driver_client, "CONNECT_SECONDS_MAX", 0.1)
    with socket.create_server(("127.0.0.1", 0)) as listening, ThreadPoolExecutor(1) as pool:

        def answer() -> None:
            connection, _ = listening.accept()
            with connection:
                connection.recv(4096)
                threading.Event().wait(0.3)
                connection.sendall(b"HTTP/1.1 503 no\r\nContent-Length: 22\r\n\r\n" + b'{"message": "not yet"}')

        answered = pool.submit(answer)
        with pytest.raises(Unreachable, match="not yet"):
            DriverClient(f"http://127.0.0.1:{listening.getsockname()[1]}", "t").dataflow()
        answered.result()


@pytest.mark.parametrize(
    ("error", "late"),
    [
        (httpx2.ConnectTimeout("timed out"), True),
        (httpx2.ReadTimeout("timed out"), True),
        (httpx2.ConnectError("refused"), False),
    ],
)
def test_timeout_differs_from_no_connection(monkeypatch: pytest.MonkeyPatch, error: Exception, late: bool) -> None:
    """Only a request that exceeded its time limit has timed out."""
    FakeDriver(monkeypatch, error)
    with pytest.raises(Unreachable) as raised:
        DriverClient("http://driver", "t").dataflow()
    assert isinstance(raised.value, TimedOut) is late


def test_response_in_small_parts_times_out() -> None:
    """A driver that sends its response byte by byte has as much time as any other one."""
    clock = iter([0.0, *(0.6 * driver_client.SECONDS_MAX * part for part in range(1, 4))])
    parts = SimpleNamespace(iter_raw=lambda: iter([b"{", b'"', b"s"]))
    with pytest.raises(TimedOut, match="not complete after 5 s"):
        driver_client._read(cast("httpx2.Response", parts), lambda: next(clock))
    assert next(clock) == 0.6 * driver_client.SECONDS_MAX * 3
