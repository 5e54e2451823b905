"""What a person sees when something is wrong that only a person can put right; and that the stream, where there is one, goes on."""

from __future__ import annotations

import pytest

from dataflow import KIND
from stage import Stage
from story import Story

SEEN_SECONDS_MAX = 150.0
UNPLACED_SECONDS_MAX = SEEN_SECONDS_MAX + 180.0
"""A pod that has no node is reported after operator.limits.unplacedSeconds."""


def test_image_that_is_not_there(scene: Stage, told: Story) -> None:
    """Degraded says so, with the image's name; the right image puts it right."""
    dataflow = scene.apply(image="localhost/no-such-image:1", imagePullPolicy="Never")
    said = dataflow.await_condition("Degraded", reason="ImagePull", seconds=SEEN_SECONDS_MAX)
    assert "localhost/no-such-image:1" in said["message"]
    dataflow.edit(image="localhost/binshift-minimal:dev")
    dataflow.await_condition("Ready")
    dataflow.await_condition("Degraded", "False")
    told.note()


def too_large_for_three(scene: Stage) -> str:
    """Memory of which a node of this cluster has room for two pods, beside the driver, but not for three."""
    nodes = scene.kube.list("nodes")
    if len(nodes) > 1:
        pytest.skip("the sum is done for one node")
    kib = int(nodes[0]["status"]["allocatable"]["memory"].removesuffix("Ki"))
    return f"{kib * 38 // 100 // 1024}Mi"


def test_executors_that_do_not_fit(scene: Stage, told: Story) -> None:
    """Where the node has no room for more executors, Degraded says what the scheduler said, and the stream goes on."""
    memory = too_large_for_three(scene)
    resources = {"requests": {"cpu": "100m", "memory": memory}, "limits": {"memory": memory}}
    dataflow = scene.apply(executor={"resources": resources}, sparkConf={"spark.executor.memory": "600m"})
    dataflow.await_condition("Ready")
    dataflow.await_settled()
    dataflow.await_epochs(5)
    with told.act():
        dataflow.scale(3)
        said = dataflow.await_condition("Degraded", reason="Unschedulable", seconds=UNPLACED_SECONDS_MAX)
        assert "Insufficient memory" in said["message"]
        dataflow.await_epochs(5)
        dataflow.scale(2)
        dataflow.await_condition("Degraded", "False")
        dataflow.await_settled()
    judged = told.tell(dataflow)
    assert judged.wrong == 0, judged.examples


def test_program_that_fails(scene: Stage, told: Story) -> None:
    """The end of what the program said is in the condition, and `kubectl describe` shows it."""
    dataflow = scene.apply(application={"args": ["/checkpoint/results", "--keys", "none"]})
    said = dataflow.await_condition("Degraded", reason="ProgramFailed", seconds=SEEN_SECONDS_MAX)
    assert "--keys" in said["message"]
    assert "ProgramFailed" in scene.kube("describe", KIND, dataflow.name)
    told.note()
