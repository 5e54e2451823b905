"""A driver with a certificate: the operator sends its token only to a process whose certificate proves that it is this driver."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from certificates import Authority, Mounted
from control_fakes import ADMIN, TOKENS, FakeService
from sim_cluster import NAME, NS, SDF, SimCluster
from test_status_degraded import condition, start_cluster

from binshift.control import Control, ControlSettings, serve
from binshift_operator.configuration import Configuration
from binshift_operator.driver_access import DriverAccess
from binshift_operator.driver_client import DriverClient
from binshift_operator.driver_tls import Trust, _trust
from binshift_operator.errors import Unreachable
from binshift_operator.kube import Kube
from binshift_operator.model.names import DataflowKey

HOST = f"{NAME}-driver.{NS}.svc"
SECRET = "clicks-tls"


@pytest.fixture(scope="module")
def authority() -> Authority:
    return Authority()


@pytest.fixture
def driver(authority: Authority, tmp_path: Path) -> Iterator[Control]:
    """The control API of a driver that has a certificate."""
    folder = Mounted(tmp_path / "tls").put(authority.issue(HOST))
    with serve(ControlSettings(tokens=TOKENS, tls=folder)) as control:
        control.services.current = FakeService()
        yield control


def client(driver: Control, trust: Trust) -> DriverClient:
    return DriverClient(driver.api.url, ADMIN, trust)


def test_a_driver_is_recognised_by_the_name_of_its_service(driver: Control, authority: Authority) -> None:
    """It is called by its pod's IP, and its certificate is for the Service."""
    found = client(driver, Trust(SECRET, HOST, authority.pem.decode())).dataflow()
    assert found.epoch == 7


@pytest.mark.parametrize(
    ("host", "another", "reason"),
    [
        (f"{NAME}-driver.other.svc", False, "Hostname mismatch"),
        (HOST, True, "unable to get local issuer certificate"),
    ],
)
def test_another_process_gets_no_token(
    driver: Control, authority: Authority, host: str, another: bool, reason: str
) -> None:
    """Neither the driver of another namespace nor one with a certificate of another authority is called; one reads what is needed."""
    pem = (Authority() if another else authority).pem.decode()
    with pytest.raises(Unreachable, match=reason) as raised:
        client(driver, Trust(SECRET, host, pem)).stop()
    assert f"Secret {SECRET} needs a certificate for {host} that its ca.crt has signed" in str(raised.value)
    service = driver.services.current
    assert isinstance(service, FakeService)
    assert service.reads == 0
    assert service.writes == []


def test_an_authority_can_be_an_intermediate_one(driver: Control, tmp_path: Path, authority: Authority) -> None:
    """The Secret of an issuer that another one has signed has its certificate only; comments can have any letters."""
    middle = Authority("middle", authority)
    folder = Mounted(tmp_path / "middle").put(middle.issue(HOST))
    with serve(ControlSettings(tokens=TOKENS, tls=folder)) as control:
        control.services.current = FakeService()
        data = {"ca.crt": base64.b64encode("# Zürich\n".encode() + middle.pem).decode()}
        trust = _trust(DataflowKey(NS, NAME, "uid"), SECRET, data)
        assert client(control, trust).dataflow().epoch == 7


def test_an_authority_that_is_none_is_reported(driver: Control) -> None:
    """The Secret is named."""
    for text in ("", "no certificate"):
        with pytest.raises(Unreachable, match=rf"ca\.crt of Secret {SECRET} is no certificate"):
            client(driver, Trust(SECRET, HOST, text)).dataflow()


# ------------------------------------------------------------------------------------------------------ a dataflow's life


def put(cluster: SimCluster, content: dict[str, bytes]) -> None:
    """A user, or cert-manager, makes the Secret."""
    cluster.server.objects.pop(("Secret", NS, SECRET), None)
    data = {name: base64.b64encode(each).decode() for name, each in content.items()}
    cluster.server.put("Secret", {"kind": "Secret", "metadata": {"name": SECRET, "namespace": NS}, "data": data})


def encrypted(authority: Authority) -> SimCluster:
    """A settled cluster whose dataflow is encrypted."""
    cluster = start_cluster()
    put(cluster, authority.issue(HOST))
    cluster.edit(encryption={"secretName": SECRET})
    cluster.converge()
    return cluster


