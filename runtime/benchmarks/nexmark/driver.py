"""A driver that is killed: ``python -m nexmark.driver FILE`` runs one query of a running cluster to the end of its events.

The file names the master, Spark conf, the query, its folders, and the workers to move to. The parent process kills the first run and starts
the same command again: the second one continues from the checkpoint, and resumes the move from the log.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from measuring import POLL_SECONDS, await_batch, session

from binshift.local import LocalCluster
from nexmark.config import Config
from nexmark.engines import BENCHMARKS, CONF, RUNTIME, writer
from nexmark.inputs import Inputs
from nexmark.moves import settle
from nexmark.queries import QUERIES
from nexmark.results import Sink

MOVE_AT = 2
KILL_AFTER = 5
"""Batches that the first driver has returned before it is killed: within the move or soon after it."""
RUN_SECONDS_MAX = 400.0


@dataclass(frozen=True)
class Task:
    """One run; all folders as text."""

    master: str
    conf: dict[str, str]
    query: str
    inputs: str
    config: dict[str, int]
    events: int
    steps: int
    results: str
    checkpoint: str
    bins: int
    to: int


def main() -> None:
    """Run the query until it has read everything."""
    task = Task(**json.loads(Path(sys.argv[1]).read_text(encoding="utf-8")))
    spark = session(task.master, CONF | task.conf)
    query = QUERIES[task.query]
    inputs = Inputs(Path(task.inputs), Config(**task.config), task.events, task.steps)
    made = writer(query.build(inputs.stream(spark)), query, task.checkpoint, bins=task.bins, workers=2)
    running: Any = made.foreachBatch(Sink(Path(task.results))).start()
    await_batch(running, MOVE_AT)
    settle(running.rescale(task.to, batch_size=task.bins // 8))
    running.processAllAvailable()
    running.stop()
    spark.stop()


def killed_once(task: Task, folder: Path, cluster: LocalCluster) -> None:
    """Run a task in another process, kill it with SIGKILL, and run it again to the end.

    Raises:
        TimeoutError: a run takes too long.
        RuntimeError: a run fails.
    """
    file = folder / "task.json"
    file.write_text(json.dumps(asdict(task)), encoding="utf-8")
    with (folder / "first.log").open("wb") as log:
        first = _start(file, log)
        try:
            _await_results(Path(task.results), first)
        finally:
            first.kill()
            first.wait()
    with (folder / "second.log").open("wb") as log:
        second = _start(file, log)
        try:
            status = second.wait(RUN_SECONDS_MAX)
        finally:
            second.kill()
            second.wait()
    if status:
        raise RuntimeError(f"the second driver ended with {status}: {(folder / 'second.log').read_text()[-500:]}")


def _start(file: Path, log: Any) -> subprocess.Popen[bytes]:
    environment = os.environ | {"PYTHONPATH": f"{BENCHMARKS}:{RUNTIME}"}
    command = [sys.executable, "-m", "nexmark.driver", str(file)]
    return subprocess.Popen(command, env=environment, stdout=log, stderr=log)


def _await_results(results: Path, process: subprocess.Popen[bytes]) -> None:
    until = time.monotonic() + RUN_SECONDS_MAX
    while len(list(results.glob("*.parquet"))) < KILL_AFTER:
        if process.poll() is not None:
            raise RuntimeError(f"the first driver ended with {process.returncode} before it was to be killed")
        if time.monotonic() > until:
            raise TimeoutError(f"the first driver has not returned {KILL_AFTER} batches within {RUN_SECONDS_MAX:.0f} s")
        time.sleep(POLL_SECONDS)


if __name__ == "__main__":
    main()
