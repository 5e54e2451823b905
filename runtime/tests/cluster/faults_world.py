"""A cluster, a program on it, and a tester that holds processes at named points and kills or suspends them.

The `World` acts as a supervisor: dead processes are restarted at once, with the same arguments. It keeps the program's output and
compares every epoch with the reference. It ends processes by their ids, and only its own processes and their descendants.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from counted import Reference
from process_tree import command_line, descendants
from pyarrow import parquet

from binshift import cds
from binshift.failpoints import VARIABLE
from binshift.hosting.processes import ChildProcess
from binshift.local import DAEMON_OPTIONS, LocalCluster
from binshift.model import Worker

HERE = Path(__file__).parent
POLL_SECONDS = 0.02
PATIENCE_SECONDS = 150.0
WORKERS = 3


@dataclass
class HurtCluster(LocalCluster):
    """A local cluster whose master keeps its state in files, and whose processes use the failpoints' folder.

    Attributes:
        points: the failpoints' folder.
        timeout_seconds: the time after which the master considers a worker lost.
    """

    points: Path = Path()
    timeout_seconds: int = 60

    def start(self) -> Self:
        """Start everything, and wait until the master has every worker: otherwise one with free capacity would get every executor."""
        super().start()
        deadline = time.monotonic() + PATIENCE_SECONDS
        while self.master_log.count("Registering worker ") < self.workers:
            assert time.monotonic() < deadline, self.master_log[-2000:]
            time.sleep(POLL_SECONDS)
        return self

    def _spawn(self, main: str, arguments: Sequence[str], log: Path, environment: dict[str, str]) -> ChildProcess:
        kept = self.directory / "kept"
        kept.mkdir(exist_ok=True)
        more = f" -Dspark.worker.timeout={self.timeout_seconds} -Dspark.deploy.recoveryMode=FILESYSTEM"
        more += f" -Dspark.deploy.recoveryDirectory={kept}"
        options = cds.daemon_environment(DAEMON_OPTIONS + more) | {VARIABLE: str(self.points)}
        return super()._spawn(main, arguments, log, environment | options)

    def pids(self, what: str, root: ChildProcess | None) -> list[int]:
        """The Java processes of a class below one of this cluster's."""
        below = [] if root is None else [each.pid for each in root.descendants()]
        return [pid for pid in below if what in command_line(pid) and "java" in command_line(pid)[:200]]

    @property
    def master_log(self) -> str:
        """The master's log since the cluster was started."""
        return (self.directory / "master.log").read_text(errors="replace")

    def master_pids(self) -> list[int]:
        """The master's process ids."""
        return self.pids("deploy.master.Master", self._master)

    def worker_pids(self, worker: Worker) -> list[int]:
        """A Spark worker's process ids, without its executors."""
        return self.pids("deploy.worker.Worker", self._workers.get(worker))

    def python_pids(self, worker: Worker) -> list[int]:
        """The Python workers of a slot's executors, and the daemons that fork them."""
        found = [pid for jvm in self.executor_pids(worker) for pid in descendants(jvm)]
        return [pid for pid in found if "pyspark" in command_line(pid)]


