"""A plan of three steps and the short notation of migration tests."""

from __future__ import annotations

from binshift.migration import (
    Action,
    CopyAt,
    CopyFailed,
    EpochRecorded,
    EpochStarting,
    Event,
    Flip,
    Limits,
    MigrationPlan,
    MigrationState,
    Started,
    StepNumber,
    advance,
    begin,
)
from binshift.model import Epoch, Moves, Plan, Step, Worker
from binshift.routing import Route

A, B, C = Worker(0), Worker(1), Worker(2)
ROUTE = Route.initial(8, [A])
"""All bins are on A; the first three move, one by one, to B, B and C."""
PLAN = Plan.of([Step(Moves([0], [A], [B])), Step(Moves([1], [A], [B])), Step(Moves([2], [A], [C]))])
NOW = Epoch(10)
"""The newest recorded epoch when a test begins."""


def made(plan: MigrationPlan | None = None, limits: Limits | None = None, *events: Event) -> MigrationState:
    """A migration after `Started` and ``events``."""
    state = begin(plan or MigrationPlan(PLAN), limits, NOW)
    for event in (Started(), *events):
        state, _ = advance(state, event)
    return state


def apply_events(state: MigrationState, *events: Event) -> tuple[MigrationState, list[Action]]:
    """The state after ``events``, and all actions returned on the way."""
    actions: list[Action] = []
    for event in events:
        state, more = advance(state, event)
        actions += more
    return state, actions


def copied(*steps: int, epoch: int = NOW, attempt: int = 0) -> list[Event]:
    """Reports that the copies of these steps of `PLAN` are at ``epoch``."""
    return [CopyAt(StepNumber(s), C if s == 2 else B, Epoch(epoch), attempt) for s in steps]


def failed(step: int, *, attempt: int = 0, retryable: bool = True) -> CopyFailed:
    """The report that the copy of a step on B failed."""
    return CopyFailed(StepNumber(step), B, "disk full", retryable, attempt)


def run(epoch: int) -> list[Event]:
    """One epoch, from start to record."""
    return [EpochStarting(Epoch(epoch)), EpochRecorded(Epoch(epoch))]


def flips(actions: list[Action]) -> dict[int, list[int]]:
    """The bins that flip in each epoch."""
    return {a.epoch: a.moves.bins.tolist() for a in actions if isinstance(a, Flip)}
