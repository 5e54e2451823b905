"""A real Spark standalone cluster on this machine: one master, one worker process per loopback address.

The same processes run in pods on Kubernetes; only the addresses differ. Worker slot ``n`` listens on ``127.0.0.(n+2)``,
so that Spark's executor host names the slot, as the pod's name does there. Owns the processes it starts and nothing else: it
ends them by process id, children first. Linux only (other systems answer on 127.0.0.1 alone).
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import signal
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

import psutil

from binshift import cds
from binshift.encryption import SECRET_VARIABLE, SPARK_CONF
from binshift.errors import InvalidSettings
from binshift.hosting.processes import ChildProcess
from binshift.java import QUICK_TO_START, java_home
from binshift.model import Worker

MASTER_HOST = "127.0.0.1"
EXECUTOR_MAIN = "org.apache.spark.executor.CoarseGrainedExecutorBackend"
WORKERS_MAX = 200
"""Loopback addresses this module hands out."""


def worker_host(worker: Worker) -> str:
    """The loopback address of a slot.

    >>> worker_host(Worker(0))
    '127.0.0.2'
    """
    return f"127.0.0.{worker + 2}"


@dataclass
class LocalCluster:
    """Start with `start`, end with `stop`, or use as a context manager.

    Attributes:
        directory: logs, Spark's work directories and the local stores go here.
        workers: how many worker processes to start at first.
        cores: task slots per worker; two at least, as background jobs need one of their own; standing tasks need a third.
        memory: each executor's JVM heap, in Spark's notation.
        encrypted: whether its processes authenticate each other, and encrypt what they send and what they write to disks.
    """

    directory: Path
    workers: int = 2
    cores: int = 3
    memory: str = "600m"
    port: int = 0
    encrypted: bool = False
    _secret: str = field(default_factory=secrets.token_hex, init=False, repr=False)
    _master: ChildProcess | None = field(default=None, init=False)
    _workers: dict[Worker, ChildProcess] = field(default_factory=dict, init=False)

    @property
    def url(self) -> str:
        """What to pass to ``SparkSession.builder.master``."""
        return f"spark://{MASTER_HOST}:{self.port}"

    def __enter__(self) -> Self:
        try:
            return self.start()
        except BaseException:
            self.stop()
            raise

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> Self:
        """Start the master, wait for its address, start the workers. Returns at once after that; they register by themselves."""
        if not sys.platform.startswith("linux"):
            raise InvalidSettings(f"a local cluster needs Linux's loopback addresses; this is {sys.platform}")
        self.directory.mkdir(parents=True, exist_ok=True)
        log = self.directory / "master.log"
        log.unlink(missing_ok=True)
        if self.secret_file is not None:
            self.secret_file.touch(0o600)
            self.secret_file.write_text(f"spark.authenticate.secret {self._secret}\n", encoding="utf-8")
        self.port = _await_port(log, self.start_master())
        for worker in range(self.workers):
            self.start_worker(Worker(worker))
        return self

    def start_master(self) -> ChildProcess:
        """Start the master, in place of one that has ended; once it had an address, at that one."""
        if self._master is not None:
            self._master.hang_up()
        arguments = ["--host", MASTER_HOST, "--port", str(self.port), "--webui-port", "0"]
        log = self.directory / "master.log"
        self._master = self._spawn("org.apache.spark.deploy.master.Master", arguments, log, {})
        return self._master

    def start_worker(self, worker: Worker) -> None:
        """Start the worker process of a slot; a slot that runs is left alone."""
        if worker >= WORKERS_MAX:
            raise InvalidSettings(f"worker {worker} is beyond the {WORKERS_MAX} loopback addresses used here")
        earlier = self._workers.get(worker)
        if earlier is not None:
            if earlier.status is None:
                return
            earlier.hang_up()
        host, work = worker_host(worker), self.directory / f"worker-{worker}"
        work.mkdir(exist_ok=True)
        arguments = ["--host", host, "--port", "0", "--webui-port", "0", "--cores", str(self.cores)]
        arguments += ["--memory", self.memory, "--work-dir", str(work), self.url]
        environment = {"SPARK_LOCAL_HOSTNAME": host, "SPARK_LOCAL_IP": host, "SPARK_LOCAL_DIRS": str(work / "spark")}
        environment |= {"BINSHIFT_STORE_DIR": str(work / "store")}
        log = self.directory / f"worker-{worker}.log"
        self._workers[worker] = self._spawn("org.apache.spark.deploy.worker.Worker", arguments, log, environment)

    def stop_worker(self, worker: Worker, sig: signal.Signals = signal.SIGTERM) -> None:
        """End a slot's worker process and its executor."""
        process = self._workers.pop(worker, None)
        if process is not None:
            process.end_tree(sig)

    @property
    def running(self) -> frozenset[Worker]:
        """Slots whose worker process lives."""
        return frozenset(worker for worker, process in self._workers.items() if process.status is None)

    @property
    def alive(self) -> bool:
        """Whether the master lives; without it the cluster is none."""
        return self._master is not None and self._master.status is None

    def executor_pids(self, worker: Worker) -> list[int]:
        """The process ids of the executor JVMs of a slot."""
        process = self._workers.get(worker)
        found = []
        for each in [] if process is None else process.descendants():
            with contextlib.suppress(psutil.NoSuchProcess):
                found += [each.pid] if EXECUTOR_MAIN in each.cmdline() else []
        return found

    def stop(self) -> None:
        """End every process this cluster started."""
        for worker in list(self._workers):
            self.stop_worker(worker)
        if self._master is not None:
            self._master.end_tree()
            self._master = None

    def conf(self) -> dict[str, str]:
        """Spark conf that belongs to this cluster: one executor per worker, all its cores, loopback only."""
        return {
            "spark.driver.host": MASTER_HOST,
            "spark.driver.bindAddress": MASTER_HOST,
            "spark.executor.cores": str(self.cores),
            "spark.executor.memory": self.memory,
            **(SPARK_CONF if self.encrypted else {}),
        }

    @property
    def secret_file(self) -> Path | None:
        """Spark conf with the secret, for a program on this cluster; None unless it is encrypted. So it is on no command line."""
        return self.directory / "secret.conf" if self.encrypted else None

    def _spawn(self, main: str, arguments: Sequence[str], log: Path, environment: dict[str, str]) -> ChildProcess:
        import pyspark

        home = Path(pyspark.__file__).parent
        base = {"SPARK_HOME": str(home), "SPARK_DAEMON_MEMORY": "256m", "SPARK_NO_DAEMONIZE": "1"}
        base |= {"JAVA_HOME": java_home(), "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": MASTER_HOST}
        secured = [f"-D{key}={value}" for key, value in SPARK_CONF.items()] if self.encrypted else []
        base |= cds.daemon_environment(" ".join([DAEMON_OPTIONS, *secured]))
        base |= {SECRET_VARIABLE: self._secret} if self.encrypted else {}
        with log.open("ab") as out:
            command = ["sh", "-c", GUARD, "guard", str(home / "bin" / "spark-class"), main, *arguments]
            return ChildProcess(command, os.environ | base | environment, output=out)


