"""The plan of one epoch, the same in each of its runs; and the task reports that it requires before it exists."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from binshift.errors import EpochFailed
from binshift.invariants import invariant
from binshift.log.records.commits import CommitRecord
from binshift.model import Epoch, Moves, Worker
from binshift.routing import Route
from binshift.worker.messages import EpochSpec, Summary


@dataclass(frozen=True, slots=True)
class BatchOffsets:
    """One batch as Spark recorded it.

    Attributes:
        batch_time_ms: Spark's batch timestamp, milliseconds since 1970.
        watermark_ms: the query's watermark in this batch, milliseconds since 1970; 0 before the first.
        digest: hash of the sources' end offsets.
        keeps_time: it has no input, and the user's session does not have such batches: nothing becomes due in it.
    """

    batch_time_ms: int
    watermark_ms: int
    digest: str
    keeps_time: bool = False

    def behind(self, record: CommitRecord) -> BatchOffsets:
        """At the time that counts, behind the epoch of ``record``."""
        if not self.keeps_time:
            return self
        return replace(self, batch_time_ms=record.batch_time_ms, watermark_ms=record.watermark_ms)


@dataclass(frozen=True, slots=True)
class RunTasks:
    """The tasks of one run of an epoch.

    Attributes:
        specs: one a task, in the order of the plan's workers, operator by operator.
        warm: workers whose executors have run a task of the query.
        cold: workers that are expected and have run none.
    """

    specs: tuple[EpochSpec, ...]
    warm: frozenset[Worker]
    cold: frozenset[Worker]


@dataclass(frozen=True, slots=True)
class Finished:
    """What follows from a recorded epoch.

    Attributes:
        moving: whether a migration is under way.
        wake_at_ms: when an epoch is due even without input, milliseconds since 1970; None: never.
    """

    moving: bool
    wake_at_ms: int | None


@dataclass(frozen=True)
class EpochPlan:
    """What one epoch will do, the same in each of its runs.

    Attributes:
        epoch: the micro-batch's id.
        route: who owns which bin in it.
        before: the route of the epoch before; None for the first.
        workers: all workers that take part, also those without bins; position = partition.
        moves: the control updates that take effect in it.
        batch: its input, with its logical time and watermark.
        previous_watermark_ms: that of the epoch before; 0 in the first.
        of_run: makes the tasks of a run; see `tasks`.
        replay: its record, if it exists already.
        moving: whether a migration was under way when it was planned.
        absent: in a replay, lost workers: others run their part, for its output alone.
    """

    epoch: Epoch
    route: Route
    before: Route | None
    workers: tuple[Worker, ...]
    moves: Moves
    batch: BatchOffsets
    previous_watermark_ms: int
    of_run: Callable[[EpochPlan, int, frozenset[Worker]], RunTasks] = field(repr=False, compare=False)
    replay: CommitRecord | None = None
    absent: frozenset[Worker] = frozenset()
    moving: bool = False

    @classmethod
    def again(
        cls,
        record: CommitRecord,
        route: Route,
        before: Route | None,
        previous_watermark_ms: int,
        of_run: Callable[[EpochPlan, int, frozenset[Worker]], RunTasks],
        *,
        moving: bool,
    ) -> EpochPlan:
        """The plan of a recorded epoch that the stream repeats."""
        moves = Moves([], [], []) if before is None else before.moves_to(route.owners)
        batch = BatchOffsets(record.batch_time_ms, record.watermark_ms, record.offsets_hash)
        workers = tuple(Worker(w) for w in record.workers)
        epoch, earlier = Epoch(record.epoch), previous_watermark_ms
        return cls(epoch, route, before, workers, moves, batch, earlier, of_run, record, moving=moving)

    def tasks(self, run: int, bring_up: frozenset[Worker]) -> RunTasks:
        """The tasks of one run.

        Args:
            run: 0 for the first run of this epoch by this driver.
            bring_up: workers whose stores may be empty or elsewhere: they get the files of all their bins.
        """
        return self.of_run(self, run, bring_up)

    @property
    def needed(self) -> tuple[Worker, ...]:
        """The workers whose own executors must be registered."""
        return tuple(worker for worker in self.workers if worker not in self.absent)


def one_each(plan: EpochPlan, operators: Sequence[str], summaries: Sequence[Summary]) -> list[Summary]:
    """Exactly one summary of one run for each operator and worker, in order (architecture 4.4)."""
    found: dict[tuple[str, Worker], Summary] = {}
    for summary in summaries:
        invariant(summary.fence.epoch == plan.epoch, "a summary of another epoch")
        held = found.setdefault((summary.operator, summary.worker), summary)
        if held.stamp != summary.stamp:
            raise EpochFailed(
                f"worker {summary.worker} reported epoch {plan.epoch} twice: {held.stamp}, {summary.stamp}"
            )
    wanted = [(operator, worker) for operator in operators for worker in plan.workers]
    missing = [each for each in wanted if each not in found]
    if missing or len(found) != len(wanted):
        raise EpochFailed(
            f"epoch {plan.epoch} ended without the summaries of (operator, worker) {missing or sorted(set(found) - set(wanted))}: "
            "did the sink take every row?"
        )
    return [found[each] for each in wanted]
