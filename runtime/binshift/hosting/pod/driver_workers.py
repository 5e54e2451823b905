"""Spark's workers in an executor's pod of two drivers: one for each, so that a standby has its executors before it is activated.

Each driver has its own master, and each of these workers runs one executor for it. That of the standby has loaded the program and waits,
while that of the active driver has the bins. A driver that takes over needs no new process; the local stores are in the pod, and its
executor opens them. The worker of the driver that was replaced is ended at once, with its executor, whether or not that driver has ended:
memory and stores are for the active one. It starts again when that driver's pod has come back, as the standby.

The processes are supervised here, as the container has one: it is alive as long as this module runs, and ready while the active driver's
executor listens.
"""

from __future__ import annotations

import logging
import socket
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from binshift.hosting.pod.daemons import command, listens, need_name
from binshift.hosting.pod.executor_health import serve_health
from binshift.hosting.pod.relay import ActiveDriver, follow, serve
from binshift.hosting.pod.settings import driver_hosts, needed
from binshift.hosting.pod.spark_worker import MAIN, WORK, SparkWorker, spark_worker
from binshift.hosting.processes import ChildProcess, Interrupts
from binshift.memory import DAEMON_HEAP_MIB
from binshift.ports import Ports

log = logging.getLogger(__name__)

LOOK_SECONDS: Final = 1.0
"""How often a worker is checked."""
RETURN_SECONDS: Final = 20.0
"""Before the worker of a driver that was replaced starts again: the first epochs of the other one need the processor."""
LOOPBACK: Final = "127.0.0.1"


@dataclass
class DriverWorker:
    """The worker of one driver, which is started whenever its master answers.

    Attributes:
        driver: host of the driver.
        master: host and port.
        command: starts the worker.
        environment: of it.
        active: which driver is the active one.
        ending: set when this process ends.
    """

    driver: str
    master: tuple[str, int]
    command: Sequence[str]
    environment: Mapping[str, str]
    active: ActiveDriver
    ending: threading.Event

    def run(self) -> None:
        """Keep it running until this process ends."""
        while not self.ending.is_set():
            # A worker that finds no master at first waits for many seconds.
            if not listens(*self.master):
                self.ending.wait(LOOK_SECONDS)
                continue
            log.info("the worker of %s starts", self.driver)
            process = ChildProcess(self.command, self.environment)
            try:
                replaced = self._watched(process)
            finally:
                process.end_group()
            self.ending.wait(RETURN_SECONDS if replaced else LOOK_SECONDS)
            while not (self.active.forget(self.driver) or self.ending.wait(LOOK_SECONDS)):
                pass

    def _watched(self, process: ChildProcess) -> bool:
        """Return when the worker has to end or has ended: whether its driver was replaced."""
        while process.status is None and not self.ending.is_set():
            if self.active.wait_replaced(self.driver, LOOK_SECONDS):
                log.info("another driver has replaced %s: its executor ends", self.driver)
                process.kill_group()
                return True
        if not self.ending.is_set():
            log.warning("the worker of %s has ended with status %s: it is started again", self.driver, process.status)
        return False


def run(environment: Mapping[str, str]) -> int:
    """Run a worker for each driver until a signal comes; returns the exit status.

    Raises:
        InvalidSettings: a variable is missing or does not fit, or this pod's name is not known.
        OSError: a port is taken.
    """
    hosts, ports = driver_hosts(environment), Ports.from_environment(environment)
    environment = {"SPARK_DAEMON_MEMORY": f"{DAEMON_HEAP_MIB // len(hosts)}m", **environment}
    workers = [
        spark_worker(environment, f"spark://{host}:{ports.master}", ports.of_driver(index), f"{WORK}-{index}")
        for index, host in enumerate(hosts)
    ]
    own = needed(environment, "BINSHIFT_HOST")
    need_name(own)
    active, interrupts, ending = ActiveDriver(), Interrupts(), threading.Event()
    relay = socket.create_server((LOOPBACK, ports.control_relay))
    threads = [threading.Thread(target=serve, args=(relay, ports.control, active), daemon=True)]
    threads += [threading.Thread(target=follow, args=(host, ports.active, active), daemon=True) for host in hosts]
    running = [
        threading.Thread(target=_kept(host, worker, active, ending).run, name=f"binshift-worker-{host}")
        for host, worker in zip(hosts, workers, strict=True)
    ]
    checks = {
        "/healthz": lambda: all(map(threading.Thread.is_alive, running)),
        "/readyz": lambda: _is_ready(own, hosts, ports, active),
    }
    with interrupts.watched(), serve_health((own, ports.executor_health), checks):
        for thread in (*threads, *running):
            thread.start()
        while not interrupts.event.wait():
            pass
        ending.set()
        for thread in running:
            thread.join()
    return 0


def _kept(driver: str, worker: SparkWorker, active: ActiveDriver, ending: threading.Event) -> DriverWorker:
    worker.prepare()
    line = command(MAIN, worker.arguments)
    return DriverWorker(driver, worker.master, line, worker.environment, active, ending)


def _is_ready(own: str, hosts: Sequence[str], ports: Ports, active: ActiveDriver) -> bool:
    """Whether the active driver's executor listens."""
    host = active.host
    return host is not None and listens(own, ports.of_driver(hosts.index(host)).executor_blocks)
