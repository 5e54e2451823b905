"""The relay of an executor's pod leads to the active driver, of two the one that was activated last, and follows it."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pytest

from binshift.hosting.pod.activation import Activation
from binshift.hosting.pod.relay import ActiveDriver, follow, serve

HOSTS = ("127.0.0.1", "127.0.1.1")
SECONDS_MAX = 20.0


class Driver:
    """One driver: its port of activation, and a port that answers with its host."""

    def __init__(self, host: str, active: int, port: int, since: int) -> None:
        self.host, self._clients = host, list[socket.socket]()
        self.activation = Activation(active=False, host=host, port=active, clock=lambda: since)
        self._listener = socket.create_server((host, port))
        threading.Thread(target=self._answer, daemon=True).start()

    def _answer(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                self._clients.append(client)
                client.sendall(self.host.encode() + b"\n")

    def end(self) -> None:
        """Its process ends, and with it all of its connections."""
        self.activation.close()
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for client in self._clients:
            client.close()


def free_port() -> int:
    """A port that nothing uses, of any address."""
    with socket.create_server(("", 0)) as listener:
        return int(listener.getsockname()[1])


@contextmanager
def relayed() -> Iterator[tuple[list[Driver], int, ActiveDriver]]:
    """Two drivers that wait, and the port of the relay; the second one is activated later than the first."""
    active_port, port, known = free_port(), free_port(), ActiveDriver()
    drivers = [Driver(host, active_port, port, since) for since, host in enumerate(HOSTS)]
    listener = socket.create_server((HOSTS[0], 0))
    threading.Thread(target=_served, args=(listener, port, known), daemon=True).start()
    for host in HOSTS:
        threading.Thread(target=follow, args=(host, active_port, known), daemon=True).start()
    try:
        yield drivers, int(listener.getsockname()[1]), known
    finally:
        for driver in drivers:
            driver.end()
        with suppress(OSError):
            listener.shutdown(socket.SHUT_RDWR)
        listener.close()


def _served(listener: socket.socket, port: int, known: ActiveDriver) -> None:
    with suppress(OSError):  # the test closes the listener
        serve(listener, port, known)


def ask(port: int) -> socket.socket:
    """A connection to the relay."""
    return socket.create_connection((HOSTS[0], port), SECONDS_MAX)


def line(client: socket.socket) -> str:
    """What comes next on a connection; empty at its end."""
    return client.makefile("rb").readline().decode().strip()


def test_a_client_waits_for_an_active_driver() -> None:
    """A connection that is made while both drivers wait is led to the one that is activated then."""
    with relayed() as (drivers, port, _), ask(port) as client:
        client.setblocking(False)
        with pytest.raises(BlockingIOError):
            client.recv(1)
        client.settimeout(SECONDS_MAX)
        drivers[1].activation.activate()
        assert line(client) == HOSTS[1]


def test_clients_follow_the_driver_that_takes_over() -> None:
    """When the active driver ends, its connections end, and the next one leads to the driver that takes over."""
    with relayed() as (drivers, port, _):
        drivers[0].activation.activate()
        with ask(port) as client:
            assert line(client) == HOSTS[0]
            drivers[0].end()
            assert line(client) == ""
        drivers[1].activation.activate()
        with ask(port) as client:
            assert line(client) == HOSTS[1]


def test_the_driver_that_was_activated_last_is_preferred() -> None:
    """Connections to a driver that lives on end when another one is activated, and new ones lead to that."""
    with relayed() as (drivers, port, _):
        drivers[0].activation.activate()
        with ask(port) as client:
            assert line(client) == HOSTS[0]
            drivers[1].activation.activate()
            assert line(client) == ""
        with ask(port) as client:
            assert line(client) == HOSTS[1]


def test_an_older_activation_does_not_count() -> None:
    """Of two active drivers the later one is it, in whichever order they are found."""
    known = ActiveDriver()
    known.up("b", 2)
    known.up("a", 1)
    assert known.host == "b"
    known.down("b")
    assert known.host == "a"
    known.down("a")
    assert known.host is None
    with socket.socket() as link:
        assert not known.enter("a", link)
