"""Whom a story of a moving dataflow kills, by name."""

from __future__ import annotations

from dataflow import Dataflow
from faults import pods
from stage import Stage


def kill_operator(scene: Stage, dataflow: Dataflow) -> None:
    """All of its pods."""
    for pod in scene.system.list("pods", "app.kubernetes.io/name=binshift"):
        pods.kill_pod(scene.system, pod["metadata"]["name"])


def kill_old_executor(scene: Stage, dataflow: Dataflow) -> None:
    """One that has bins from the beginning."""
    pods.kill_pod(scene.kube, dataflow.executor(0))


def kill_executor_that_comes_or_goes(scene: Stage, dataflow: Dataflow) -> None:
    """One that is given bins, or gives them away."""
    pods.kill_pod(scene.kube, dataflow.executor(2))


def kill_driver(scene: Stage, dataflow: Dataflow) -> None:
    """Its pod."""
    pods.kill_pod(scene.kube, dataflow.driver)


def kill_driver_container(scene: Stage, dataflow: Dataflow) -> None:
    """The driver's container, not the master's in the same pod."""
    pods.kill_container(scene.kube, dataflow.driver, "driver")


def kill_master_container(scene: Stage, dataflow: Dataflow) -> None:
    """The master's container, not the driver's in the same pod."""
    pods.kill_container(scene.kube, dataflow.driver, "master")


def evict_executor(scene: Stage, dataflow: Dataflow) -> None:
    """Through the eviction API, as when a node is drained."""
    pods.evict_pod(scene.kube, dataflow.executor(1))


FAULTS = [
    *(kill_operator, kill_old_executor, kill_executor_that_comes_or_goes, kill_driver),
    *(kill_driver_container, kill_master_container, evict_executor),
]