def record(cluster: SimCluster) -> list[tuple[str, str]]:
    """Have the operator call drivers where it would, and note where, and by which Secret it would recognise them."""
    seen: list[tuple[str, str]] = []
    observer = cluster.reconciler.observer

    def connect(address: str, token: str, trust: Trust | None = None) -> DriverClient:
        seen.append((address, "" if trust is None else trust.secret))
        assert trust is None or trust.server_name == HOST
        return observer.connect(address, token)

    cluster.reconciler.observer = replace(observer, address=lambda *_: "http://10.0.0.7:7400", connect=connect)
    return seen


PLAIN, SECURE = ("http://10.0.0.7:7400", ""), ("https://10.0.0.7:7400", SECRET)


def test_encryption_can_be_switched_on_and_off(authority: Authority) -> None:
    """An edit restarts the stream in order: until its pod is gone, a driver is called as it was started."""
    cluster = start_cluster()
    put(cluster, authority.issue(HOST))
    for spec, first, last in (({"secretName": SECRET}, PLAIN, SECURE), (None, SECURE, PLAIN)):
        seen = record(cluster)
        cluster.edit(encryption=spec)
        cluster.run(40)
        cluster.converge()
        calls = list(dict.fromkeys(seen))
        assert calls == [first, last]
        cluster.restart_operator()


def test_a_missing_secret_is_reported(authority: Authority) -> None:
    """The condition names the Secret, what it needs and the name that the certificate must be for; once it exists, nothing is reported."""
    cluster = SimCluster().start()
    assert cluster.dataflow is not None
    cluster.dataflow["spec"]["encryption"] = {"secretName": SECRET}
    cluster.run(5)
    found = condition(cluster, "Degraded")
    assert (found["status"], found["reason"]) == ("True", "CertificateMissing")
    assert found["message"].startswith(
        f"there is no Secret {SECRET} (encryption.secretName): create it with tls.crt, tls.key, ca.crt"
    )
    assert HOST in found["message"]
    content = authority.issue(HOST)
    put(cluster, {"tls.crt": content["tls.crt"], "tls.key": content["tls.key"]})
    cluster.run(5)
    assert (
        f"Secret {SECRET} (encryption.secretName) has no ca.crt: create it" in condition(cluster, "Degraded")["message"]
    )
    put(cluster, content)
    cluster.converge()
    assert condition(cluster, "Degraded")["status"] == "False"


def test_a_stream_runs_on_until_the_secret_exists(authority: Authority) -> None:
    """Switched on too early, encryption stops nothing; once there is a Secret, the dataflow restarts with it."""
    cluster = start_cluster()
    (before,) = cluster.pods("driver")
    cluster.edit(encryption={"secretName": SECRET})
    cluster.run(40)
    assert [each["metadata"]["uid"] for each in cluster.pods("driver")] == [before["metadata"]["uid"]]
    assert condition(cluster, "Degraded")["reason"] == "CertificateMissing"
    put(cluster, authority.issue(HOST))
    cluster.converge()
    assert [each["metadata"]["uid"] for each in cluster.pods("driver")] != [before["metadata"]["uid"]]
    assert condition(cluster, "Degraded")["status"] == "False"


def test_a_driver_whose_secret_is_gone_is_not_called(authority: Authority) -> None:
    """There is nothing to recognise it by: the token is not sent, and the reason is reported. The stream itself continues."""
    cluster = encrypted(authority)
    seen = record(cluster)
    del cluster.server.objects["Secret", NS, SECRET]
    cluster.run(40)
    seen.clear()
    cluster.run(10)
    assert seen == []
    assert condition(cluster, "Degraded")["reason"] == "CertificateMissing"


def test_snapshots_use_the_certificate_too(authority: Authority) -> None:
    """What reaches a driver for a snapshot reads the same annotation and the same Secret."""
    cluster = encrypted(authority)
    (pod,) = cluster.pods("driver")
    pod["status"]["podIP"] = "10.0.0.7"
    made: list[tuple[Any, ...]] = []

    def connect(*given: Any) -> DriverClient:
        made.append(given)
        return DriverClient(*given)

    uid = cluster.server.objects[SDF]["metadata"]["uid"]
    DriverAccess(Kube(cluster.server), Configuration().address, connect).client(DataflowKey(NS, NAME, uid))
    ((address, _, trust),) = made
    assert (address, trust.server_name, trust.authority) == ("https://10.0.0.7:7400", HOST, authority.pem.decode())
