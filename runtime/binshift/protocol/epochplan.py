"""What one epoch will do, the same in each of its runs; and what its tasks must have said before it exists."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from binshift.errors import EpochFailed
from binshift.invariants import invariant
from binshift.log.records import CommitRecord
from binshift.model import Epoch, Moves, Worker
from binshift.protocol.spec import Summary
from binshift.routing import Route


@dataclass(frozen=True)
class OperatorTime:
    """How an operator's watermark follows the events.

    Attributes:
        operator: its name.
        delay_ms: how far the watermark stays behind the latest event; None without a watermark.
    """

    operator: str
    delay_ms: int | None = None


@dataclass(frozen=True)
class EpochPlan:
    """What one epoch will do, the same in each of its runs.

    Attributes:
        epoch: the micro-batch's id.
        route: who owns which bin in it.
        before: the route of the epoch before; None for the first.
        workers: all workers that take part, also those without bins; position = partition.
        moves: the control updates that take effect in it.
        batch_time_ms: logical processing time.
        offsets_hash: of its input.
        watermarks: at its start, by operator.
        previous_watermarks: at the start of the epoch before.
        replay: its record, if it exists already.
    """

    epoch: Epoch
    route: Route
    before: Route | None
    workers: tuple[Worker, ...]
    moves: Moves
    batch_time_ms: int
    offsets_hash: str
    watermarks: Mapping[str, int | None]
    previous_watermarks: Mapping[str, int | None]
    replay: CommitRecord | None = None


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


def next_watermarks(
    plan: EpochPlan, operators: Sequence[OperatorTime], summaries: Sequence[Summary]
) -> dict[str, int | None]:
    """Watermarks after the epoch, by Spark's rule: the latest event time seen, less the delay; never backwards."""
    watermarks: dict[str, int | None] = {}
    for each in operators:
        now = plan.watermarks[each.operator]
        times = [
            s.event_time_max_ms for s in summaries if s.operator == each.operator and s.event_time_max_ms is not None
        ]
        if each.delay_ms is not None and times:
            candidate = max(times) - each.delay_ms
            now = candidate if now is None else max(now, candidate)
        watermarks[each.operator] = now
    return watermarks
