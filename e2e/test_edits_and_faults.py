"""Stories of one dataflow that is not left in peace: its spec is edited, its objects are changed behind the operator's back, and
parts of it are killed while bins move. The stream continues, every edit completes, and every row is right."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import stage as stages
from clusters import ROOT
from dataflow import Dataflow
from faults import pods
from faults.victims import FAULTS
from kube import until
from stage import Stage
from story import Story

NEXT = ROOT / "e2e" / "workloads" / "next"
SMALL_STEPS = {"batchSize": 4}
"""A migration takes many epochs, so that something can happen in the middle of it."""


@pytest.fixture(scope="module")
def scene(module_scene: Stage) -> Stage:
    return module_scene


@pytest.fixture(scope="module")
def applied(scene: Stage) -> Dataflow:
    """One dataflow, to which everything happens in turn."""
    return scene.apply(bins=512, migration=SMALL_STEPS)


@pytest.fixture
def running(applied: Dataflow) -> Dataflow:
    """It, Ready, settled, and calm for some epochs."""
    applied.await_calm()
    return applied


def test_live_edits_touch_no_pod(running: Dataflow, story: Story) -> None:
    """How state moves is edited together with the replicas: the next migration goes that way, and no pod is replaced for it."""
    before, replicas = running.pod_uids(), running.object["spec"]["replicas"]
    with story.act():
        running.edit(replicas=replicas + 1, migration={"strategy": "Batched", "batchSize": 128, "preCopy": False})
        running.await_settled()
        running.await_epochs(3)
    assert before.items() <= running.pod_uids().items()
    assert running.status["history"][0]["strategy"] == "Batched"
    running.edit(migration={"strategy": "Optimized", **SMALL_STEPS, "preCopy": True})
    judged = story.judge(running)
    assert judged.wrong == 0, judged.examples


def test_newer_edit_overtakes(running: Dataflow, story: Story) -> None:
    """Scaled again in the middle of a migration: it changes direction where it is, and ends as the last edit requires."""
    with story.act():
        running.scale(4)
        running.await_moving()
        running.scale(2)
        running.await_settled()
        running.await_epochs(3)
    judged = story.judge(running)
    assert judged.wrong == 0, judged.examples
    assert sorted(running.bins()) == ["0", "1"]
    assert len(running.pods("executor")) == 2


def test_new_program_while_bins_move(scene: Stage, running: Dataflow, story: Story) -> None:
    """Another image and other replicas in one edit, in the middle of a migration: the epoch is finished, all pods are replaced,
    the new program continues from the log."""
    scene.cluster.image(stages.NEXT_IMAGE, NEXT)
    with story.act():
        running.scale(3)
        running.await_moving()
        epoch = running.epoch
        running.edit(image=stages.NEXT_IMAGE, replicas=2)
        running.await_settled()
        running.await_epochs(3)
    running.await_condition("Ready")
    assert running.epoch > epoch
    assert {image(pod) for pod in running.pods()} == {stages.NEXT_IMAGE}
    judged = story.judge(running)
    assert judged.wrong == 0, judged.examples
    assert sorted(running.bins()) == ["0", "1"]


def test_restart_nonce(running: Dataflow, story: Story) -> None:
    """Another `restartNonce` replaces every pod, and the stream continues."""
    before = set(running.pod_uids().values())
    with story.act():
        running.edit(restartNonce=running.object["spec"].get("restartNonce", 0) + 1)
        running.await_settled()
        running.await_epochs(3)
    assert not before & set(running.pod_uids().values())
    judged = story.judge(running)
    assert judged.wrong == 0, judged.examples


def test_what_others_change_is_put_back(scene: Stage, running: Dataflow, story: Story) -> None:
    """A service deleted and a StatefulSet scaled by hand: both are put back, and the dataflow's own pods stay."""
    before, kube = running.pod_uids(), scene.kube
    service = f"{running.name}-driver"
    executors = f"{running.name}-executor"
    uid = kube.get("service", service)["metadata"]["uid"]
    with story.act():
        kube.delete("service", service)
        kube("scale", "statefulset", executors, f"--replicas={len(before) + 2}")
        until("the service", 150, lambda: kube.get("service", service)["metadata"]["uid"] != uid)
        until("its own pods only", 300, lambda: running.pod_uids() == before)
        running.await_epochs(3)
    running.await_condition("Ready")
    judged = story.judge(running)
    assert judged.wrong == 0, judged.examples


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
def test_moving_and(scene: Stage, running: Dataflow, story: Story, fault: Callable[[Stage, Dataflow], None]) -> None:
    """Whatever is killed while bins move between two and three executors, the rescale comes to its end, and all is right."""
    replicas = 3 if running.object["spec"]["replicas"] == 2 else 2
    with story.act():
        running.scale(replicas)
        running.await_moving()
        fault(scene, running)
        running.await_settled()
        running.await_epochs(3)
    running.await_condition("Ready")
    judged = story.judge(running)
    assert judged.wrong == 0, judged.examples
    assert sorted(running.bins()) == [str(slot) for slot in range(replicas)]


def test_executor_killed_over_and_over(scene: Stage, running: Dataflow, story: Story) -> None:
    """Twelve executors killed in a row, now and then two at a time: no row is lost or counted twice."""
    with story.act():
        for number in range(8):
            pods.kill_pod(scene.kube, running.executor(number % 2))
            if number % 2:
                pods.kill_pod(scene.kube, running.executor((number + 1) % 2))
            running.await_epochs(2, seconds=120)
        running.await_condition("Ready")
    judged = story.judge(running)
    assert judged.wrong == 0, judged.examples


def image(pod: dict[str, object]) -> str:
    """The image that all containers of a pod have."""
    spec = pod["spec"]
    assert isinstance(spec, dict)
    (found,) = {str(container["image"]) for container in spec["containers"]}
    return found
