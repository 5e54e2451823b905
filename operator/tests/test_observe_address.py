"""A driver is called at the IP of the pod that was just listed: no name service delays a reconciliation, and no other pod gets the token."""

from __future__ import annotations

import socket
import urllib.request
from dataclasses import replace
from typing import Any

import pytest
from prometheus_client.registry import CollectorRegistry
from sim_cluster import NAME, NS, SimCluster
from test_reconcile_cached import settle
from test_status_degraded import start_cluster

from binshift_operator.configuration import Configuration
from binshift_operator.driver_client import DriverClient
from binshift_operator.errors import Unreachable
from binshift_operator.probes import ProbeServer

DRIVER = ("Pod", NS, f"{NAME}-driver-0")


def record_addresses(cluster: SimCluster, addresses: list[str]) -> None:
    """Have the operator ask where it would, and note where."""
    connect = cluster.reconciler.observer.connect

    def connect_and_record(address: str, token: str) -> DriverClient:
        addresses.append(address)
        return connect(address, token)

    observer = replace(cluster.reconciler.observer, address=Configuration().address, connect=connect_and_record)
    cluster.reconciler.observer = observer


def test_the_listed_pod_is_read() -> None:
    """Without an address there is no request; then there is one, and at another address as soon as it changes, also if settled."""
    cluster, addresses = start_cluster(), list[str]()
    record_addresses(cluster, addresses)
    cluster.reconcile()
    assert addresses == []
    for address, url in (("10.0.0.7", "http://10.0.0.7:7400"), ("fd00::7", "http://[fd00::7]:7400")):
        cluster.server.objects[DRIVER]["status"]["podIP"] = address
        cluster.run(3)
        settle(cluster)
        addresses.clear()
        cluster.reconcile()
        assert addresses == [url]
    cluster.server.objects[DRIVER]["status"]["podIP"] = "10.0.0.9"
    addresses.clear()
    cluster.reconcile()
    assert addresses == ["http://10.0.0.9:7400"]


def test_slow_name_service_delays_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """An address is not resolved: a name service that does not answer costs a reconciliation nothing."""
    names: list[Any] = []
    real = socket.getaddrinfo

    def slow(host: Any, *more: Any, **others: Any) -> Any:
        if not str(host).replace(".", "").isdigit():
            names.append(host)
            raise AssertionError(f"{host} is resolved")
        return real(host, *more, **others)

    monkeypatch.setattr(socket, "getaddrinfo", slow)
    with socket.create_server(("127.0.0.1", 0)) as unused:
        port = unused.getsockname()[1]
        unused.close()
        address = Configuration(control_address=f"http://{{ip}}:{port}").address(_key(), "127.0.0.1")
        assert address is not None
        with pytest.raises(Unreachable):
            DriverClient(address, "t").dataflow()
    assert names == []


def _key() -> Any:
    from binshift_operator.model.names import DataflowKey

    return DataflowKey(NS, NAME, "u")


def test_an_address_may_still_be_a_name() -> None:
    """A configured address of control APIs, such as one outside the cluster's network, requires no pod's address."""
    named = Configuration.from_environment({"BINSHIFT_CONTROL_ADDRESS": "http://{pod}.{service}.{namespace}.svc:7400"})
    assert named.address(_key(), "") == "http://clicks-driver-0.clicks-driver.default.svc:7400"


def test_there_are_threads_enough() -> None:
    """A webhook that times out holds a thread for half a minute: some of those hold up no other dataflow."""
    assert Configuration().workers == 16


@pytest.mark.skipif(not socket.has_dualstack_ipv6(), reason="this machine knows no IPv6")
@pytest.mark.parametrize("host", ["127.0.0.1", "[::1]"])
def test_probes_come_by_either_family(host: str) -> None:
    """The kubelet of a cluster of IPv6 alone is answered, and so is any other one."""
    server = ProbeServer(0, lambda: "", lambda: "", CollectorRegistry())
    server.start()
    try:
        with urllib.request.urlopen(f"http://{host}:{server.port}/healthz", timeout=5) as answer:
            assert answer.status == 200
    finally:
        server.stop()


def test_probes_without_ipv6(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the machine knows no IPv6, probes are answered on IPv4."""
    real = socket.socket.bind

    def bind(self: socket.socket, address: Any) -> None:
        if self.family == socket.AF_INET6:
            raise OSError(99, "Cannot assign requested address")
        real(self, address)

    monkeypatch.setattr("socketserver.socket.socket.bind", bind, raising=False)
    server = ProbeServer(0, lambda: "", lambda: "", CollectorRegistry())
    assert server.port > 0
    server._server.server_close()
