"""A dataflow's life: waited for, suspended and resumed, deleted and made again, its operator upgraded beneath it."""

from __future__ import annotations

import stage as stages
from clusters import ROOT
from dataflow import KIND
from kube import until
from stage import Stage
from story import Story

UPGRADED = ROOT / "e2e" / "workloads" / "upgraded"


def test_kubectl_wait_returns(scene: Stage, told: Story) -> None:
    """`kubectl wait` returns for Ready, and for a settled scale, when they are so and not before."""
    dataflow = scene.apply()
    scene.kube("wait", "--for=condition=Ready", f"{KIND}/{dataflow.name}", "--timeout=180s", seconds=200)
    assert dataflow.epoch >= 0
    dataflow.scale(3)
    generation = dataflow.object["metadata"]["generation"]
    settled = f"--for=jsonpath={{.status.settledGeneration}}={generation}"
    scene.kube("wait", settled, f"{KIND}/{dataflow.name}", "--timeout=180s", seconds=200)
    assert sorted(dataflow.bins()) == ["0", "1", "2"]
    told.note()


def test_suspend_and_resume(scene: Stage, told: Story) -> None:
    """A suspended dataflow has no pods; a resumed one goes on from the checkpoint, and every row is right."""
    dataflow = scene.apply()
    dataflow.await_condition("Ready")
    dataflow.await_epochs(8)
    with told.act():
        dataflow.edit(suspend=True)
        until("no pods", 120, lambda: not dataflow.pods())
        dataflow.await_condition("Ready", "False")
        dataflow.edit(suspend=False)
        dataflow.await_condition("Ready")
        dataflow.await_epochs(3)
    judged = told.tell(dataflow)
    assert judged.wrong == 0, judged.examples


def test_delete_and_make_again(scene: Stage, told: Story) -> None:
    """Deleting ends the pods and leaves the checkpoint; the same manifest, applied again with more executors, goes on from it."""
    dataflow = scene.apply()
    dataflow.await_condition("Ready")
    dataflow.await_epochs(8)
    with told.act():
        epoch = dataflow.epoch
        scene.kube.delete(KIND, dataflow.name)
        until("no pods", 120, lambda: not dataflow.pods())
        again = scene.apply(replicas=3)
        again.await_condition("Ready")
        again.await_settled()
        again.await_epochs(3)
    assert again.epoch > epoch
    judged = told.tell(again)
    assert judged.wrong == 0, judged.examples
    assert sorted(again.bins()) == ["0", "1", "2"]


def test_operator_upgrade_touches_no_pod(scene: Stage, told: Story) -> None:
    """An operator whose pod templates differ replaces the old one: every pod of the dataflow stays, and so does the stream."""
    dataflow = scene.apply()
    dataflow.await_condition("Ready")
    dataflow.await_settled()
    dataflow.await_epochs(8)
    before = dataflow.pod_uids()
    repository, _, tag = stages.UPGRADED_IMAGE.rpartition(":")
    scene.cluster.image(stages.UPGRADED_IMAGE, UPGRADED)
    try:
        with told.act():
            stages.install(scene.system, {"image.repository": repository, "image.tag": tag})
            dataflow.await_epochs(15)
    finally:
        stages.install(scene.system)
    dataflow.await_epochs(3)
    assert dataflow.pod_uids() == before
    judged = told.tell(dataflow)
    assert judged.wrong == 0, judged.examples


def test_uninstalled_operator_leaves_the_stream(scene: Stage, told: Story) -> None:
    """Without the operator the dataflow goes on; installed again, it takes up where it left off."""
    dataflow = scene.apply()
    dataflow.await_condition("Ready")
    dataflow.await_settled()
    dataflow.await_epochs(5)
    before = dataflow.pod_uids()
    with told.act():
        scene.system.helm("uninstall", stages.RELEASE, "--wait")
        try:
            dataflow.await_epochs(5)
            dataflow.scale(3)
        finally:
            stages.install(scene.system)
        dataflow.await_settled()
    assert before.items() <= dataflow.pod_uids().items()
    judged = told.tell(dataflow)
    assert judged.wrong == 0, judged.examples
