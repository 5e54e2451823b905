"""A driver that waits shows nothing on its port; an active one shows since when it is active, for as long as it lives."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from binshift.hosting.pod.activation import Activation

HOST = "127.0.0.1"


def free_port() -> int:
    """A port that nothing uses."""
    with socket.create_server((HOST, 0)) as listener:
        return int(listener.getsockname()[1])


@contextmanager
def waiting(since: int = 7) -> Iterator[tuple[Activation, int]]:
    """A driver that waits, and its port."""
    port = free_port()
    made = Activation(active=False, host=HOST, port=port, clock=lambda: since)
    try:
        yield made, port
    finally:
        made.close()


def test_a_standby_refuses_clients() -> None:
    """Until it is activated, its port refuses connections."""
    with waiting() as (activation, port):
        assert (activation.is_standby, activation.active) == (True, False)
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection((HOST, port), 5)


def test_an_active_driver_sends_its_time_and_keeps_the_connection() -> None:
    """Each client gets the time of the activation, and no end of its connection until the driver ends."""
    with waiting(since=42) as (activation, port):
        activation.activate()
        assert activation.active
        for _ in range(2):
            with socket.create_connection((HOST, port), 5) as client:
                assert client.makefile("rb").readline() == b"42\n"
                client.setblocking(False)
                with pytest.raises(BlockingIOError):
                    client.recv(1)


def test_a_second_activation_changes_nothing() -> None:
    """The time stays that of the first one."""
    times = iter((1, 2))
    port = free_port()
    activation = Activation(active=False, host=HOST, port=port, clock=lambda: next(times))
    try:
        activation.activate()
        activation.activate()
        with socket.create_connection((HOST, port), 5) as client:
            assert client.makefile("rb").readline() == b"1\n"
    finally:
        activation.close()


def test_a_closed_one_frees_its_port() -> None:
    """A driver that ends leaves its port to the next one, and its clients see its end."""
    with waiting() as (activation, port):
        activation.activate()
        with socket.create_connection((HOST, port), 5) as client:
            found = client.makefile("rb")
            assert found.readline() == b"7\n"
            activation.close()
            assert found.readline() == b""
        Activation(active=False, host=HOST, port=port).close()


def test_without_a_standby_no_port_is_used() -> None:
    """A driver that is active from the start is so for good."""
    activation = Activation(active=True)
    activation.activate()
    assert (activation.is_standby, activation.active) == (False, True)
    activation.close()
