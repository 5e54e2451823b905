"""One short fixed history in which a fault can be injected at any effect.

Ten epochs with a rescale from two workers to three in the middle; manifests, snapshots and collections are as frequent
as possible. `fixed` runs it under a plan of faults; `places` lists its effects.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping

from oracle_flows import chain, rows_for

from binshift.errors import Fenced, Retryable
from binshift.log.tools.verification import verify
from binshift.model import Worker
from binshift.store.engine.contract import StoreLimits
from simulator import Effect, Fault, Faults, Flow, Killed, Meanwhile, Plan, Row, SimulatedCluster, Tuning
from simulator.graph import Graph

EPOCHS = 8
RESCALE_AT = 3
TUNING = Tuning(
    snapshot_cycle_epochs=1,
    manifest_every_epochs=2,
    collect_every_epochs=1,
    grace_seconds=1.0,
    stores=StoreLimits(lock_seconds_max=0.05),
)


def fixed(
    plan: Plan | None = None,
    flow: Flow | Mapping[str, Flow] | Graph | None = None,
    meanwhile: Callable[[SimulatedCluster], None] | None = None,
    deterministic: bool = True,
    rows: Callable[[random.Random, int], list[Row]] = lambda rng, number: rows_for(rng, number, 8, 8),
) -> SimulatedCluster:
    """Run it with the faults of ``plan``, and ``rows`` as input; for the fault `STAND_STILL`, ``meanwhile`` runs."""
    faults = Faults()
    cluster = SimulatedCluster(
        flow or chain(), bins=8, workers=2, slots=3, tuning=TUNING, faults=faults, deterministic=deterministic
    )

    def planned(effect: Effect) -> Fault | Meanwhile | None:
        fault = plan(effect) if plan else None
        return (lambda: meanwhile(cluster)) if fault is STAND_STILL and meanwhile else fault

    faults.plan = planned
    try:
        _play(cluster, rows)
    except BaseException as error:
        error.add_note("\n".join(["faults:", *faults.struck, "the last effects:", *list(faults.trace)[-15:]]))
        raise
    return cluster


def STAND_STILL() -> None:  # noqa: N802 (a constant of the type `Meanwhile`)
    """Represents the call that runs while the process is suspended."""


def _play(cluster: SimulatedCluster, rows: Callable[[random.Random, int], list[Row]]) -> None:
    rng = random.Random(5)
    for number in range(EPOCHS):
        cluster.epoch(rows(rng, number))
        if number == RESCALE_AT:
            _request(cluster)
        cluster.background()
    cluster.settle()
    cluster.epoch(rows(rng, EPOCHS))
    assert cluster.route is not None
    assert cluster.route.workers == (Worker(0), Worker(1), Worker(2))
    cluster.witness.rebuild()
    assert verify(cluster.world.files) == []


def _request(cluster: SimulatedCluster) -> None:
    """Request until it succeeds, as a user who wants more workers does."""
    for _ in range(5):
        try:
            cluster.rescale(3, "Optimized", batch_size=1, pre_copy=True)
        except (Fenced, Killed, Retryable):
            continue
        return
    raise AssertionError("five requests failed")


def places() -> list[Effect]:
    """Every effect of the undisturbed history, in order."""
    seen: list[Effect] = []

    def note(effect: Effect) -> None:
        seen.append(effect)

    fixed(note)
    return seen


def place(who: str, what: str, occurrence: int, fault: Fault | Meanwhile) -> Plan:
    """The plan with this fault at the given occurrence of an effect with this prefix."""
    seen = 0

    def plan(effect: Effect) -> Fault | Meanwhile | None:
        nonlocal seen
        seen += effect.process.name.startswith(who) and effect.what.startswith(what)
        if seen < occurrence:
            return None
        seen = -1_000_000
        return fault

    return plan
