"""A dataflow without any volume: checkpoint and results are on an S3 server in the cluster, and nowhere else."""

from __future__ import annotations

import pytest

from dataflow import KIND, Dataflow
from faults import pods
from kube import until
from stage import MINIMAL_IMAGE, Stage
from story import Story
from workloads import minimal, on_s3


@pytest.fixture(scope="module")
def scene(module_scene: Stage) -> Stage:
    on_s3.build(module_scene.cluster)
    on_s3.serve(module_scene.kube, MINIMAL_IMAGE)
    return module_scene


@pytest.fixture
def running(scene: Stage) -> Dataflow:
    """The one dataflow of these stories, applied by whichever comes first; Ready, settled, and calm for some epochs."""
    if not scene.kube("get", KIND, minimal.NAME, "--ignore-not-found"):
        scene.kube.apply(on_s3.dataflow())
    dataflow = Dataflow(scene.kube, minimal.NAME)
    dataflow.await_calm()
    return dataflow


def judge(story: Story, dataflow: Dataflow) -> None:
    judged = story.judge(dataflow, on_s3.PLACE)
    assert judged.wrong == 0, judged.examples


def test_s3_rescale(scene: Stage, running: Dataflow, story: Story) -> None:
    """2 to 3 executors by `kubectl scale`: bins come up on the new one from S3, and every row is right."""
    assert not any("persistentVolumeClaim" in volume for pod in running.pods() for volume in pod["spec"]["volumes"])
    with story.act():
        running.scale(3)
        running.await_settled()
    running.await_epochs(3)
    judge(story, running)
    assert sorted(running.bins()) == ["0", "1", "2"]


def test_s3_driver_killed(scene: Stage, running: Dataflow, story: Story) -> None:
    """A driver that is gone at once is followed by one that finds on S3 where it was, and every row is right."""
    epoch, before = running.epoch, running.pod_uids()[running.driver]
    with story.act():
        pods.kill_pod(scene.kube, running.driver)
        until("another driver", 120, lambda: running.pod_uids().get(running.driver, before) != before)
        running.await_epochs(3)
    running.await_condition("Ready")
    assert running.epoch > epoch
    judge(story, running)


def test_s3_delete_and_make_again(scene: Stage, running: Dataflow, story: Story) -> None:
    """Deleting leaves everything on S3 from which the manifest, applied again, continues; every row is right."""
    with story.act():
        epoch = running.epoch
        scene.kube.delete(KIND, minimal.NAME)
        until("no pods", 150, lambda: not running.pods())
        on_s3.verify(scene.kube)
        scene.kube.apply(on_s3.dataflow(replicas=1))
        running.await_condition("Ready")
        running.await_settled()
        running.await_epochs(3)
    assert running.epoch > epoch
    judge(story, running)
    assert sorted(running.bins()) == ["0"]
