"""Helpers of the tests that roll executors in a simulated cluster."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from sim_cluster import SimCluster
from sim_runtime import Query

FAST: dict[str, Any] = {"pod": {"nodeSelector": {"disk": "fast"}}}
SLOW: dict[str, Any] = {"pod": {"nodeSelector": {"disk": "slow"}}}
PLACES = 1
"""How many bins a move between two slots may take along: in the simulated route, the share of a slot depends on its place."""


def start_cluster(replicas: int = 3) -> SimCluster:
    """A dataflow that has come up."""
    cluster = SimCluster().start(replicas)
    cluster.converge()
    return cluster


def query(cluster: SimCluster) -> Query:
    """The one query."""
    (found,) = cluster.queries.values()
    return found


def uids(cluster: SimCluster, component: str = "executor") -> set[str]:
    """Of pods."""
    return {pod["metadata"]["uid"] for pod in cluster.pods(component)}


def moved(before: Mapping[int, int], after: Mapping[int, int]) -> int:
    """How many bins came to other workers between two routes."""
    return sum(max(0, count - before.get(worker, 0)) for worker, count in after.items())


def condition(cluster: SimCluster, kind: str) -> dict[str, str]:
    """One of the conditions."""
    return next(each for each in cluster.status["conditions"] if each["type"] == kind)


def run_until(cluster: SimCluster, reached: Callable[[], bool], ticks: int = 80) -> None:
    """Time passes until something holds."""
    for _ in range(ticks):
        if reached():
            return
        cluster.run(1)
    raise AssertionError(f"it was not reached: {cluster.status}")


def assert_never_stopped(cluster: SimCluster, driver: set[str], epoch: int, ticks: float) -> None:
    """The driver's pod is the same, its query was not asked to stop, and every tick had its epoch."""
    assert uids(cluster, "driver") == driver
    assert query(cluster).stop_requests == 0
    assert cluster.log.epoch - epoch >= ticks - 1
