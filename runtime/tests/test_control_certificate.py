"""With a certificate, both ports of a driver speak TLS only, and a renewed certificate is used without a restart."""

from __future__ import annotations

import socket
import ssl
from argparse import ArgumentTypeError
from collections.abc import Iterator
from pathlib import Path

import httpx2
import msgspec
import pytest
from certificates import Authority, Mounted
from control_fakes import ADMIN, TOKENS, FakeService

from binshift.control import Control, ControlSettings, serve
from binshift.errors import ControlUnreachable, InvalidSettings
from binshift.hosting.client import ControlClient
from binshift.hosting.local.directory import Run
from binshift.hosting.local.options import certificate_folder, control_of
from binshift.hosting.pod import drain

HOST = "127.0.0.1"
SECONDS = 30.0


@pytest.fixture
def authority() -> Authority:
    return Authority()


@pytest.fixture
def mounted(authority: Authority, tmp_path: Path) -> Mounted:
    """The Secret's folder in the driver's pod."""
    found = Mounted(tmp_path / "tls")
    found.put(authority.issue(HOST, "localhost"))
    return found


@pytest.fixture
def control(mounted: Mounted) -> Iterator[Control]:
    """A driver's control API."""
    environment = {"BINSHIFT_TOKEN": ADMIN, "BINSHIFT_TLS_DIRECTORY": str(mounted.path)}
    with serve(ControlSettings.from_environment(environment)) as running:
        running.services.current = FakeService()
        yield running


def trusting(authority: Authority) -> ssl.SSLContext:
    return ssl.create_default_context(cadata=authority.pem.decode())


def served(port: int) -> bytes:
    """The certificate that a new connection gets."""
    return ssl.get_server_certificate((HOST, port)).encode()


def test_both_ports_speak_tls(control: Control, authority: Authority) -> None:
    """A client that checks the certificate is answered; one with another authority is not, nor is one that speaks plain HTTP."""
    assert control.api.url.startswith("https://")
    assert ControlClient(control.api.url, ADMIN, trusting(authority)).dataflow().epoch == 7
    for url in (control.api.url, control.health.url):
        assert httpx2.get(f"{url}/healthz", verify=trusting(authority), timeout=SECONDS).status_code == 200
        with pytest.raises(httpx2.ConnectError, match="CERTIFICATE_VERIFY_FAILED"):
            httpx2.get(f"{url}/healthz", verify=trusting(Authority()), timeout=SECONDS)
        with pytest.raises(httpx2.RemoteProtocolError):
            httpx2.get(f"{url.replace('https', 'http')}/healthz", timeout=SECONDS)


def test_a_client_without_a_name_is_served(control: Control) -> None:
    """The kubelet and Prometheus send no server name, and check no certificate."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with socket.create_connection((HOST, control.health.port), SECONDS) as plain, context.wrap_socket(plain) as secured:
        secured.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
        assert secured.recv(100).startswith(b"HTTP/1.1 200")


def test_a_renewed_certificate_is_used(control: Control, mounted: Mounted, authority: Authority) -> None:
    """The next connection has it, on both ports; one that is open continues, and is not cut off."""
    first = served(control.api.port)
    with httpx2.Client(base_url=control.api.url, verify=trusting(authority), timeout=SECONDS) as kept:
        assert kept.get("/healthz").status_code == 200
        renewed = authority.issue(HOST)
        mounted.put(renewed)
        assert served(control.api.port) == served(control.health.port) == renewed["tls.crt"] != first
        assert kept.get("/healthz").status_code == 200


def test_a_renewal_that_cannot_be_used_changes_nothing(
    control: Control, mounted: Mounted, authority: Authority, caplog: pytest.LogCaptureFixture
) -> None:
    """With a key of another certificate, or without files, the old one is served, and the log has the reason once for each version."""
    first, other = served(control.api.port), authority.issue(HOST)
    mounted.put({**authority.issue(HOST), "tls.key": other["tls.key"]})
    for _ in range(3):
        assert served(control.api.port) == first
    assert sum("KEY_VALUES_MISMATCH" in each.getMessage() for each in caplog.records) == 1
    mounted.put({})
    assert served(control.api.port) == first
    mounted.put(other)
    assert served(control.api.port) == other["tls.crt"]


def test_an_idle_client_does_not_delay_the_next_server(
    control: Control, authority: Authority, caplog: pytest.LogCaptureFixture
) -> None:
    """A client that keeps its connection does not have to answer the end of TLS: no server runs into the limit of its end."""
    with httpx2.Client(base_url=control.api.url, verify=trusting(authority), timeout=SECONDS) as kept:
        assert kept.get("/healthz").status_code == 200
        control.stop()
    assert "timeout graceful shutdown exceeded" not in caplog.text


@pytest.mark.parametrize("case", ["nothing", "another key", "a password"])
def test_it_does_not_start_without_a_certificate(case: str, authority: Authority, tmp_path: Path) -> None:
    """What is wrong is named, with the folder; the password of a key is never read from a terminal."""
    content = {
        "nothing": {},
        "another key": {**authority.issue(HOST), "tls.key": authority.issue(HOST)["tls.key"]},
        "a password": authority.issue(HOST, password=b"secret"),
    }[case]
    folder = Mounted(tmp_path / "tls").put(content)
    with pytest.raises(InvalidSettings, match=f"{folder} cannot be used"):
        serve(ControlSettings(tokens=TOKENS, tls=folder))


def test_commands_of_a_run_check_its_certificate(control: Control, mounted: Mounted, tmp_path: Path) -> None:
    """The folder of a run names the authority; with another one, a command sends no token."""
    run = Run("clicks-1", 1, "clicks.py", "cluster", ADMIN, control.api.url, authority=str(mounted.path / "ca.crt"))
    found = control_of(run)
    assert found is not None
    assert found.dataflow().epoch == 7
    other = tmp_path / "other.crt"
    other.write_bytes(Authority().pem)
    stranger = control_of(msgspec.structs.replace(run, authority=str(other)))
    assert stranger is not None
    with pytest.raises(ControlUnreachable, match="CERTIFICATE_VERIFY_FAILED"):
        stranger.dataflow()


def test_a_folder_of_a_certificate_is_checked(mounted: Mounted, tmp_path: Path) -> None:
    """The option of `binshift run` names what is missing."""
    assert certificate_folder(str(mounted.path)) == mounted.path
    with pytest.raises(ArgumentTypeError, match=r"has no tls\.crt"):
        certificate_folder(str(tmp_path))


@pytest.mark.parametrize("known", [True, False])
def test_a_drain_checks_the_certificate(control: Control, mounted: Mounted, known: bool, tmp_path: Path) -> None:
    """The hook of an executor drains over TLS; it sends its token to no driver that another authority has signed."""
    authority = mounted.path / "ca.crt" if known else tmp_path / "other.crt"
    if not known:
        authority.write_bytes(Authority().pem)
    environment = {
        "BINSHIFT_CONTROL_URL": f"https://localhost:{control.api.port}",
        "BINSHIFT_CONTROL_CA": str(authority),
        "BINSHIFT_DRAIN_TOKEN": ADMIN,
        "BINSHIFT_SLOT": "0",
    }
    lines: list[str] = []
    assert drain.main(environment, lines.append) == 0
    assert ("CERTIFICATE_VERIFY_FAILED" in lines[0]) != known
    assert lines[0].startswith("worker 0 is not drained: ") == known
