"""What operators do to a dataflow, and what nodes do: memory runs out, a node is drained, a second dataflow is given the same
checkpoint, and a checkpoint is backed up and restored. Every row is right."""

from __future__ import annotations

import json
from contextlib import suppress

import pytest

from dataflow import KIND, Dataflow
from faults import pods
from kube import Kube, Refused, until
from stage import Stage
from story import Story
from workloads import minimal
from workloads.minimal import VOLUME, WATCHER

RIVAL = "rival"
BACKUP = f"{VOLUME}/backup"


@pytest.fixture(scope="module")
def scene(module_scene: Stage) -> Stage:
    return module_scene


def test_executor_out_of_memory(scene: Stage, running: Dataflow, story: Story) -> None:
    """The kernel kills an executor's container for its memory: Degraded gives that reason, the executor returns, no row is wrong."""
    with story.act():
        pods.exhaust_memory(scene.kube, running.executor(1), "worker")
        running.await_condition("Degraded", "True", "OutOfMemory")
        running.await_condition("Degraded", "False")
        running.await_settled()
        running.await_epochs(3)
    judged = story.judge(running)
    assert judged.wrong == 0, judged.examples


def test_rival_on_one_checkpoint(scene: Stage, running: Dataflow, story: Story) -> None:
    """A second dataflow on the checkpoint of a running one is refused and names the first; once that is gone, it takes over."""
    uid = running.object["metadata"]["uid"]
    rival = Dataflow(scene.kube, RIVAL)
    (_, spec) = minimal.objects(scene.cluster.storage_class)
    with story.act():
        scene.kube.apply({**spec, "metadata": {"name": RIVAL}})
        refusal = rival.await_condition("Degraded", "True", "ProgramFailed")
        running.await_epochs(3)
        assert running.has("Ready")
        epoch = running.epoch
        scene.kube.delete(KIND, running.name)
        until("no pods", 150, lambda: not running.pods())
        rival.await_condition("Ready")
        rival.await_epochs(3)
    assert uid in refusal["message"]
    assert rival.epoch > epoch
    judged = story.judge(rival)
    assert judged.wrong == 0, judged.examples
    scene.kube.delete(KIND, RIVAL)
    until("no pods", 150, lambda: not rival.pods())


def test_drained_node(scene: Stage, running: Dataflow, story: Story) -> None:
    """`kubectl drain` of the only node evicts what the disruption budget allows; uncordoned, every pod returns."""
    node = running.pods("driver")[0]["spec"]["nodeName"]
    options = ["--ignore-daemonsets", "--delete-emptydir-data", "--timeout=90s"]
    with story.act():
        try:
            with suppress(Refused):  # the budget may keep the last executors, as nothing else has room for them
                scene.kube(
                    "drain", node, f"--pod-selector=app.kubernetes.io/instance={running.name}", *options, seconds=120
                )
            assert any("nodeName" not in pod["spec"] for pod in running.pods()), "nothing was evicted"
        finally:
            scene.kube("uncordon", node)
        running.await_condition("Ready")
        running.await_settled()
        running.await_epochs(3)
    judged = story.judge(running)
    assert judged.wrong == 0, judged.examples


def test_backup_and_restore(scene: Stage, running: Dataflow, story: Story) -> None:
    """A copy made while suspended is whole; a dataflow on the copy continues from it, while the original has newer epochs."""
    kube = scene.kube
    with story.act():
        running.edit(suspend=True)
        until("Suspended", 300, lambda: running.status["phase"] == "Suspended")
        until("no pods", 150, lambda: not running.pods())
        _in_watcher(kube, "sh", "-c", f"mkdir {BACKUP} && cp -a {VOLUME}/checkpoint {VOLUME}/results {BACKUP}")
        _in_watcher(kube, "binshift", "log", "verify", f"{BACKUP}/checkpoint/binshift")
        running.edit(suspend=False)
        running.await_condition("Ready")
        running.await_epochs(5)
        newest = running.epoch
        kube.delete(KIND, running.name)
        until("no pods", 150, lambda: not running.pods())
        (_, restored) = minimal.objects(scene.cluster.storage_class)
        text = json.dumps(restored["spec"]["application"]["args"]).replace("/checkpoint/", "/checkpoint/backup/")
        restored["spec"]["application"]["args"] = json.loads(text)
        restored["spec"]["checkpoint"]["path"] = "backup/checkpoint"
        kube.apply(restored)
        running.await_condition("Ready")
        assert running.epoch < newest
        running.await_epochs(5)
    judged = story.judge(running, BACKUP)
    assert judged.wrong == 0, judged.examples


def _in_watcher(kube: Kube, *arguments: str) -> str:
    return kube("exec", WATCHER, "--", *arguments, seconds=120)
