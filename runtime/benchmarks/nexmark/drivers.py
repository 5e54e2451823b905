"""A killed driver: the process that runs some queries is ended by SIGKILL in the middle of them, and they start again."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from binshift.hosting.processes import ChildProcess
from binshift.local import LocalCluster
from nexmark.correct import Checked, Places
from nexmark.engines import BENCHMARKS, RUNTIME, SHORT
from nexmark.inputs import Inputs
from nexmark.life import SYSTEM, Spec
from nexmark.moves import OUT, Proof
from nexmark.query import Query

LIFE_SECONDS_MAX = 600.0
POLL_SECONDS = 0.05
LOG_LETTERS_MAX = 600
GROUP = 9
"""Queries that one process runs."""
SLOTS = 3
"""Task slots of an executor for each query."""
MEMORY = "1g"


@dataclass(frozen=True)
class Drivers:
    """Kills drivers on a cluster of its own.

    Attributes:
        folder: for the cluster and reports.
        inputs: the events.
        places: of rows and checkpoints.
        bins: of each query.
    """

    folder: Path
    inputs: Inputs
    places: Places
    bins: int

    def run(self, queries: Sequence[Query]) -> Iterator[Checked]:
        """Run all queries, in groups; each has rows and a checkpoint afterwards."""
        names = [query.name for query in queries]
        with LocalCluster(self.folder / "cluster", OUT, SLOTS * min(GROUP, len(names)), MEMORY) as cluster:
            for first in range(0, len(names), GROUP):
                began, group = time.monotonic(), names[first : first + GROUP]
                found = self._killed(cluster, group)
                seconds = (time.monotonic() - began) / len(group)
                for name in group:
                    yield Checked(name, SYSTEM, list(found[name].problems), seconds=seconds, proof=found[name])

    def _killed(self, cluster: LocalCluster, names: Sequence[str]) -> Mapping[str, Proof]:
        reports = self.folder / "reports" / names[0]
        reports.mkdir(parents=True)
        first = self._life(cluster, names, reports, first=True)
        _await(first, lambda: all(_any(reports, name, "held", "failed") for name in names))
        first.end_tree(signal.SIGKILL)
        second = self._life(cluster, names, reports, first=False)
        _await(second, lambda: second.status is not None)
        second.end_tree(signal.SIGKILL)
        log = (reports / "log").read_text(encoding="utf-8", errors="replace")[-LOG_LETTERS_MAX:]
        return {name: _proof(reports, name, self.inputs.steps, log) for name in names}

    def _life(self, cluster: LocalCluster, names: Sequence[str], reports: Path, *, first: bool) -> ChildProcess:
        spec = Spec(
            cluster.url,
            cluster.conf() | SHORT,
            asdict(self.inputs.config),
            str(self.inputs.folder),
            self.inputs.events,
            self.inputs.steps,
            str(self.places.folder),
            str(reports),
            tuple(names),
            self.bins,
            first,
        )
        path = reports / "spec.json"
        path.write_text(json.dumps(asdict(spec)), encoding="utf-8")
        environment = os.environ | {"PYTHONPATH": f"{BENCHMARKS}:{RUNTIME}"}
        with (reports / "log").open("ab") as log:
            return ChildProcess([sys.executable, "-m", "nexmark.life", str(path)], environment, output=log)


def _any(reports: Path, name: str, *suffixes: str) -> bool:
    return any((reports / f"{name}.{suffix}").exists() for suffix in suffixes)


def _await(process: ChildProcess, wanted: Any) -> None:
    """Wait for something that a process does, or for its end; the proof finds what is missing."""
    deadline = time.monotonic() + LIFE_SECONDS_MAX
    while not wanted() and process.status is None and time.monotonic() < deadline:
        time.sleep(POLL_SECONDS)


def _proof(reports: Path, name: str, steps: int, log: str) -> Proof:
    """What the two lives of a query prove."""
    if (failed := reports / f"{name}.failed").exists():
        return Proof(problems=[failed.read_text(encoding="utf-8")])
    lives = [reports / f"{name}.held", reports / f"{name}.ended"]
    if missing := [each.name for each in lives if not each.exists()]:
        return Proof(problems=[f"there is no {', '.join(missing)}; the log of the process ends: {log}"])
    first, second = (json.loads(each.read_text(encoding="utf-8")) for each in lives)
    return proof_of(first, second, steps)


def proof_of(first: Mapping[str, Any], second: Mapping[str, Any], steps: int) -> Proof:
    """What two reports of `life` prove: batches with rows before and after the kill, which came during a move.

    >>> before = {"epochs": [[0, 9, 0], [1, 9, 2]], "workers": [0, 1, 2], "settled": False, "pid": 1}
    >>> after = {"epochs": [[2, 9, 2], [3, 0, 0]], "workers": [0, 1, 2, 3], "settled": True, "pid": 2}
    >>> proof_of(before, after, 3)
    Proof(moved=4, meanwhile=1, problems=[])
    """
    lives = [[each for each in life["epochs"] if each[0] < steps and each[1]] for life in (first, second)]
    found = Proof(sum(moved for life in lives for _, _, moved in life), len(lives[1]))
    if first["settled"] or not any(moved for _, _, moved in first["epochs"]):
        found.problems.append(f"no move was under way when the driver was killed: {first}")
    if first["pid"] == second["pid"] or not all(lives):
        found.problems.append(f"batches with rows before and after the kill: {len(lives[0])} and {len(lives[1])}")
    if len(second["workers"]) != OUT:
        found.problems.append(f"the move did not continue after the kill: workers are {second['workers']}")
    return found
