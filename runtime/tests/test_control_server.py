"""The server of the control API runs in a thread, ends cleanly, and names a port that is in use."""

from __future__ import annotations

import socket
import threading

import httpx2
import pytest
from control_fakes import ADMIN, DRAIN, FakeService
from prometheus_client.registry import CollectorRegistry

from binshift.control import Control, ControlServer, ControlSettings, Tokens, serve
from binshift.control import server as serving
from binshift.control.app import health_app
from binshift.control.models import State
from binshift.control.service_holder import ServiceHolder
from binshift.control.services import ControlService
from binshift.errors import InvalidSettings

SECONDS = 30.0
"""A client's time limit: a thread of a busy machine has to answer within it."""


def server(port: int = 0) -> ControlServer:
    return ControlServer(health_app(ServiceHolder(FakeService()), CollectorRegistry()), port=port)


def http_threads() -> int:
    return sum(thread.name == "binshift-http" for thread in threading.enumerate())


def test_it_answers_and_ends() -> None:
    """Port 0 selects a free port, which is reported; after `stop` the port is closed and no thread is left."""
    before = http_threads()
    with server() as running:
        assert running.port > 0
        assert httpx2.get(f"{running.url}/healthz", timeout=SECONDS).json()["status"] == "ok"
        port = running.port
    assert http_threads() == before
    with socket.socket() as probe:
        assert probe.connect_ex(("127.0.0.1", port)) != 0
    running.stop()


def test_a_port_can_be_used_again() -> None:
    """Stopping frees the port at once, even if a caller keeps a connection open; the same server can start again."""
    running = server().start()
    with httpx2.Client(base_url=running.url, timeout=SECONDS) as kept:
        assert kept.get("/healthz").status_code == 200
        port = running.port
        running.stop()
        with server(port) as again:
            assert again.port == port


@pytest.mark.parametrize(
    "beginning",
    [b"", b"GET /healthz HTTP/1.1\r\nHost: x\r\n", b"POST /healthz HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\n{"],
    ids=["nothing", "half a header", "half a body"],
)
def test_an_unfinished_request_is_closed(beginning: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """A connection that only stays open is closed after a time; one with repeated requests stays open."""
    monkeypatch.setattr(serving, "REQUEST_SECONDS_MAX", 0.2)
    with server() as running, httpx2.Client(base_url=running.url, timeout=SECONDS) as client:
        with socket.create_connection(("127.0.0.1", running.port), timeout=SECONDS) as slow:
            slow.sendall(beginning)
            while slow.recv(4096):
                pass
        assert client.get("/healthz").status_code == 200


def test_a_taken_port_is_named() -> None:
    """An error at start names port and address, and leaves nothing behind."""
    before = http_threads()
    with server() as first:
        second = server(first.port)
        with pytest.raises(InvalidSettings, match=rf"port {first.port} of 127\.0\.0\.1 is taken"):
            second.start()
        second.stop()
        assert http_threads() == before + 1


@pytest.mark.parametrize(("host", "port"), [("192.0.2.1", 0), ("127.0.0.1", 70_000), ("not an address", 0)])
def test_an_address_that_cannot_be_had_is_named(host: str, port: int) -> None:
    """What cannot be listened on is an error that names it."""
    made = ControlServer(health_app(ServiceHolder(FakeService()), CollectorRegistry()), host, port)
    with pytest.raises(InvalidSettings, match=f"{host}, port {port}"):
        made.start()


def test_a_running_server_is_not_started_again() -> None:
    """A second `start` is rejected, and a server that has not started has no port."""
    with server() as running, pytest.raises(InvalidSettings, match="is already running"):
        running.start()
    with pytest.raises(InvalidSettings, match="has not been started"):
        _ = server().port


def test_the_api_is_up_before_the_query() -> None:
    """Before the query the state is Loading and writes return a retryable error; afterwards the query responds."""
    settings = ControlSettings(tokens=Tokens(ADMIN, DRAIN))
    target = {"owner": "", "generation": 1, "workers": [0]}
    with serve(settings) as control:
        api = httpx2.Client(base_url=control.api.url, headers={"Authorization": f"Bearer {ADMIN}"}, timeout=SECONDS)
        assert api.get("/v1/dataflow").json()["state"] == "Loading"
        assert api.get("/readyz").status_code == 503
        assert api.get("/v1/migrations/1").status_code == 404
        assert [api.get(f"/v1/{what}").json()[what] for what in ("workers", "bins", "migrations")] == [[], [], []]
        assert api.put("/v1/target", json=target).json()["error"] == "NoQueryYet"
        assert api.post("/v1/stop").status_code == 503
        assert api.post("/v1/workers/1/drain").status_code == 409
        service = FakeService()
        control.services.current = service
        assert api.put("/v1/target", json=target).status_code == 202
        assert api.get("/readyz").status_code == 200
        control.services.current = ControlService(State.FAILED, "the program failed")
        assert api.get("/v1/dataflow").json()["reason"] == "the program failed"


def test_health_has_a_port_of_its_own() -> None:
    """It has health and metrics, without a token, and nothing else."""
    with serve(ControlSettings()) as control:
        control.services.current = FakeService()
        assert control.health.port != control.api.port
        assert "binshift_epoch 7.0" in httpx2.get(f"{control.health.url}/metrics", timeout=SECONDS).text
        assert httpx2.get(f"{control.health.url}/readyz", timeout=SECONDS).status_code == 200
        assert httpx2.get(f"{control.health.url}/v1/dataflow", timeout=SECONDS).status_code == 404
        assert httpx2.get(f"{control.api.url}/v1/dataflow", timeout=SECONDS).status_code == 403


def test_if_one_port_is_taken_neither_is_used() -> None:
    """An API whose health port is in use releases its own port."""
    before = http_threads()
    with server() as other:
        control = Control(ControlSettings(health_port=other.port))
        with pytest.raises(InvalidSettings, match=str(other.port)):
            control.start()
        assert http_threads() == before + 1


def test_settings_come_from_the_environment() -> None:
    """Host, ports and tokens are variables; an invalid port is rejected by name."""
    found = ControlSettings.from_environment(
        {"BINSHIFT_CONTROL_HOST": "0.0.0.0", "BINSHIFT_CONTROL_PORT": "7070", "BINSHIFT_TOKEN": ADMIN}
    )
    assert (found.host, found.port, found.health_port, found.tokens.admin) == ("0.0.0.0", 7070, 0, ADMIN)
    assert ControlSettings.from_environment({}) == ControlSettings()
    for wrong in ("x", "-1", "65536", "1.5", "٣"):
        with pytest.raises(InvalidSettings, match="BINSHIFT_HEALTH_PORT is"):
            ControlSettings.from_environment({"BINSHIFT_HEALTH_PORT": wrong})
