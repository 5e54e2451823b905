"""Something is killed while bins move; the stream goes on, the rescale comes to its end, and every row is right."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from dataflow import Dataflow
from faults import pods
from stage import Stage
from story import Story

SMALL_STEPS = {"batchSize": 16}
"""So that a migration takes a while, and can be met in its middle."""


def kill_operator(scene: Stage, dataflow: Dataflow) -> None:
    for pod in scene.system.list("pods", "app.kubernetes.io/name=binshift"):
        pods.kill_pod(scene.system, pod["metadata"]["name"])


def kill_old_executor(scene: Stage, dataflow: Dataflow) -> None:
    pods.kill_pod(scene.kube, dataflow.executor(0))


def kill_executor_that_comes_or_goes(scene: Stage, dataflow: Dataflow) -> None:
    pods.kill_pod(scene.kube, dataflow.executor(3))


def kill_driver(scene: Stage, dataflow: Dataflow) -> None:
    pods.kill_pod(scene.kube, dataflow.driver)


def kill_driver_container(scene: Stage, dataflow: Dataflow) -> None:
    pods.kill_container(scene.kube, dataflow.driver, "driver")


def kill_master_container(scene: Stage, dataflow: Dataflow) -> None:
    pods.kill_container(scene.kube, dataflow.driver, "master")


def evict_executor(scene: Stage, dataflow: Dataflow) -> None:
    pods.evict_pod(scene.kube, dataflow.executor(1))


FAULTS = [
    *(kill_operator, kill_old_executor, kill_executor_that_comes_or_goes, kill_driver),
    *(kill_driver_container, kill_master_container, evict_executor),
]


@pytest.fixture(scope="module")
def scene(module_scene: Stage) -> Stage:
    return module_scene


@pytest.fixture(scope="module")
def running(scene: Stage) -> Dataflow:
    """One dataflow, to which everything happens in turn."""
    dataflow = scene.apply(bins=512, migration=SMALL_STEPS)
    dataflow.await_condition("Ready")
    return dataflow


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
def test_moving_and(scene: Stage, running: Dataflow, told: Story, fault: Callable[[Stage, Dataflow], None]) -> None:
    """Whatever is killed while bins move between two and four executors, the rescale comes to its end, and all is right."""
    running.await_calm()
    replicas = 2 if running.object["spec"]["replicas"] == 4 else 4
    with told.act():
        running.scale(replicas)
        running.await_moving()
        fault(scene, running)
        running.await_settled()
        running.await_epochs(3)
    running.await_condition("Ready")
    judged = told.tell(running)
    assert judged.wrong == 0, judged.examples
    assert sorted(running.bins()) == [str(slot) for slot in range(replicas)]


def test_executor_killed_over_and_over(scene: Stage, running: Dataflow, told: Story) -> None:
    """Twelve executors killed in a row, now and then two at a time: no row is lost or counted twice."""
    running.await_calm()
    with told.act():
        for number in range(8):
            pods.kill_pod(scene.kube, running.executor(number % 2))
            if number % 2:
                pods.kill_pod(scene.kube, running.executor((number + 1) % 2))
            running.await_epochs(2, seconds=120)
        running.await_condition("Ready")
    judged = told.tell(running)
    assert judged.wrong == 0, judged.examples
