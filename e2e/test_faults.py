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


def kill_new_executor(scene: Stage, dataflow: Dataflow) -> None:
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
    *(kill_operator, kill_old_executor, kill_new_executor, kill_driver),
    *(kill_driver_container, kill_master_container, evict_executor),
]


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
def test_fault_while_moving(scene: Stage, told: Story, fault: Callable[[Stage, Dataflow], None]) -> None:
    """Whatever is killed in the middle of 2 to 4, the dataflow ends with four executors that share the bins."""
    dataflow = scene.apply(migration=SMALL_STEPS)
    dataflow.await_condition("Ready")
    dataflow.await_settled()
    dataflow.await_epochs(8)
    with told.act():
        dataflow.scale(4)
        dataflow.await_moving()
        fault(scene, dataflow)
        dataflow.await_settled()
        dataflow.await_epochs(3)
    dataflow.await_condition("Ready")
    judged = told.tell(dataflow)
    assert judged.wrong == 0, judged.examples
    assert sorted(dataflow.bins()) == ["0", "1", "2", "3"]


def test_executor_killed_over_and_over(scene: Stage, told: Story) -> None:
    """Twelve executors killed in a row, now and then two at a time: no row is lost or counted twice."""
    dataflow = scene.apply(replicas=3)
    dataflow.await_condition("Ready")
    dataflow.await_settled()
    dataflow.await_epochs(8)
    with told.act():
        for number in range(8):
            pods.kill_pod(scene.kube, dataflow.executor(number % 3))
            if number % 2:
                pods.kill_pod(scene.kube, dataflow.executor((number + 1) % 3))
            dataflow.await_epochs(2, seconds=120)
        dataflow.await_condition("Ready")
    judged = told.tell(dataflow)
    assert judged.wrong == 0, judged.examples
