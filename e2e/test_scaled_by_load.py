"""The story of a dataflow that scales by itself: a step of the load and back, with pods that start cold, and every row counted once."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from clusters import ROOT
from dataflow import Dataflow
from kube import Kube, until
from stage import MINIMAL_IMAGE, Stage
from story import Story
from workloads import minimal

FOLDER = ROOT / "e2e" / "workloads" / "stepped"
IMAGE = "localhost/binshift-stepped:dev"
ROW_MILLISECONDS = 4
LOW, HIGH = 40, 320
"""Rows per second: an executor takes about 250."""
EXECUTORS = 3
MAX_EPOCH_SECONDS = 2.0
STABILIZATION_SECONDS = 30.0
MOVE_SECONDS = 10.0
"""Of few small bins, on a node that is busy with the start of pods."""


def stepped(scene: Stage, mode: str = "Auto") -> Dataflow:
    """A dataflow in this mode of autoscaling, with one executor at first; and what feeds it."""
    scene.cluster.image(IMAGE, FOLDER)
    claim, made = minimal.objects(scene.cluster.storage_class, bins=64, replicas=1)
    made["spec"] |= {
        "image": IMAGE,
        "maxEpoch": f"{MAX_EPOCH_SECONDS:g}s",
        "application": {
            "mainFile": "/app/stepped.py",
            "args": ["/checkpoint/input", "/checkpoint/results", str(ROW_MILLISECONDS)],
        },
        "autoscaling": {
            "mode": mode,
            "maxReplicas": EXECUTORS,
            "latencyTarget": "2s",
            "scaleDown": {"stabilization": f"{STABILIZATION_SECONDS:g}s"},
        },
    }
    scene.kube.apply(claim, made, *minimal.watcher(MINIMAL_IMAGE))
    return Dataflow(scene.kube, minimal.NAME)


def inside(kube: Kube, *command: str) -> str:
    """The output of a command in the pod that watches."""
    return kube("exec", minimal.WATCHER, "--", *command, seconds=120)


def set_rate(kube: Kube, rate: float) -> None:
    """Rows per second from now on."""
    inside(kube, "sh", "-c", f"echo {rate:g} > /data/rate.new && mv /data/rate.new /data/rate")


@contextmanager
def feeding(kube: Kube, rate: float) -> Iterator[None]:
    """Rows are written, as many as `set_rate` requests, until the end."""
    set_rate(kube, rate)
    command = ["kubectl", "-n", kube.namespace, "exec", minimal.WATCHER, "--"]
    command += ["python", "/scripts/write_files.py", "/data/input", "/data/rate"]
    with subprocess.Popen(command, env=kube.environment, stdout=subprocess.DEVNULL) as feed:
        try:
            yield
        finally:
            set_rate(kube, 0)
            feed.wait(timeout=60)


@pytest.fixture
def scaling(scene: Stage) -> Iterator[Dataflow]:
    """The dataflow, with a low load that has been measured."""
    dataflow = stepped(scene)
    until("the pod that watches", 120, lambda: inside(scene.kube, "true") == "")
    with feeding(scene.kube, LOW):
        dataflow.await_condition("Ready")
        dataflow.await_condition("ScalingActive", reason="Steady")
        dataflow.await_epochs(10)
        yield dataflow


def executors(dataflow: Dataflow) -> tuple[int, int, int]:
    """Executors in force, executors with bins, and pods."""
    status = dataflow.status
    holding = len([count for count in dataflow.bins().values() if count])
    return status["autoscaling"]["desiredReplicas"], holding, len(dataflow.pods("executor"))


def await_executors(dataflow: Dataflow, count: int, seconds: float) -> None:
    """Until so many are in force and hold the bins."""
    try:
        until(f"{count} executors", seconds, lambda: executors(dataflow) == (count,) * 3, every=0.5)
    except AssertionError as late:
        raise AssertionError(f"{late}: {json.dumps(dataflow.status)}") from late


def test_a_step_of_the_load(scaling: Dataflow, scene: Stage, story: Story) -> None:
    """Eight times the load: the executors that it needs come by themselves, in few decisions; they go once it has fallen; the spec is as
    it was. The longest wait is no longer than pods take to start, bins to move, and two epochs.
    """
    assert executors(scaling) == (1, 1, 1)
    stepped_at = time.time()
    set_rate(scene.kube, HIGH)
    await_executors(scaling, EXECUTORS, 300)
    grown = time.time() - stepped_at
    scaling.await_epochs(20)
    started = _start_seconds(scaling)
    decisions = scaling.events().count("Autoscaled")
    set_rate(scene.kube, LOW)
    await_executors(scaling, 1, 300)
    assert scaling.object["spec"]["replicas"] == 1
    assert scaling.object["metadata"]["generation"] == 1
    set_rate(scene.kube, 0)
    judged = until("every row", 120, lambda: complete(scene.kube), every=3)
    waits = [wait for _, wait in judged["waits"]]
    story.note(
        f"{LOW} to {HIGH} rows/s: {decisions} decisions, {EXECUTORS} executors after {grown:.0f} s, pods started in "
        f"{started:.0f} s, longest wait {max(waits):.1f} s of {judged['files']} files"
    )
    assert decisions <= 3
    assert max(waits) <= started + MOVE_SECONDS + 2 * MAX_EPOCH_SECONDS


def _start_seconds(dataflow: Dataflow) -> float:
    """From the creation of the newest executor's pod to its registration, in whole seconds: that of the slowest."""
    pods = dataflow.pods("executor")[1:]
    return max(_ready_at(pod) - _time(pod["metadata"]["creationTimestamp"]) for pod in pods)


def _ready_at(pod: dict[str, Any]) -> float:
    return next(_time(each["lastTransitionTime"]) for each in pod["status"]["conditions"] if each["type"] == "Ready")


def _time(text: str) -> float:
    return time.mktime(time.strptime(text, "%Y-%m-%dT%H:%M:%SZ"))


def complete(kube: Kube) -> dict[str, Any] | None:
    """What the judge finds, once no row is missing."""
    found: dict[str, Any] = json.loads(
        inside(kube, "python", "/scripts/judge_stepped.py", "/data/input", "/data/results")
    )
    return found if not found["wrong"] else None