GUARD = """
exec 3<&0
"$@" </dev/null 3<&- & child=$!
trap 'kill -TERM "$child" 2>/dev/null' TERM
( cat <&3 >/dev/null; kill -TERM "$child" 2>/dev/null ) & guard=$!
wait "$child"; code=$?
kill "$guard" 2>/dev/null
exit "$code"
"""
"""Runs a command that ends with its parent, however that ends: then its standard input does."""

DAEMON_OPTIONS = f"{QUICK_TO_START} -Dspark.deploy.maxExecutorRetries=-1 -Dspark.worker.cleanup.enabled=true"
"""A slot's executor can be restarted without limit; the daemons are almost idle."""


def _await_port(log: Path, process: ChildProcess, timeout_seconds: float = 60.0) -> int:
    deadline = time.monotonic() + timeout_seconds
    while time.monotonic() < deadline:
        if log.exists():
            found = re.search(r"Starting Spark master at spark://[\d.]+:(\d+)", log.read_text(errors="replace"))
            if found:
                return int(found.group(1))
        if process.status is not None:
            break
        time.sleep(0.05)
    tail = log.read_text(errors="replace")[-1500:] if log.exists() else "(no output)"
    raise InvalidSettings(f"the Spark master did not start within {timeout_seconds:.0f} s; its log ends:\n{tail}")
