"""A story's clock and its one line: seconds, epochs lost, p99 before and during, wrong rows."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from checkers.pace import pace
from dataflow import Dataflow
from workloads.minimal import VOLUME, Judgement, judge

CALM_SECONDS = 4.0
"""Before the first act: what a story's latency is compared with; about as long as `dataflow.CALM_EPOCHS` take."""


@dataclass
class Story:
    """One story while it runs.

    Attributes:
        name: of the test.
        line: what is to be printed of it.
        pause: the longest time between two commits during its acts, in seconds; set by `judge`.
    """

    name: str
    line: str = ""
    pause: float = 0.0
    _begun: float = field(default_factory=time.time)
    _acts: list[tuple[float, float]] = field(default_factory=list)

    @contextmanager
    def act(self) -> Iterator[None]:
        """What happens in here is what the stream is compared before and during."""
        begun = time.time()
        yield
        self._acts.append((begun, time.time()))

    def judge(self, dataflow: Dataflow, place: str = VOLUME) -> Judgement:
        """Judge what the dataflow has put out, note the line; returns the judgement.

        Args:
            dataflow: the minimal example's.
            place: of its checkpoint and its results, as the watcher sees it.
        """
        judged = judge(dataflow.kube, place)
        begin, end = self._acts[0][0], self._acts[-1][1]
        before = pace(judged.commits, judged.created, begin - CALM_SECONDS, begin)
        during = pace(judged.commits, judged.created, begin, end)
        self.pause = during.pause
        self.line = (
            f"{self.name}: {time.time() - self._begun:.0f} s, epochs lost {during.lost} (before {before.lost}), "
            f"p99 {before.p99:.2f} -> {during.p99:.2f} s, longest pause {during.pause:.1f} s, "
            f"wrong rows {judged.wrong} in {len(judged.commits)} epochs"
        )
        return judged

    def note(self, what: str = "") -> None:
        """The line of a story without a stream."""
        self.line = f"{self.name}: {time.time() - self._begun:.0f} s{what and ', ' + what}"
