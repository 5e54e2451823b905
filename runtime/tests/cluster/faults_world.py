"""A cluster, a program on it, and a tester that holds them at named points and hurts them.

The `World` plays whoever looks after the processes: what is dead is started again, with the same arguments, at once. It
keeps what the program published and compares every epoch with the reference; it ends processes by their ids, and only
those that it, or a process of its own, has started.
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
from typing import Any

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
    """A local cluster whose master keeps what it knows in files, and whose processes know the failpoints' folder.

    Attributes:
        points: the failpoints' folder.
        timeout_seconds: after which the master believes that a worker is gone.
    """

    points: Path = Path()
    timeout_seconds: int = 60

    def start(self) -> HurtCluster:
        """Start everything, and wait until the master knows every worker: else one with room would get every executor."""
        super().start()
        deadline = time.monotonic() + PATIENCE_SECONDS
        while self.master_words.count("Registering worker ") < self.workers:
            assert time.monotonic() < deadline, self.master_words[-2000:]
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
        below = [] if root is None else descendants(root.pid)
        return [pid for pid in below if what in command_line(pid) and "java" in command_line(pid)[:200]]

    @property
    def master_words(self) -> str:
        """All that the master has said since the cluster was started."""
        return (self.directory / "master.log").read_text(errors="replace")

    def master_pids(self) -> list[int]:
        """The master's."""
        return self.pids("deploy.master.Master", self._master)

    def worker_pids(self, worker: Worker) -> list[int]:
        """A Spark worker's, without its executors."""
        return self.pids("deploy.worker.Worker", self._workers.get(worker))

    def python_pids(self, worker: Worker) -> list[int]:
        """The Python workers of a slot's executors, and the daemons that fork them."""
        found = [pid for jvm in self.executor_pids(worker) for pid in descendants(jvm)]
        return [pid for pid in found if "pyspark" in command_line(pid)]


def send(sig: signal.Signals, pids: Iterable[int]) -> None:
    """A signal to processes of ours; one that is gone hears nothing."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, sig)


@dataclass
class World:
    """See the module.

    Attributes:
        folder: everything is in it.
        cluster: of Spark.
        conf: of the program, see `faults_program`.
        program: the driver.
        starts: how often the program was started.
        checked: epochs compared so far.
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
        """Where the program publishes."""
        return self.folder / "out"

    @property
    def points(self) -> Path:
        """Where failpoints are armed."""
        return self.cluster.points

    # ------------------------------------------------------------------------------------------------- processes

    def start_program(self) -> subprocess.Popen[bytes]:
        """Start a driver, beside any that is there."""
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
        """Start again what is dead."""
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
        """The last words of the program, for messages."""
        path = self.folder / "program.log"
        return path.read_text(errors="replace")[-4000:] if path.exists() else ""

    def rescale(self, workers: int) -> None:
        """Ask for another number of workers; a program that is just dying does not hear it."""
        assert self.program is not None
        assert self.program.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self.program.stdin.write(b"%d\n" % workers)
            self.program.stdin.flush()

    @property
    def trigger_seconds(self) -> float:
        """Between two epochs of a calm program, at least."""
        return float(self.conf["tester"]["trigger_seconds"])

    # ------------------------------------------------------------------------------------------------- failpoints

    def arm(self, point: str) -> None:
        """Hold the next process that comes to ``point``."""
        for old in self.points.iterdir():
            old.unlink(missing_ok=True)
        (self.points / point).touch()

    def held(self) -> dict[int, str]:
        """Who waits where, by process id."""
        found = [path.name.removesuffix(".held") for path in self.points.glob("*.held")]
        return {int(name.rpartition(".")[2]): name.rpartition(".")[0] for name in found}

    def release(self) -> None:
        """Let go whoever waits, and disarm."""
        for path in list(self.points.iterdir()):
            if path.suffix == ".held":
                path.with_suffix(".go").touch()
            elif path.suffix != ".go":
                path.unlink(missing_ok=True)

    # ------------------------------------------------------------------------------------------------- looking

    def status(self) -> dict[str, Any]:
        """What the program said last."""
        try:
            found: dict[str, Any] = json.loads((self.out / "status.json").read_text())
        except (OSError, ValueError):
            return {"pid": 0, "epoch": -1, "workers": [], "migrations": []}
        return found

    def published(self) -> int:
        """The newest epoch whose output is there, with all before it."""
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
        """Let so many more epochs be published, and check all there are."""
        last = self.published() + epochs
        self.until(lambda: self.published() >= last, f"epoch {last} is published")
        self.check()

    def check(self) -> None:
        """Every epoch published so far is what the reference says, and none was ever another."""
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
        """What is there once an epoch is published."""
        return self.out / (f"files/epoch={epoch}/_SUCCESS" if self._files else f"{epoch}.json")

    def _rows(self, epoch: int) -> list[list[Any]]:
        """The rows of a published epoch, as any reader sees them."""
        if not self._files:
            found: list[list[Any]] = json.loads(self._place(epoch).read_text())
            return found
        rows = [list(row.values()) for row in parquet.ParquetDataset(self._place(epoch).parent).read().to_pylist()]
        return sorted([[row[0], str(row[1]), *row[2:6]] for row in rows], key=str)

    def check_all(self) -> None:
        """As `check`, of every epoch from the first on: none has changed since it was published."""
        self.reference, self.checked = Reference(), 0
        self.check()

    def timings(self) -> list[dict[str, float]]:
        """When each epoch was recorded, how long it took and in how many runs; in the order of time."""
        path = self.out / "timings.jsonl"
        lines = path.read_text().splitlines() if path.exists() else []
        found = [json.loads(line) for line in lines if line.endswith("}")]
        return sorted(found, key=lambda each: each["at"])
