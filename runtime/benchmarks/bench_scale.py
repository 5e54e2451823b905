"""A rescale from the user's command on, everything cold: `binshift run` of a program, then `binshift scale 4` from another shell.

Two workers are started as new processes (JVMs, Spark's executors, Pythons), register, warm up, are filled and take over half of
the bins, on the cores on which the stream runs; later `binshift scale 2` reverses this. Measured open loop from
the moment of the command until all is settled. The phases are observed from outside ten times a second:

    start       until the first new process is started
    register    until Spark has all new executors
    warm        until they have rehearsed what an epoch does
    copy        until the first bins have flipped
    flip        until all bins have, and all is settled
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from argparse import Namespace
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from archive import save
from latency import committed_at, latencies_of
from moving import Times, columns
from options import WATCH, parsed, parser
from rich.console import Console
from tables import text
from targets import Row, Target, verdicts

from binshift.control.models import Dataflow
from binshift.errors import BinshiftError
from binshift.hosting.client import ControlClient
from binshift.hosting.local.directory import RunDirectory, find

HERE = Path(__file__).parent
POLL_SECONDS = 0.1
SETTLE_SECONDS = 6.0
START_SECONDS_MAX = 300.0
PHASES = ("start", "register", "warm", "copy", "flip")
TARGETS = (
    Target("worst record latency from the command on", "moving_max_s", 1.5, unit=" s"),
    Target("epochs skipped from the command on", "skipped", 0),
)


def main() -> None:
    """Run it for each number of keys."""
    made = parser(__doc__)
    made.add_argument("--keys", type=int, nargs="+", default=[1_000_000], help="keys in the state")
    made.add_argument("--rate", type=int, default=10_000, help="rows due per second")
    made.add_argument("--bins", type=int, default=1024)
    made.add_argument("--warm-seconds", type=float, default=60.0, help="unmeasured seconds after filling")
    made.add_argument("--calm-seconds", type=float, default=15.0, help="measured seconds before each command")
    args = parsed(made, {"keys": [1000], "rate": 1000, "bins": 16, "warm_seconds": 4.0, "calm_seconds": 3.0})
    rows = [row for keys in args.keys for row in scaled(keys, args)]
    print(text(rows))
    print(text(verdicts(rows, TARGETS, named)))
    if not args.quick:
        save("scale", rows, ["keys", "to"], elsewhere=WATCH.cores())


def scaled(keys: int, args: Namespace) -> list[dict[str, Any]]:
    """Start a run, scale it out and in, stop it; a row for each command."""
    moves: list[tuple[int, Times, dict[str, float]]] = []
    with tempfile.TemporaryDirectory(prefix="binshift-bench-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        with _run(folder, keys, args) as run, Console().status("") as status:
            run.await_rows(status.update)
            status.update(f"warming up, {args.warm_seconds:.0f} s")
            time.sleep(args.warm_seconds)
            for workers in (4, 2):
                calm_from = time.time()
                status.update(f"calm, {args.calm_seconds:.0f} s")
                time.sleep(args.calm_seconds)
                status.update(f"binshift scale {workers}")
                moves.append((workers, *run.scale(workers, calm_from)))
                time.sleep(SETTLE_SECONDS)
        result = json.loads((folder / "result.json").read_text())
    found = latencies_of(result["progress"], keys, args.rate)
    rows: list[dict[str, Any]] = []
    for workers, times, phases in moves:
        seconds: dict[str, Any] = {f"{phase}_s": phases[phase] for phase in phases}
        slowest = {"_slowest_ms": slowest_epoch(result, times)}
        rows.append({"keys": keys, "to": workers} | columns(found, times) | seconds | slowest)
    return rows


def slowest_epoch(result: dict[str, Any], times: Times) -> dict[str, float]:
    """The parts of the slowest epoch between command and end, in milliseconds; and when it ended."""
    meant = [each for each in result["progress"] if times.began <= committed_at(each) <= times.ended]
    slowest = max(meant, key=lambda each: each["durationMs"]["triggerExecution"])
    parts = result["parts"].get(str(slowest["batchId"]), {})
    after = {"seconds after the command": round(committed_at(slowest) - times.began, 2)}
    spent_ms: dict[str, float] = slowest["durationMs"]
    return after | spent_ms | {part: round(1000 * spent, 1) for part, spent in parts.items()}


@dataclass
class _Run:
    """A `binshift run`, observed from outside."""

    folder: Path
    environment: dict[str, str]
    process: subprocess.Popen[bytes]
    _found: RunDirectory | None = field(default=None)

    def observe(self) -> Dataflow | None:
        """The dataflow; None while the control API does not respond."""
        try:
            self._found = self._found or find(self.environment)
            run = self._found.run
            return None if run.url is None else ControlClient(run.url, run.token).dataflow()
        except BinshiftError:
            return None

    def await_rows(self, notify: Any) -> None:
        """Wait until the state is filled and epochs follow each other."""
        deadline = time.monotonic() + START_SECONDS_MAX
        while (seen := self.observe()) is None or seen.epoch < 8:
            notify(f"filling: {'starting' if seen is None else f'epoch {seen.epoch}'}")
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(
                    "the run has ended or does not begin: " + (self.folder / "run.log").read_text()[-2000:]
                )
            time.sleep(1.0)

    def scale(self, workers: int, calm_from: float) -> tuple[Times, dict[str, float]]:
        """Run `binshift scale` and observe it; returns the seconds by phase."""
        before = {path.name for path in (self.folder / "cluster").glob("worker-*.log")}
        seen = self.observe()
        last = -1 if seen is None or seen.migration is None else seen.migration.id
        began = time.time()
        command = [sys.executable, "-m", "binshift.cli", "scale", str(workers), "--wait"]
        asking = subprocess.Popen(command, env=self.environment, stdout=subprocess.DEVNULL)
        reached: dict[str, float] = {}
        while asking.poll() is None:
            if {path.name for path in (self.folder / "cluster").glob("worker-*.log")} - before:
                reached.setdefault("start", time.time())
            if (now := self.observe()) is not None:
                for phase in _reached(now, workers, last):
                    reached.setdefault(phase, time.time())
            time.sleep(POLL_SECONDS)
        if asking.returncode:
            raise RuntimeError(f"binshift scale {workers} ended with {asking.returncode}")
        ended = reached.get("flip", time.time())
        return Times(calm_from, began, ended), _durations(began, reached)


def _reached(seen: Dataflow, workers: int, last: int) -> Iterator[str]:
    """The phases that are over in this state; ``last`` is the previous migration."""
    if set(range(workers)) <= set(seen.registered):
        yield "register"
    moving = seen.migration
    if moving is None or moving.id == last:
        return
    if moving.phase not in ("planned", "warming"):
        yield "warm"
    if moving.bins_moved:
        yield "copy"
    if moving.phase == "settled":
        yield "flip"


def _durations(began: float, reached: dict[str, float]) -> dict[str, float]:
    """The duration of each phase, from the end of the previous one."""
    found, at = {}, began
    for phase in PHASES:
        if phase in reached:
            found[phase] = max(0.0, reached[phase] - at)
            at = max(at, reached[phase])
    return found


@contextmanager
def _run(folder: Path, keys: int, args: Namespace) -> Iterator[_Run]:
    """`binshift run` in a separate session; ended by Ctrl-C, as a user would."""
    environment = os.environ | {"XDG_RUNTIME_DIR": str(folder)}
    (folder / "cluster").mkdir()
    program = [str(folder / "checkpoint"), str(folder / "result.json"), str(keys), str(args.rate), str(args.bins)]
    command = [sys.executable, "-m", "binshift.cli", "run", str(HERE / "scaled_program.py"), "--workers", "2"]
    command += ["--directory", str(folder / "cluster"), "--", *program]
    with (folder / "run.log").open("wb") as out:
        process = subprocess.Popen(command, env=environment, stdout=out, stderr=out, start_new_session=True)
    try:
        yield _Run(folder, environment, process)
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(90)


def named(row: Row) -> str:
    """A short name of a row."""
    return f"{row['keys']:,} keys, binshift scale {row['to']}"


if __name__ == "__main__":
    main()
