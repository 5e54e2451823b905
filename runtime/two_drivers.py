"""The pods of a dataflow with a standby driver, as processes on loopback addresses: two drivers, and executors with a worker of each."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http import HTTPStatus
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

from pods_world import Pods, free_ports, pods

HOSTS = ("127.0.0.1", "127.0.1.1")


@dataclass
class TwoDrivers:
    """Two drivers, each in a pod of its own with its master; ``program`` with these arguments runs in both."""

    world: Pods
    program: Path
    arguments: tuple[str, ...]

    def start_driver(self, slot: int) -> None:
        """Start a driver's pod: its master, and its program, which waits for its activation."""
        host, status = HOSTS[slot], str(free_ports()[0])
        own = {
            "BINSHIFT_BIND": host,
            "BINSHIFT_MASTER": f"spark://{host}:{self.world.ports['MASTER']}",
            "BINSHIFT_MASTER_STATUS_PORT": status,
            "BINSHIFT_DRIVER_HOSTS": ",".join(HOSTS),
        }
        self.world.start(f"master-{slot}", "master", host, **own)
        self.world.driver(self.program, *self.arguments, pod=f"driver-{slot}", host=host, **own)

    def start_worker(self, slot: int) -> tuple[str, str]:
        """Start an executor's pod; returns the ports of its health and of its relay to the active driver's control API."""
        health, control, *_ = map(str, free_ports())
        self.world.worker(
            slot,
            BINSHIFT_DRIVER_HOSTS=",".join(HOSTS),
            BINSHIFT_EXECUTOR_HEALTH_PORT=health,
            BINSHIFT_CONTROL_RELAY_PORT=control,
        )
        return health, control

    def activate(self, slot: int) -> Any:
        """Make a driver the active one."""
        return self.world.ask("POST", "/v1/activate", host=HOSTS[slot])

    def seen(self, slot: int) -> Any:
        """What a driver reports; a state of its own while it does not answer."""
        try:
            return self.world.ask("GET", "/v1/dataflow", host=HOSTS[slot])
        except OSError:
            return {"state": "silent", "epoch": -1, "active": False}

    def awaited(self, slot: int, **wanted: Any) -> Any:
        """A driver's report with these fields."""
        return self.world.awaited(lambda got: wanted.items() <= got.items(), lambda: self.seen(slot))

    def grows(self, slot: int) -> int:
        """A driver commits epochs; returns the newest."""
        epoch: int = self.awaited(slot, state="Running")["epoch"]
        return int(self.world.awaited(lambda got: got["epoch"] >= epoch + 2, lambda: self.seen(slot))["epoch"])

    def park(self, slot: int) -> int:
        """Start the driver that waits next to the active one; returns the active one's newest epoch once its executors have rehearsed."""
        self.start_driver(slot)
        self.awaited(slot, state="Standby", active=False, registered=[0, 1])
        return self.grows(1 - slot)

    def take_over(self, slot: int, before: int, sent: signal.Signals = signal.SIGKILL) -> Any:
        """Kill the active driver, and activate the other one; returns its report after its first epoch."""
        self.kill(1 - slot, sent)
        self.activate(slot)
        return self.world.awaited(lambda got: got["epoch"] > before, lambda: self.seen(slot))

    def kill(self, slot: int, sent: signal.Signals = signal.SIGKILL) -> None:
        """Kill everything of a driver's pod at once, or stop it."""
        for pod in (f"driver-{slot}", f"master-{slot}") if sent == signal.SIGKILL else ():
            self.world.processes.pop(pod)
        directory = str(self.world.folder / f"driver-{slot}")
        for line in self.world.left():
            number = int(line.split()[0])
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # it has ended with its parent
                variables = Path(f"/proc/{number}/environ").read_bytes().split(b"\0")
                if f"BINSHIFT_HOST={HOSTS[slot]}".encode() in variables or directory in line:
                    os.kill(number, sent)

    def executors(self, slot: int) -> list[int]:
        """The executors' processes of a driver."""
        found = []
        for number in (int(line.split()[0]) for line in self.world.left()):
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # it has ended
                if f"CoarseGrainedScheduler@{HOSTS[slot]}:".encode() in Path(f"/proc/{number}/cmdline").read_bytes():
                    found.append(number)
        return found


@contextmanager
def two_drivers(folder: Path, program: Path, *arguments: str, tls: Path | None = None) -> Iterator[TwoDrivers]:
    """None of them started; all processes are ended afterwards."""
    with pods(folder, tls) as world:
        yield TwoDrivers(world, program, arguments)


def is_ready(slot: int, health: str) -> bool:
    """Whether the kubelet would call an executor's pod ready."""
    link = HTTPConnection(f"127.0.0.{slot + 2}", int(health), timeout=10)
    link.request("GET", "/readyz")
    return link.getresponse().status == HTTPStatus.OK
