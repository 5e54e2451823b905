"""A dataflow's life, in turn: waited for, its operator upgraded and taken away beneath it, suspended and resumed, made again."""

from __future__ import annotations

import pytest

import stage as stages
from clusters import ROOT
from dataflow import KIND, Dataflow
from kube import until
from stage import Stage
from story import Story
from workloads.minimal import NAME

UPGRADED = ROOT / "e2e" / "workloads" / "upgraded"


@pytest.fixture(scope="module")
def scene(module_scene: Stage) -> Stage:
    return module_scene


def test_kubectl_wait_returns(scene: Stage, story: Story) -> None:
    """`kubectl wait` returns for Ready, and for a settled scale, when they are so and not before."""
    dataflow = scene.apply()
    scene.kube("wait", "--for=condition=Ready", f"{KIND}/{NAME}", "--timeout=300s", seconds=310)
    dataflow.await_epochs(1)
    dataflow.scale(3)
    generation = dataflow.object["metadata"]["generation"]
    settled = f"--for=jsonpath={{.status.settledGeneration}}={generation}"
    scene.kube("wait", settled, f"{KIND}/{NAME}", "--timeout=300s", seconds=310)
    assert sorted(dataflow.bins()) == ["0", "1", "2"]
    story.note()


def test_operator_upgrade_touches_no_pod(scene: Stage, running: Dataflow, story: Story) -> None:
    """An operator whose pod templates differ replaces the old one: every pod of the dataflow stays, and so does the stream."""
    before = running.pod_uids()
    repository, _, tag = stages.UPGRADED_IMAGE.rpartition(":")
    scene.cluster.image(stages.UPGRADED_IMAGE, UPGRADED)
    try:
        with story.act():
            stages.install(scene.system, {"image.repository": repository, "image.tag": tag})
            running.await_epochs(15)
    finally:
        stages.install(scene.system)
    running.await_epochs(3)
    assert running.pod_uids() == before
    judged = story.judge(running)
    assert judged.wrong == 0, judged.examples


def test_uninstalled_operator_leaves_the_stream(scene: Stage, running: Dataflow, story: Story) -> None:
    """Without the operator the dataflow continues; after a new install the operator resumes its work."""
    before, replicas = running.pod_uids(), running.object["spec"]["replicas"]
    with story.act():
        scene.system.helm("uninstall", stages.RELEASE, "--wait")
        try:
            running.await_epochs(5)
            running.scale(replicas + 1)
        finally:
            stages.install(scene.system)
        running.await_settled()
    assert before.items() <= running.pod_uids().items()
    judged = story.judge(running)
    assert judged.wrong == 0, judged.examples
    assert len(running.bins()) == replicas + 1


def test_suspend_and_resume(scene: Stage, running: Dataflow, story: Story) -> None:
    """A suspended dataflow has no pods; a resumed one continues from the checkpoint, and every row is right."""
    with story.act():
        running.edit(suspend=True)
        until("no pods", 150, lambda: not running.pods())
        running.await_condition("Ready", "False")
        running.edit(suspend=False)
        running.await_condition("Ready")
        running.await_epochs(3)
    judged = story.judge(running)
    assert judged.wrong == 0, judged.examples


def test_delete_and_make_again(scene: Stage, running: Dataflow, story: Story) -> None:
    """Deleting ends the pods and leaves the checkpoint; the manifest, applied again with other replicas, continues from it."""
    with story.act():
        epoch = running.epoch
        scene.kube.delete(KIND, NAME)
        until("no pods", 150, lambda: not running.pods())
        again = scene.apply(replicas=1)
        again.await_condition("Ready")
        again.await_settled()
        again.await_epochs(3)
    assert again.epoch > epoch
    judged = story.judge(again)
    assert judged.wrong == 0, judged.examples
    assert sorted(again.bins()) == ["0"]
