"""Stories of snapshots: a running dataflow is copied, another one begins with the copy, and periodic ones are kept and removed."""

from __future__ import annotations

import json
from typing import Any

from dataflow import Dataflow
from kube import Kube, until
from stage import Stage
from story import Story
from workloads import minimal
from workloads.minimal import VOLUME, WATCHER

SNAPSHOT = "streamingdataflowsnapshot"
COMPLETE_SECONDS_MAX = 180.0
CLONE = "clone"
FILES = f"{VOLUME}/checkpoint-snapshots"
"""Where the snapshots of the checkpoint ``checkpoint`` are by default, as the watcher sees it."""


def taken(kube: Kube, name: str, dataflow: str = minimal.NAME) -> dict[str, Any]:
    """The status of a snapshot that this makes."""
    kube.apply(
        {
            "apiVersion": "binshift.dev/v1alpha1",
            "kind": "StreamingDataflowSnapshot",
            "metadata": {"name": name},
            "spec": {"dataflow": dataflow},
        }
    )
    return until(f"snapshot {name}", COMPLETE_SECONDS_MAX, lambda: complete(kube, name))


def complete(kube: Kube, name: str) -> dict[str, Any] | None:
    """The status of a snapshot once it is complete."""
    status: dict[str, Any] = kube.get(SNAPSHOT, name).get("status", {})
    assert status.get("phase") != "Failed", status
    return status if status.get("phase") == "Complete" else None


def clone(scene: Stage, snapshot: str) -> Dataflow:
    """A second dataflow that begins with a snapshot, as docs/guides/clone.yaml has it."""
    checkpoint = {"path": CLONE, "restoreFrom": {"snapshot": snapshot}}
    _, made = minimal.objects(scene.cluster.storage_class, replicas=1, checkpoint=checkpoint)
    made["metadata"]["name"] = CLONE
    made["spec"]["application"]["args"][0] = f"/checkpoint/{CLONE}-results"
    scene.kube.apply(made)
    return Dataflow(scene.kube, CLONE)


def test_copied_while_it_runs(scene: Stage, running: Dataflow, story: Story) -> None:
    """The stream continues unharmed; a clone continues at the next epoch with right rows, and again after its driver was deleted."""
    with story.act():
        status = taken(scene.kube, "monday")
        running.await_epochs(3)
    assert status["copiedBytes"] == status["bytes"] > 0
    assert status["location"] == "/checkpoint/checkpoint-snapshots/monday"
    judged = story.judge(running)
    assert judged.wrong == 0, judged.examples
    running.edit(suspend=True)
    until("the original to be suspended", 120, lambda: running.status.get("phase") == "Suspended")

    copy = clone(scene, "monday")
    copy.await_condition("Ready")
    copy.await_epochs(3)
    scene.kube.delete("pods", copy.driver)
    copy.await_condition("Ready", status="False")
    copy.await_condition("Ready")
    copy.await_epochs(3)
    continued = minimal.judge(
        scene.kube, VOLUME, checkpoint=CLONE, results=f"{CLONE}-results", from_epoch=status["epoch"] + 1
    )
    assert continued.wrong == 0, continued.examples
    assert len(continued.commits) > status["epoch"] + 6
    assert minimal.judge(scene.kube).wrong == 0, "the clone has changed what is the original's"


def test_periodic_snapshots(scene: Stage, running: Dataflow, story: Story) -> None:
    """There is one at once and one every minute; of the older ones, files and object are removed."""
    running.edit(snapshots={"every": "1m", "keep": 1})
    first = until("a periodic snapshot", COMPLETE_SECONDS_MAX, lambda: newest(scene.kube))
    until("the next one", COMPLETE_SECONDS_MAX, lambda: newest(scene.kube) not in (None, first))
    until("the first one's end", COMPLETE_SECONDS_MAX, lambda: first not in periodic(scene.kube))
    running.edit(snapshots=None)
    kept = until("the kept one", COMPLETE_SECONDS_MAX, lambda: newest(scene.kube))
    found = scene.kube("exec", WATCHER, "--", "ls", FILES).split()
    assert first not in found
    assert kept in found
    marker = json.loads(scene.kube("exec", WATCHER, "--", "cat", f"{FILES}/{kept}/snapshot.json"))
    assert marker["epoch"] == scene.kube.get(SNAPSHOT, kept)["status"]["epoch"]
    running.await_settled()
    story.note(f"{kept} is kept")


def periodic(kube: Kube) -> dict[str, str]:
    """The phase of each periodic snapshot, by name."""
    listed = kube.list(SNAPSHOT, f"binshift.dev/dataflow={minimal.NAME},binshift.dev/periodic")
    return {each["metadata"]["name"]: each.get("status", {}).get("phase", "") for each in listed}


def newest(kube: Kube) -> str | None:
    """The newest complete periodic snapshot."""
    return max((name for name, phase in periodic(kube).items() if phase == "Complete"), default=None)
