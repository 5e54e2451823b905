"""Listens to this machine's loopback traffic, as a process on the network between pods would."""

from __future__ import annotations

import socket
import threading
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager

ETHERNET_BYTES, TCP, ALL = 14, 6, 0x0003
MARK = b"org.apache.spark"
"""In every message of Spark's RPC: the class of what it carries."""


class Overheard:
    """What was sent from or to some ports; by port, bytes of content and how many packets have `MARK`."""

    def __init__(self, ports: Mapping[str, int]) -> None:
        self._names = {number: name for name, number in ports.items()}
        self.bytes = dict.fromkeys(ports, 0)
        self.readable = dict.fromkeys(ports, 0)

    def add(self, frame: bytes) -> None:
        """One frame."""
        packet = frame[ETHERNET_BYTES:]
        if packet[0] >> 4 != 4 or packet[9] != TCP:
            return
        segment = packet[4 * (packet[0] & 15) :]
        content = segment[4 * (segment[12] >> 4) :]
        for at in (0, 2):
            name = self._names.get(int.from_bytes(segment[at : at + 2], "big"))
            if name is not None:
                self.bytes[name] += len(content)
                self.readable[name] += MARK in content

    def silent(self, names: Collection[str]) -> set[str]:
        """Those of the ports with no traffic."""
        return {name for name in names if not self.bytes[name]}


@contextmanager
def overheard(ports: Mapping[str, int]) -> Iterator[Overheard]:
    """Listen meanwhile.

    Raises:
        PermissionError: this user must not.
    """
    found, ended = Overheard(ports), threading.Event()
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ALL)) as listener:
        listener.bind(("lo", 0))
        listener.settimeout(0.2)

        def listen() -> None:
            while not ended.is_set():
                try:
                    found.add(listener.recv(1 << 17))
                except TimeoutError:
                    continue

        thread = threading.Thread(target=listen, daemon=True)
        thread.start()
        try:
            yield found
        finally:
            ended.set()
            thread.join()
