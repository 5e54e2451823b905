"""The processes of pods, on loopback addresses of this machine, with the operator's environment."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import HTTPSHandler, ProxyHandler, Request, build_opener

import psutil

from binshift.encryption import AUTHORITY, SPARK_CONF, TLS_VARIABLE

ADMIN, DRAIN, SECRET = "admin-token-of-pods", "drain-token-of-pods", "spark-secret-of-pods"
WAIT_SECONDS = 300.0
MARK = "BINSHIFT_TEST_PODS"
"""In the environment of everything that a test starts, so that remaining processes can be found."""
SPARKS = ("DRIVER", "DRIVER_BLOCKS", "MASTER", "WORKER", "EXECUTOR_BLOCKS", "SECOND_WORKER", "SECOND_EXECUTOR_BLOCKS")
"""The ports between pods that Spark listens on."""
PORTS = (*SPARKS, "CONTROL", "HEALTH", "MASTER_STATUS", "SPARK_UI", "ACTIVE")
DEFAULTS = """
spark.executor.memory 600m
spark.authenticate true
spark.binshift.workers 2
spark.default.parallelism 2
"""


def free_ports() -> list[int]:
    """As many unused ports as pods have."""
    with ExitStack() as held:
        sockets = [held.enter_context(socket.socket()) for _ in PORTS]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]


@dataclass
class Pods:
    """The pods of one dataflow; logs are in ``folder``; ``tls``: of the certificate, if their traffic is encrypted."""

    folder: Path
    tls: Path | None = None
    cores: int = 2
    ports: dict[str, int] = field(default_factory=lambda: dict(zip(PORTS, free_ports(), strict=True)))
    processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    def environment(self, pod: str, host: str) -> dict[str, str]:
        """The variables that the operator sets."""
        conf, directory = self.folder / "conf", self.folder / pod
        conf.mkdir(exist_ok=True)
        more = {"spark.executor.cores": str(self.cores), **(SPARK_CONF if self.tls is not None else {})}
        (conf / "spark-defaults.conf").write_text(
            DEFAULTS + "".join(f"{name} {value}\n" for name, value in more.items())
        )
        base = {
            **{f"BINSHIFT_{name}_PORT": str(port) for name, port in self.ports.items()},
            "BINSHIFT_MASTER": f"spark://127.0.0.1:{self.ports['MASTER']}",
            "BINSHIFT_HOST": host,
            "BINSHIFT_BIND": "127.0.0.1",
            "BINSHIFT_DIRECTORY": str(directory),
            "SPARK_CONF_DIR": str(conf),
            "_SPARK_AUTH_SECRET": SECRET,
            MARK: str(self.folder),
        }
        return {
            name: os.environ[name] for name in ("PATH", "HOME", "PYTHONPATH", "JAVA_HOME") if name in os.environ
        } | base

    def start(self, pod: str, module: str, host: str, *arguments: str, **more: str) -> subprocess.Popen[bytes]:
        """Start a pod's process."""
        with (self.folder / f"{pod}.log").open("ab") as out:
            command = [sys.executable, "-m", f"binshift.hosting.pod.{module}", *arguments]
            environment = self.environment(pod, host) | more
            process = subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL, stdout=out, stderr=out)
        self.processes[pod] = process
        return process

    def master(self) -> subprocess.Popen[bytes]:
        """Start the master."""
        return self.start("master", "master", "127.0.0.1")

    def worker(self, slot: int, **more: str) -> subprocess.Popen[bytes]:
        """Start a worker; ``more``: variables."""
        sizes = {"BINSHIFT_EXECUTOR_MEMORY": "600m", "BINSHIFT_EXECUTOR_CORES": str(self.cores)}
        return self.start(f"worker-{slot}", "worker", f"127.0.0.{slot + 2}", **sizes, **more)

    def driver(
        self, program: Path, *arguments: str, pod: str = "driver", host: str = "127.0.0.1", **more: str
    ) -> subprocess.Popen[bytes]:
        """Start a driver; ``more``: variables."""
        ours = {
            "BINSHIFT_TOKEN": ADMIN,
            "BINSHIFT_DRAIN_TOKEN": DRAIN,
            "BINSHIFT_CHECKPOINT": str(self.folder / "checkpoint"),
            "BINSHIFT_OWNER": "uid-1",
            "BINSHIFT_TERMINATION_LOG": str(self.folder / "termination"),
            **({} if self.tls is None else {TLS_VARIABLE: str(self.tls)}),
            **more,
        }
        return self.start(pod, "driver", host, str(program), *arguments, **ours)

    def end(self, pod: str, seconds: float = 60.0) -> int:
        """Send SIGTERM and return the exit status."""
        process = self.processes.pop(pod)
        process.send_signal(signal.SIGTERM)
        try:
            return process.wait(seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            raise

    def kill(self, pod: str) -> None:
        """Kill a pod's process with all that it has started."""
        process = psutil.Process(self.processes.pop(pod).pid)
        for each in [process, *process.children(recursive=True)]:
            with contextlib.suppress(psutil.NoSuchProcess):
                each.kill()

    def ask(self, method: str, path: str, body: Any = None, host: str = "127.0.0.1") -> Any:
        """The response of the control API of the driver at ``host``."""
        data = None if body is None else json.dumps(body).encode()
        headers = {"Authorization": f"Bearer {ADMIN}", "Content-Type": "application/json"}
        url = f"{'http' if self.tls is None else 'https'}://{host}:{self.ports['CONTROL']}{path}"
        secured = ssl.create_default_context(cafile=None if self.tls is None else str(self.tls / AUTHORITY))
        try:
            with build_opener(ProxyHandler({}), HTTPSHandler(context=secured)).open(
                Request(url, data, headers, method=method), timeout=30
            ) as answer:
                return json.loads(answer.read())
        except HTTPError as refused:
            return json.loads(refused.read())

    def dataflow(self) -> Any:
        """The dataflow as a whole."""
        return self.ask("GET", "/v1/dataflow")

    def awaited(self, wanted: Callable[[Any], bool], observe: Callable[[], Any] | None = None) -> Any:
        """The result of ``observe`` (the dataflow by default), as soon as it is ``wanted``."""
        deadline = time.monotonic() + WAIT_SECONDS
        while not wanted(seen := (observe or self.dataflow)()):
            assert time.monotonic() < deadline, f"{seen}\n{self.log_of('driver')[-3000:]}"
            time.sleep(0.1)
        return seen

    def log_of(self, pod: str) -> str:
        """The log of a pod."""
        return (self.folder / f"{pod}.log").read_text(errors="replace")

    def left(self) -> list[str]:
        """The living processes with the mark."""
        found = []
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit() and int(entry.name) != os.getpid():
                with contextlib.suppress(OSError):
                    marked = f"{MARK}={self.folder}".encode() in (entry / "environ").read_bytes().split(b"\0")
                    line = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                    if marked and line:
                        found.append(f"{entry.name} {line[:200]}")
        return found


@contextmanager
def pods(folder: Path, tls: Path | None = None, cores: int = 2) -> Iterator[Pods]:
    """Pods whose processes are ended afterwards in any case."""
    made = Pods(folder, tls, cores)
    try:
        yield made
    finally:
        for process in made.processes.values():
            process.terminate()
        for process in made.processes.values():
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(20)
        for each in made.left():
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(each.split()[0]), signal.SIGKILL)
