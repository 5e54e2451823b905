"""`binshift run app.py`: a cluster on this machine, the user's program on it, and a supervisor for both.

Order of the beginning: the run's folder, the cluster, the program. The end is the reverse, and always the whole of it: the query is
stopped through the control API, which lets it finish its epoch, then the program's processes end, then the cluster's.

Exit status: the program's own if it ended by itself; 130 after an interrupt (SIGINT, SIGTERM or SIGHUP; a second one does
not wait for the epoch); 1 if the cluster could not be started or was lost.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import secrets
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from binshift import s3
from binshift.autoscale import Autoscaler
from binshift.control.models import Dataflow, State
from binshift.encryption import TLS_VARIABLE
from binshift.errors import BinshiftError, InvalidSettings, RunFailed
from binshift.hosting.client import ControlClient
from binshift.hosting.local import directory, quiet
from binshift.hosting.local.autoscaling import Autoscaling, bounded, policy_of, worker_range
from binshift.hosting.local.environment import program_conf, program_environment
from binshift.hosting.local.options import (
    certificate_folder,
    conf_entry,
    control_of,
    count,
    location,
    memory,
    page_address,
    parser,
    port,
)
from binshift.hosting.local.supervisor import Supervisor
from binshift.hosting.local.terminal import Changes, ExecutorOutput, Reporter
from binshift.hosting.processes import ChildProcess, Interrupts
from binshift.java import java_home, spark_conf
from binshift.local import MASTER_HOST, WORKERS_MAX, LocalCluster
from binshift.spark.session.failures import without_java

STEP_SECONDS: Final = 0.25
CHECKPOINT_VARIABLE: Final = "BINSHIFT_CHECKPOINT"
RESTORE_CONF: Final = "spark.binshift.restoreFrom"
RESTORE_HELP: Final = "snapshot of a dataflow to begin with, if the checkpoint is empty (see `binshift snapshot`)"
ENCRYPT_HELP: Final = (
    "TLS by tls.crt, tls.key and ca.crt there (for 127.0.0.1), and encryption between Spark's processes"
)
CORES_MIN: Final = 2  # background jobs need a task slot of their own
CORES: Final = 3  # and so does a standing task
CORES_MAX: Final = 64
STOP_SECONDS_MAX: Final = 60.0
"""How long a query may take to finish its epoch."""
TRACEBACK_LINES_MAX: Final = 15


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a program; returns the exit status."""
    given = _parsed(sys.argv[1:] if arguments is None else list(arguments))
    if not given.app.is_file():
        raise InvalidSettings(f"there is no program {given.app}; `binshift run` takes the path of a Python file")
    interrupts = Interrupts()
    with interrupts.watched(), ExitStack() as ends:
        folder = given.directory or Path(ends.enter_context(_temporary()))
        token = secrets.token_urlsafe(32)
        app = given.app.resolve()
        run = ends.enter_context(directory.create_run(app, token, folder.resolve(), given.workers, os.environ))
        made = LocalCluster(folder.resolve(), 0, given.cores, given.memory, encrypted=given.encrypt is not None)
        cluster = ends.enter_context(made)
        report = Reporter(given.output)
        output = ExecutorOutput(cluster.directory, report.show_line)
        process = _started(app, given, run, cluster, token)
        ends.callback(process.end_group)

        def control() -> ControlClient | None:
            return control_of(run.run)

        scaling = _autoscaling(given, run, control)
        return _Watch(run, cluster, process, interrupts, output, report, control, scaling).run()


@dataclass
class _Watch:
    """The run, while it lasts."""

    run_directory: directory.RunDirectory
    cluster: LocalCluster
    process: ChildProcess
    interrupts: Interrupts
    output: ExecutorOutput
    report: Reporter
    control: Callable[[], ControlClient | None]
    autoscaling: Autoscaling | None = None

    def run(self) -> int:
        """Supervise until the program ends or is interrupted; returns the exit status."""
        supervisor = Supervisor(self.cluster, self.run_directory, self.control)
        announced, changes = False, Changes()
        while (status := self.process.status) is None:
            supervisor.step()
            self.output.forward()
            if supervisor.seen is not None:
                self.show(supervisor.seen, changes)
            if not announced and (url := self.run_directory.run.url):
                announced = True
                where = {"master": self.cluster.url, "control": url, "logs": str(self.cluster.directory)}
                self.report("running", run=self.run_directory.path.name, **where)
                if self.report.output == "text" and sys.stderr.isatty():  # a token must not get into a file of logs
                    self.report("page", url=page_address(self.run_directory.run))
            if self.interrupts.event.wait(STEP_SECONDS):
                return self.stop()
            if not self.cluster.alive:
                raise RunFailed(f"the Spark master has ended; its log is {self.cluster.directory / 'master.log'}")
        self.output.ending = True
        self.output.forward(last=True)
        if status:
            self.report("program failed", status=status, traceback=self._traceback())
        return status

    def show(self, seen: Dataflow, changes: Changes) -> None:
        """Report what has changed, and scale by it."""
        for event, facts in changes.of(seen):
            self.report(event, **facts)
        decision = None if self.autoscaling is None else self.autoscaling.step(seen)
        if decision is not None:
            event = "rebalanced" if decision.rebalance else "autoscaled"
            self.report(event, why=decision.message, workers=decision.workers)

    def stop(self) -> int:
        """Let the query finish its epoch and the program what comes after; the caller ends what is left."""
        self.output.ending = True
        self.report("stopping", how="the running epoch is finished first; interrupt again to stop at once")
        with contextlib.suppress(BinshiftError):  # a program that does not answer any more is ended with the processes
            control = self.control()
            if control is not None and control.dataflow().state is State.RUNNING:
                control.stop()
                deadline = time.monotonic() + STOP_SECONDS_MAX
                while self.interrupts.seen < 2 and time.monotonic() < deadline:
                    self.output.forward()
                    if self.process.wait(STEP_SECONDS):
                        break
        self.output.forward(last=True)
        raise KeyboardInterrupt

    def _traceback(self) -> str:
        try:
            text = (self.run_directory.path / "failure.txt").read_text(encoding="utf-8")
        except FileNotFoundError:
            return ""
        return "\n".join(without_java(text.splitlines())[-TRACEBACK_LINES_MAX:])


