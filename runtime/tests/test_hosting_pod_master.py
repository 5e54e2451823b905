"""The master of a driver's pod: of two drivers, only that of the active one keeps what it knew before."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import closing

import pytest

from binshift.hosting.pod.activation import Activation
from binshift.hosting.pod.master import has_active_driver


@pytest.fixture
def port() -> int:
    """A free port."""
    with closing(socket.create_server(("127.0.0.1", 0))) as found:
        return int(found.getsockname()[1])


@pytest.fixture
def driver(port: int) -> Iterator[Activation]:
    """One of two drivers, which waits."""
    made = Activation(active=False, host="127.0.0.1", port=port)
    yield made
    made.close()


def test_it_knows_whether_its_driver_is_active(driver: Activation, port: int) -> None:
    """A driver that waits refuses connections."""
    environment = {"BINSHIFT_BIND": "127.0.0.1", "BINSHIFT_ACTIVE_PORT": str(port)}
    assert not has_active_driver(environment)
    driver.activate()
    assert has_active_driver(environment)


def test_no_driver_is_not_active(port: int) -> None:
    """It has not started, or has ended."""
    assert not has_active_driver({"BINSHIFT_ACTIVE_PORT": str(port)})
