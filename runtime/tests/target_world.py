"""A simulated cluster to control, and functions to inspect it."""

from __future__ import annotations

import random

from binshift.engine.target_controller import TargetController
from binshift.model import Worker
from simulator import Row, SimulatedCluster, Totals, Tuning

UID = "7d3c"


def rows(number: int) -> list[Row]:
    """A dozen rows, the same for every call with a number."""
    rng = random.Random(number)
    return [{"key": f"k{rng.randrange(40)}", "value": rng.randrange(9), "time": 0} for _ in range(12)]


def begun() -> SimulatedCluster:
    """Two workers with bins, four machines, three epochs of state."""
    made = SimulatedCluster({"totals": Totals()}, bins=8, workers=2, slots=4, tuning=Tuning(take_over=True))
    for number in range(3):
        made.epoch(rows(number))
        made.background()
    return made


def targets(cluster: SimulatedCluster) -> TargetController:
    """The current target controller."""
    return cluster.driver.targets


def workers(cluster: SimulatedCluster) -> list[int]:
    """The workers that own bins."""
    assert cluster.route is not None
    return list(cluster.route.workers)


def slots(*numbers: int) -> tuple[Worker, ...]:
    """Workers by number."""
    return tuple(map(Worker, numbers))