def _autoscaling(
    given: argparse.Namespace, run: directory.RunDirectory, control: Callable[[], ControlClient | None]
) -> Autoscaling | None:
    if given.autoscale is None:
        return None
    return Autoscaling(Autoscaler(policy_of(given.autoscale, dict(given.conf))), run, control)


def _started(
    app: Path, given: argparse.Namespace, run: directory.RunDirectory, cluster: LocalCluster, token: str
) -> ChildProcess:
    from binshift.spark import conf

    required = cluster.conf() | conf.required()
    path = os.environ.get("PYTHONPATH", "")
    chosen = quiet.configured(cluster.directory, spark_conf()) | s3.spark_conf(os.environ)
    chosen |= bounded(dict(given.conf)) if given.autoscale else dict(given.conf)
    chosen |= {RESTORE_CONF: location(given.restore_from)} if given.restore_from else {}
    whole = program_conf(required, given.workers, app, cluster.directory, path, chosen)
    extra = program_environment(cluster.url, whole, java_home(), token, given.port, run.path, cluster.secret_file)
    command = [sys.executable, "-m", "binshift.hosting.local.program", str(app), *given.arguments]
    checkpoint = given.checkpoint or os.environ.get(CHECKPOINT_VARIABLE) or str(cluster.directory / "checkpoint")
    own = {CHECKPOINT_VARIABLE: checkpoint, "SPARK_LOCAL_IP": MASTER_HOST}
    tls = {} if given.encrypt is None else {TLS_VARIABLE: str(given.encrypt)}
    return ChildProcess(command, os.environ | extra | own | tls)


def _parsed(arguments: list[str]) -> argparse.Namespace:
    """Everything after ``--`` is the program's own."""
    at = arguments.index("--") if "--" in arguments else len(arguments)
    ours, program = arguments[:at], arguments[at + 1 :]
    parsing = parser("run", "Run a program on a cluster on this machine, and supervise both.", EXAMPLES, of_run=False)
    parsing.add_argument("app", type=Path, help="the program: a Python file")
    parsing.add_argument(
        "--workers", type=count(WORKERS_MAX), default=2, metavar="N", help="workers at the start (default: 2)"
    )
    parsing.add_argument(
        "--autoscale",
        type=worker_range,
        metavar="MIN:MAX",
        help="change the number of workers with the load, within this range; epochs are bounded (default: off)",
    )
    parsing.add_argument("--encrypt", type=certificate_folder, metavar="FOLDER", help=ENCRYPT_HELP)
    parsing.add_argument("--port", type=port, default=0, help="port of the control API (default: any free port)")
    parsing.add_argument("--directory", type=Path, help="folder for logs and stores (default: a temporary folder)")
    parsing.add_argument("--restore-from", metavar="LOCATION", help=RESTORE_HELP)
    parsing.add_argument(
        "--checkpoint",
        metavar="LOCATION",
        help=f"value of {CHECKPOINT_VARIABLE} for the program (default: its present value, or a path in --directory)",
    )
    parsing.add_argument(
        "--cores",
        type=count(CORES_MAX, CORES_MIN),
        default=CORES,
        metavar="N",
        help="task slots of each worker; at least 2, and 3 for standing tasks (default: 3)",
    )
    parsing.add_argument(
        "--memory", type=memory, default="600m", help="heap of each executor, such as 600m or 2g (default: 600m)"
    )
    parsing.add_argument(
        "--conf", type=conf_entry, action="append", default=[], metavar="KEY=VALUE", help="Spark conf; may be repeated"
    )
    parsing.usage = "binshift run APP [OPTION ...] [-- ARGUMENT ...]"
    given = parsing.parse_args(ours)
    given.arguments = program
    return given


EXAMPLES: Final = """\
examples:
  binshift run clicks.py                          two workers, everything temporary
  binshift run clicks.py --workers 4 -- --topic a the program's own arguments come after --
  binshift run clicks.py --checkpoint state       continues from there the next time
  binshift run clicks.py --restore-from backup    begins with a snapshot that `binshift snapshot backup` has made
  binshift run clicks.py --autoscale 1:8          as many workers as the load needs
  binshift scale 4                                from another shell, while it runs

The program calls SparkSession.builder.getOrCreate() and nothing else: its master and Spark conf are set for it.
Ctrl-C stops the query after its epoch, then everything else.
"""


@contextmanager
def _temporary() -> Iterator[str]:
    with tempfile.TemporaryDirectory(prefix="binshift-run-", ignore_cleanup_errors=True) as folder:
        yield folder
