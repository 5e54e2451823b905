"""A dataflow with a standby driver: it takes over from an active one that is killed, deleted, or evicted, and every row is right."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from dataflow import Dataflow
from faults import pods
from kube import Kube, until
from stage import Stage
from story import Story

TAKEN_OVER_SECONDS_MAX = 120.0
EXECUTORS = 2
ROOMY = {"requests": {"memory": "2Gi"}, "limits": {"memory": "2Gi"}}
"""As the guide has it: an executor's pod has room for that of the standby."""


@pytest.fixture(scope="module")
def scene(module_scene: Stage) -> Stage:
    return module_scene


@pytest.fixture
def running(scene: Stage) -> Dataflow:
    """The one dataflow of these stories: calm, with a standby that waits."""
    dataflow = scene.apply(driver={"standby": True}, executor={"resources": ROOMY})
    dataflow.await_calm()
    until("a standby with warm executors", 300, lambda: dataflow.drivers.get("warmExecutors") == EXECUTORS)
    return dataflow


def kill_process(kube: Kube, pod: str) -> None:
    """The driver's process ends, and the pod stays."""
    pods.kill_container(kube, pod, "driver")


ENDS: dict[str, Callable[[Kube, str], None]] = {
    "process_killed": kill_process,
    "pod_lost": pods.kill_pod,
    "pod_evicted": pods.evict_pod,
}
"""How the active driver ends."""


@pytest.mark.parametrize("how", ENDS)
def test_standby_driver(scene: Stage, running: Dataflow, story: Story, how: str) -> None:
    """The standby is the active driver at once, the executors' pods stay, every row is right, and the other pod becomes the standby."""
    old, standby = running.drivers["active"], running.drivers["standby"]
    executors = {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in running.pods("executor")}
    epoch = running.epoch
    with story.act():
        ENDS[how](scene.kube, old)
        until("the standby to be active", TAKEN_OVER_SECONDS_MAX, lambda: running.drivers.get("active") == standby)
        until("a new epoch", TAKEN_OVER_SECONDS_MAX, lambda: running.epoch > epoch)
        running.await_epochs(3)
    assert "StandbyActivated" in running.events()
    assert {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in running.pods("executor")} == executors
    until("another standby", 300, lambda: running.drivers.get("standby") == old)
    running.await_condition("Ready")
    judged = story.judge(running)
    assert judged.wrong == 0, judged.examples
