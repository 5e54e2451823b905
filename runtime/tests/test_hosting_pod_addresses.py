"""On a cluster whose pods only have IPv6 addresses, a driver listens on those."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from binshift.control.server import bind
from binshift.hosting.pod import conf
from binshift.hosting.pod.driver import control_settings
from binshift.hosting.pod.settings import DriverSettings

DRIVER = {"BINSHIFT_MASTER": "spark://d-0.d:7077", "BINSHIFT_HOST": "d-0.d", "BINSHIFT_TOKEN": "t" * 32}


@pytest.mark.parametrize(
    ("environment", "bind"),
    [
        ({}, "0.0.0.0"),
        ({"BINSHIFT_POD_IP": "10.0.0.7"}, "0.0.0.0"),
        ({"BINSHIFT_POD_IP": "fd00::7"}, "::"),
        ({"BINSHIFT_POD_IP": "fd00::7", "BINSHIFT_BIND": "fd00::7"}, "fd00::7"),
    ],
)
def test_where_a_driver_listens(environment: dict[str, str], bind: str) -> None:
    """The control API and Spark listen on all addresses of the pod's family, unless set otherwise."""
    settings = DriverSettings.from_environment({**DRIVER, **environment})
    assert settings.bind == bind
    assert control_settings(settings, {**DRIVER, **environment}).host == bind
    assert conf.fixed(settings, {}, Path("/app/main.py"), "")["spark.driver.bindAddress"] == bind


@pytest.mark.skipif(not socket.has_dualstack_ipv6(), reason="this machine has no IPv6")
def test_both_families_are_answered() -> None:
    """A socket on all IPv6 addresses is also reached by IPv4, because a kubelet may use either."""
    with bind("::", 0) as listener:
        port = listener.getsockname()[1]
        for host in ("127.0.0.1", "::1"):
            with socket.create_connection((host, port), timeout=5):
                listener.accept()[0].close()