def send(sig: signal.Signals, pids: Iterable[int]) -> None:
    """Send a signal to the tester's own processes; ended ones are ignored."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, sig)


@dataclass
class World:
    """See the module.

    Attributes:
        folder: the parent of all files.
        cluster: the Spark cluster.
        conf: the conf of the program, see `faults_program`.
        program: the driver.
        starts: how often the program was started.
        checked: the number of epochs compared so far.
    """

    folder: Path
    cluster: HurtCluster
    conf: dict[str, dict[str, Any]]
    program: subprocess.Popen[bytes] | None = None
    starts: int = 0
    reference: Reference = field(default_factory=Reference)
    checked: int = 0

    def __post_init__(self) -> None:
        for each in (self.out, self.points):
            each.mkdir(parents=True, exist_ok=True)

    @property
    def out(self) -> Path:
        """The directory that the program publishes to."""
        return self.folder / "out"

    @property
    def points(self) -> Path:
        """The folder of the failpoints."""
        return self.cluster.points

    # ------------------------------------------------------------------------------------------------- processes

    def start_program(self) -> subprocess.Popen[bytes]:
        """Start a driver, in addition to a running one."""
        self.starts += 1
        command = [sys.executable, str(HERE / "faults_program.py"), self.cluster.url, str(self.folder / "checkpoint")]
        command += [str(self.out), json.dumps(self.conf)]
        path = os.pathsep.join([str(HERE), str(HERE.parent.parent)])
        environment = os.environ | {"PYTHONPATH": path, VARIABLE: str(self.points)}
        with (self.folder / "program.log").open("ab") as log:
            return subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=log, stderr=log, env=environment, start_new_session=True
            )

    def repair(self) -> None:
        """Restart dead processes."""
        if not self.cluster.alive:
            self.cluster.start_master()
        for worker in range(self.cluster.workers):
            self.cluster.start_worker(Worker(worker))
        if self.program is None or self.program.poll() is not None:
            self.program = self.start_program()

    def driver_pids(self) -> list[int]:
        """The program's processes: Python and the JVM."""
        assert self.program is not None
        return [self.program.pid, *descendants(self.program.pid)]

    def close(self) -> None:
        """End everything."""
        if self.program is not None:
            send(signal.SIGKILL, self.driver_pids())
            self.program.wait()
        self.cluster.stop()

    def log_end(self) -> str:
        """The end of the program's log, for messages."""
        path = self.folder / "program.log"
        return path.read_text(errors="replace")[-4000:] if path.exists() else ""

    def rescale(self, workers: int) -> None:
        """Request another number of workers; a program that is dying ignores it."""
        assert self.program is not None
        assert self.program.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self.program.stdin.write(b"%d\n" % workers)
            self.program.stdin.flush()

    @property
    def trigger_seconds(self) -> float:
        """The minimum time between two epochs of a calm program."""
        return float(self.conf["tester"]["trigger_seconds"])

    # ------------------------------------------------------------------------------------------------- failpoints

    def arm(self, point: str) -> None:
        """Hold the next process that reaches ``point``."""
        for old in self.points.iterdir():
            old.unlink(missing_ok=True)
        (self.points / point).touch()

    def held(self) -> dict[int, str]:
        """The held processes: points by process id."""
        found = [path.name.removesuffix(".held") for path in self.points.glob("*.held")]
        return {int(name.rpartition(".")[2]): name.rpartition(".")[0] for name in found}

    def release(self) -> None:
        """Release all held processes, and disarm."""
        for path in list(self.points.iterdir()):
            if path.suffix == ".held":
                path.with_suffix(".go").touch()
            elif path.suffix != ".go":
                path.unlink(missing_ok=True)

    # ------------------------------------------------------------------------------------------------- observations

    def status(self) -> dict[str, Any]:
        """The program's last report."""
        try:
            found: dict[str, Any] = json.loads((self.out / "status.json").read_text())
        except (OSError, ValueError):
            return {"pid": 0, "epoch": -1, "workers": [], "migrations": []}
        return found

    def published(self) -> int:
        """The newest epoch whose output exists, with that of all earlier epochs."""
        last = self.checked - 1
        while self._place(last + 1).exists():
            last += 1
        return last

    def until(
        self, wanted: Callable[[], bool], what: str, seconds: float = PATIENCE_SECONDS, repair: bool = True
    ) -> None:
        """Wait until something is so, starting again what dies meanwhile."""
        deadline = time.monotonic() + seconds
        while not wanted():
            if repair:
                self.repair()
            assert time.monotonic() < deadline, f"{what}: not within {seconds} s; {self.status()}\n{self.log_end()}"
            time.sleep(POLL_SECONDS)

    def advance(self, epochs: int) -> None:
        """Wait until this many more epochs are published, and check all of them."""
        last = self.published() + epochs
        self.until(lambda: self.published() >= last, f"epoch {last} is published")
        self.check()

    def check(self) -> None:
        """Check that every epoch published so far equals the reference, and never changed."""
        again = list(self.out.glob("*.again"))
        assert not again, f"published twice, and differently: {again}"
        for epoch in range(self.checked, self.published() + 1):
            wanted = sorted(
                [[name, str(group), *figures] for (name, group), figures in self.reference.epoch(epoch).items()],
                key=str,
            )
            found = self._rows(epoch)
            wrong = [(a, b) for a, b in zip(found, wanted, strict=False) if a != b][:3]
            assert found == wanted, f"epoch {epoch} has {len(found)} rows of {len(wanted)}, wrong are {wrong}"
            self.checked = epoch + 1

    @property
    def _files(self) -> bool:
        """Whether the program publishes files of one of Spark's formats."""
        return bool(self.conf["tester"].get("files"))

    def _place(self, epoch: int) -> Path:
        """The file or directory that exists once an epoch is published."""
        return self.out / (f"files/epoch={epoch}/_SUCCESS" if self._files else f"{epoch}.json")

    def _rows(self, epoch: int) -> list[list[Any]]:
        """The rows of a published epoch, as any reader sees them."""
        if not self._files:
            found: list[list[Any]] = json.loads(self._place(epoch).read_text())
            return found
        rows = [list(row.values()) for row in parquet.ParquetDataset(self._place(epoch).parent).read().to_pylist()]
        return sorted([[row[0], str(row[1]), *row[2:6]] for row in rows], key=str)

    def check_all(self) -> None:
        """As `check`, for every epoch from the first on: none has changed since it was published."""
        self.reference, self.checked = Reference(), 0
        self.check()

    def timings(self) -> list[dict[str, float]]:
        """When each epoch was recorded, how long it took and in how many runs; in order of time."""
        path = self.out / "timings.jsonl"
        lines = path.read_text().splitlines() if path.exists() else []
        found = [json.loads(line) for line in lines if line.endswith("}")]
        return sorted(found, key=lambda each: each["at"])
