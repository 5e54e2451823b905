"""What happens to the workers while the stream runs: new processes, rescales, processes ended.

One step for each change in the number of workers. A step grows the cluster by starting processes and requesting the rescale at
once, as an operator does: a user's wait includes the start of a process. It shrinks the cluster by requesting the rescale
first, and ends the processes when they own no bins. A step begins at its time, and not before the previous one has ended.
`advance` is called repeatedly, and waits for nothing but the end of a process.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from binshift.errors import InvalidSettings, MigrationRefused
from binshift.migration import Phase
from binshift.model import Worker

if TYPE_CHECKING:
    from binshift.engine.migrations import Migration
    from binshift.local import LocalCluster
    from binshift.spark.frontend.dataflow import StreamingQuery

CLEARING_SECONDS = 3.0
"""Between the end of a migration and that of the processes it emptied, in which these drop the copies they still have."""


@dataclass
class Step:
    """One change. Times are seconds after the replay began, None before they come.

    Attributes:
        before: workers so far.
        after: workers then.
        begins_at: when it should begin.
        asked_at: when the processes were started and the rescale was requested.
        settled_at: when all bins were in their places, and the sources had dropped their copies.
        bins: that had to move.
    """

    before: int
    after: int
    begins_at: float
    asked_at: float | None = None
    settled_at: float | None = None
    bins: int = 0
    migration: Migration | None = None
    ended: bool = False

    @property
    def name(self) -> str:
        """The step as text."""
        return f"{self.before} → {self.after} workers"

    @property
    def span(self) -> tuple[float, float] | None:
        """From the request until it was settled."""
        return None if self.asked_at is None or self.settled_at is None else (self.asked_at, self.settled_at)


def plan_steps(workers: Sequence[int], seconds: float) -> list[Step]:
    """The changes between numbers of workers, at equal distances within ``seconds``.

    Raises:
        InvalidSettings: a number is not positive, or is followed by itself.

    >>> [(each.name, each.begins_at) for each in plan_steps([2, 4, 3], 90.0)]
    [('2 → 4 workers', 30.0), ('4 → 3 workers', 60.0)]
    """
    pairs = list(itertools.pairwise(workers))
    if not workers or min(workers) < 1 or any(before == after for before, after in pairs):
        raise InvalidSettings(f"workers {list(workers)}: at least one each time, and each time another number")
    return [
        Step(before, after, seconds * number / len(workers)) for number, (before, after) in enumerate(pairs, start=1)
    ]


@dataclass
class Scenario:
    """Carries steps out, one after the other.

    Attributes:
        first: workers at the beginning.
        cluster: whose processes are started and ended.
        query: that is rescaled.
        steps: in their order.
        report: receives a text for each event.
        running: slots that have a process.
    """

    first: int
    cluster: LocalCluster
    query: StreamingQuery
    steps: Sequence[Step]
    report: Callable[[str], None]
    running: set[Worker] = field(init=False)

    def __post_init__(self) -> None:
        self.running = {Worker(slot) for slot in range(self.first)}

    @property
    def wanted(self) -> int:
        """The number of workers requested now."""
        begun = [step.after for step in self.steps if step.asked_at is not None]
        return [self.first, *begun][-1]

    @property
    def current(self) -> Step | None:
        """The step that has begun and not ended."""
        return next((step for step in self.steps if step.asked_at is not None and not step.ended), None)

    @property
    def ended(self) -> bool:
        """Whether all steps are over."""
        return all(step.ended for step in self.steps)

    def advance(self, now: float) -> None:
        """Do what is due.

        Raises:
            MigrationRefused: a migration ended without having settled.
        """
        step = next((step for step in self.steps if not step.ended), None)
        if step is None:
            return
        if step.asked_at is None:
            if now >= step.begins_at:
                self._begin(step, now)
        elif step.settled_at is None:
            self._watch(step, now)
        elif now >= step.settled_at + CLEARING_SECONDS or step.after > step.before:
            self._end(step)

    def _begin(self, step: Step, now: float) -> None:
        for slot in range(step.before, step.after):
            self.cluster.start_worker(Worker(slot))
            self.running.add(Worker(slot))
        step.asked_at = now
        step.migration = self.query.rescale(step.after)
        self.report(f"requested {step.name}")

    def _watch(self, step: Step, now: float) -> None:
        assert step.migration is not None
        assert step.asked_at is not None
        progress = step.migration.progress
        if progress is not None:
            step.bins = progress.bins_total
        if not step.migration.ended:
            return
        if step.migration.phase is not Phase.SETTLED:
            raise MigrationRefused(f"{step.name}: {step.migration.status}: {step.migration.reason}")
        step.settled_at = now
        self.report(f"settled {step.name}: {step.bins} bins moved in {now - step.asked_at:.1f} s")

    def _end(self, step: Step) -> None:
        for slot in range(step.after, step.before):
            self.cluster.stop_worker(Worker(slot))
            self.running.discard(Worker(slot))
            self.report(f"ended the process of worker {slot}")
        step.ended = True
