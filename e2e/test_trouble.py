"""What a user sees when something is wrong that needs manual action; the stream, if there is one, continues."""

from __future__ import annotations

import pytest

from dataflow import KIND
from stage import Stage
from story import Story

SEEN_SECONDS_MAX = 150.0
UNPLACED_SECONDS_MAX = SEEN_SECONDS_MAX + 180.0
"""A pod that has no node is reported after operator.limits.unplacedSeconds."""


def test_image_that_is_not_there(scene: Stage, story: Story) -> None:
    """Degraded has the reason and the image's name; the correct image repairs it."""
    dataflow = scene.apply(image="localhost/no-such-image:1", imagePullPolicy="Never")
    degraded = dataflow.await_condition("Degraded", reason="ImagePull", seconds=SEEN_SECONDS_MAX)
    assert "localhost/no-such-image:1" in degraded["message"]
    dataflow.edit(image="localhost/binshift-minimal:dev")
    dataflow.await_condition("Ready")
    dataflow.await_condition("Degraded", "False")
    story.note()


def too_large_for_three(scene: Stage) -> str:
    """Memory of which a node of this cluster has room for two pods, in addition to the driver, but not for three."""
    nodes = scene.kube.list("nodes")
    if len(nodes) > 1:
        pytest.skip("the sum is done for one node")
    kib = int(nodes[0]["status"]["allocatable"]["memory"].removesuffix("Ki"))
    return f"{kib * 38 // 100 // 1024}Mi"


def test_executors_that_do_not_fit(scene: Stage, story: Story) -> None:
    """Where the node has no room for more executors, Degraded has the scheduler's message, and the stream continues."""
    memory = too_large_for_three(scene)
    resources = {"requests": {"cpu": "100m", "memory": memory}, "limits": {"memory": memory}}
    dataflow = scene.apply(executor={"resources": resources}, sparkConf={"spark.executor.memory": "600m"})
    dataflow.await_condition("Ready")
    dataflow.await_settled()
    dataflow.await_epochs(5)
    with story.act():
        dataflow.scale(3)
        degraded = dataflow.await_condition("Degraded", reason="Unschedulable", seconds=UNPLACED_SECONDS_MAX)
        assert "Insufficient memory" in degraded["message"]
        dataflow.await_epochs(5)
        dataflow.scale(2)
        dataflow.await_condition("Degraded", "False")
        dataflow.await_settled()
    judged = story.judge(dataflow)
    assert judged.wrong == 0, judged.examples


def test_program_that_fails(scene: Stage, story: Story) -> None:
    """The end of the program's output is in the condition, and `kubectl describe` shows it."""
    dataflow = scene.apply(application={"args": ["/checkpoint/results", "--keys", "none"]})
    degraded = dataflow.await_condition("Degraded", reason="ProgramFailed", seconds=SEEN_SECONDS_MAX)
    assert "--keys" in degraded["message"]
    assert "ProgramFailed" in scene.kube("describe", KIND, dataflow.name)
    story.note()
