"""The preStop hook waits only while bins move, and always ends successfully."""

from __future__ import annotations

import errno
import io
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from types import SimpleNamespace
from typing import Any
from urllib.error import URLError

import pytest

from binshift.hosting.pod import drain
from simulator.clock import ManualClock

MOVING = b'{"migration": {"id": 7, "phase": "copying", "binsMoved": 1, "binsTotal": 4}}'
Answer = tuple[int, bytes]


@contextmanager
def driver(answer: Callable[[str, str, int], Answer]) -> Iterator[tuple[str, list[tuple[str, str, str]]]]:
    """A control API: ``answer(method, path, count)``; yields its address and its requests."""
    seen: list[tuple[str, str, str]] = []

    class Handler(BaseHTTPRequestHandler):
        def _any(self) -> None:
            seen.append((self.command, self.path, self.headers["Authorization"]))
            status, body = answer(self.command, self.path, len(seen))
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_GET = do_POST = _any  # noqa: N815

        def log_message(self, *args: Any) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}", seen
        server.shutdown()


def environment(url: str) -> dict[str, str]:
    return {"BINSHIFT_CONTROL_URL": url, "BINSHIFT_DRAIN_TOKEN": "t", "HOSTNAME": "clicks-executor-3"}


def drain_message(url: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """The last message of the hook; simulated time passes at once."""
    clock, lines = ManualClock(), list[str]()
    # Only the hook's own name: other threads of this process sleep, too, and would advance the clock.
    monkeypatch.setattr(drain, "time", SimpleNamespace(monotonic=clock, sleep=clock.sleep))
    assert drain.main(environment(url), lines.append) == 0
    (line,) = lines
    return line


def test_it_waits_until_the_bins_have_moved(monkeypatch: pytest.MonkeyPatch) -> None:
    """It sends one request to drain this pod's worker, then polls that migration until it is over, with the drain token."""

    def answer(method: str, path: str, count: int) -> Answer:
        phase = b"settled" if count > 3 else b"flipping"
        return (202, MOVING) if method == "POST" else (200, MOVING[14:-1].replace(b"copying", phase))

    with driver(answer) as (url, seen):
        assert drain_message(url, monkeypatch) == "worker 3 is drained: migration 7 is settled, 1 of 4 bins moved"
    assert seen == [("POST", "/v1/workers/3/drain", "Bearer t"), *[("GET", "/v1/migrations/7", "Bearer t")] * 3]


@pytest.mark.parametrize(
    ("status", "body", "message"),
    [
        (409, b'{"error": "DrainRefused", "message": "worker 3 is the last one"}', "not drained: worker 3 is the last"),
        (503, b'{"error": "NoQueryYet", "message": "not yet"}', "not drained: not yet"),
        (401, b"<html>", "the driver answered 401"),
        (202, b"<html>", "not drained: JSONDecodeError"),
        (202, b"{}", "not drained: KeyError"),
        (202, b'{"migration": null}', "worker 3 had no bins"),
    ],
)
def test_a_refusal_ends_it_at_once(status: int, body: bytes, message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The driver's reason is passed on, and an invalid response does not cause a wait."""
    with driver(lambda *_: (status, body)) as (url, seen):
        assert message in drain_message(url, monkeypatch)
    assert len(seen) == 1


def test_it_ends_when_the_driver_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    """If nothing listens at the address, or a new driver does not know the migration, it does not wait."""
    with driver(lambda method, path, count: (202, MOVING) if method == "POST" else (404, b"{}")) as (url, _):
        assert "not drained: HTTPError" in drain_message(url, monkeypatch)
    assert "refused" in drain_message(url, monkeypatch)


def test_a_long_move_ends_at_the_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    """The message has the progress so far."""
    with driver(lambda method, path, count: (202, MOVING) if method == "POST" else (200, MOVING[14:-1])) as (url, seen):
        assert "not drained in time: migration 7 is copying, 1 of 4" in drain_message(url, monkeypatch)
    assert len(seen) == drain.SECONDS_MAX / drain.POLL_SECONDS + 1


@pytest.mark.parametrize("answers_every", [40, 1000])
def test_a_busy_driver_is_polled_for_a_while(answers_every: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server error does not end it; half a minute of errors does."""

    def answer(method: str, path: str, count: int) -> Answer:
        if method == "POST":
            return 202, MOVING
        return (500, b"") if count % answers_every else (200, MOVING[14:-1])

    with driver(answer) as (url, seen):
        ended = drain_message(url, monkeypatch)
    if answers_every * drain.POLL_SECONDS < drain.SILENT_SECONDS_MAX:
        assert "not drained in time: migration 7" in ended
    else:
        assert "not drained, as the driver answers no more: migration 7 is copying, 1 of 4" in ended
        assert len(seen) == drain.SILENT_SECONDS_MAX / drain.POLL_SECONDS + 1


@pytest.mark.parametrize(
    ("trouble", "requested"),
    [
        (TimeoutError("timed out"), 61),
        (socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution"), 61),
        (socket.gaierror(socket.EAI_NONAME, "Name or service not known"), 2),
        (OSError(errno.EHOSTUNREACH, "No route to host"), 2),
        (ConnectionRefusedError("Connection refused"), 2),
    ],
    ids=["slow", "no name service", "no name", "no host", "nobody"],
)
def test_a_driver_that_is_gone_is_not_waited_for(
    trouble: OSError, requested: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A deleted pod loses its name; a slow one keeps it."""
    requests: list[Any] = []

    def open_(request: Any, timeout: float) -> Any:
        requests.append(request)
        if request.method == "GET":
            raise URLError(trouble)
        return io.BytesIO(MOVING)

    monkeypatch.setattr(drain, "build_opener", lambda *_: SimpleNamespace(open=open_))
    assert "not drained" in drain_message("http://driver:1", monkeypatch)
    assert len(requests) == requested


def test_without_an_address_nothing_is_drained(monkeypatch: pytest.MonkeyPatch) -> None:
    """The message names the missing variable."""
    assert "BINSHIFT_CONTROL_URL" in drain_message("", monkeypatch)


def test_the_command_needs_the_standard_library_only() -> None:
    """It starts fast, in any container, and its status is 0 without anything in the environment."""
    loaded = "import sys, runpy; sys.argv = ['drain']\ntry: runpy.run_module('binshift.hosting.pod.drain', run_name='__main__')"
    code = (
        f"{loaded}\nexcept SystemExit as end: print(end.code, *[m for m in sys.modules if m in ('numpy', 'msgspec')])"
    )
    path = {"PYTHONPATH": ":".join(sys.path)}
    ran = subprocess.run([sys.executable, "-c", code], env=path, capture_output=True, text=True, timeout=60)
    assert (ran.stdout.split(), ran.returncode) == (["0"], 0), ran.stderr
    assert "is missing" in ran.stderr
