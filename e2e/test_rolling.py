"""Stories of executors that are replaced one after the other under load: the query is never stopped, and every row is right."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from checkers.pace import pace
from dataflow import Dataflow
from kube import until
from stage import Stage
from story import Story

EXECUTORS = 3
PAUSE_SECONDS_MAX = 30.0
"""As for a rescale: Ready means an epoch within so many seconds."""
LOST_MORE_MAX = 1
"""Epochs, for each executor that starts: the two stretches of time that are compared are not equally busy."""


@pytest.fixture(scope="module")
def scene(module_scene: Stage) -> Stage:
    return module_scene


@pytest.fixture
def three(running: Dataflow) -> Dataflow:
    """The dataflow with three executors, calm."""
    running.scale(EXECUTORS)
    running.await_calm()
    return running


def executor_uids(dataflow: Dataflow) -> set[str]:
    """Of the executors' pods."""
    return {pod["metadata"]["uid"] for pod in dataflow.pods("executor")}


def driver_uid(dataflow: Dataflow) -> str:
    """Of the driver's pod."""
    return dataflow.pod_uids()[dataflow.driver]


def test_rolled_under_load(three: Dataflow, story: Story) -> None:
    """Three executors get another template while the stream runs: all are new, the driver is the same, all rows are right. For each
    executor that starts, no more epochs are lost than by a rescale that starts one.
    """
    spans: list[tuple[float, float]] = []

    @contextmanager
    def span() -> Iterator[None]:
        began = time.time()
        yield
        spans.append((began, time.time()))

    with span():
        for replicas in (EXECUTORS + 1, EXECUTORS):
            three.scale(replicas)
            three.await_settled()
        three.await_epochs(3)
    before, driver = executor_uids(three), driver_uid(three)
    with span(), story.act():
        three.edit(executor={"pod": {"annotations": {"example.com/rolled": "once"}}})
        until("the begin of the roll", 60, lambda: three.has("Progressing", reason="RollingExecutors"))
        three.await_settled()
        three.await_epochs(3)
    assert not before & executor_uids(three)
    assert len(three.pods("executor")) == EXECUTORS
    assert driver_uid(three) == driver
    assert {pod["metadata"]["annotations"]["example.com/rolled"] for pod in three.pods("executor")} == {"once"}
    assert "rollout" not in three.status
    assert {"RollingExecutors", "ExecutorsRolled"} <= set(three.events())
    judged = story.judge(three)
    assert judged.wrong == 0, judged.examples
    assert story.pause <= PAUSE_SECONDS_MAX, story.line
    rescaled, rolled = (pace(judged.commits, judged.created, *each).lost for each in spans)
    assert rolled <= (EXECUTORS + 1) * (rescaled + LOST_MORE_MAX), f"{rescaled} lost by a rescale; {story.line}"


def test_scaled_in_the_middle_of_a_roll(three: Dataflow, story: Story) -> None:
    """An autoscaler's edit is taken at once, and the roll ends with all executors of the new template."""
    before, driver = executor_uids(three), driver_uid(three)
    with story.act():
        three.edit(executor={"restartNonce": 1})
        until("the first new executor", 300, lambda: (three.status.get("rollout") or {}).get("updated", 0) >= 1)
        three.scale(2)
        three.await_settled()
        three.await_epochs(3)
    assert not before & executor_uids(three)
    assert (len(three.pods("executor")), driver_uid(three)) == (2, driver)
    judged = story.judge(three)
    assert judged.wrong == 0, judged.examples


def test_restarted_in_the_middle_of_a_roll(three: Dataflow, story: Story) -> None:
    """An edit that restarts the dataflow ends a roll: the epoch is finished, all pods are replaced, and the stream continues."""
    before = set(three.pod_uids().values())
    with story.act():
        three.edit(executor={"restartNonce": 2})
        until("the begin of the roll", 60, lambda: three.has("Progressing", reason="RollingExecutors"))
        three.edit(restartNonce=three.object["spec"].get("restartNonce", 0) + 1)
        three.await_settled()
        three.await_epochs(3)
    assert not before & set(three.pod_uids().values())
    judged = story.judge(three)
    assert judged.wrong == 0, judged.examples


def test_cordoned_node(scene: Stage, three: Dataflow, story: Story) -> None:
    """The only node is cordoned: the status names it and why no executor leaves it, nothing is moved or deleted, and an uncordon ends it."""
    before, driver = executor_uids(three), driver_uid(three)
    node = three.pods("driver")[0]["spec"]["nodeName"]
    moved = three.status.get("migration")
    with story.act():
        try:
            scene.kube("cordon", node)
            until("the reason", 60, lambda: _waits_for_room(three, node))
            three.await_epochs(3)
            assert three.status["rollout"]["leavingNodes"] == [node]
            assert three.has("Ready")
            assert before <= executor_uids(three)
            assert three.status.get("migration") == moved
        finally:
            scene.kube("uncordon", node)
        three.await_settled()
        three.await_epochs(3)
    assert (executor_uids(three), driver_uid(three)) == (before, driver)
    assert "rollout" not in three.status
    assert "ExecutorsLeavingNode" in three.events()
    judged = story.judge(three)
    assert judged.wrong == 0, judged.examples


def _waits_for_room(dataflow: Dataflow, node: str) -> bool:
    """Whether the status names the node, and what the scheduler reports about one more executor."""
    found = next(each for each in dataflow.status["conditions"] if each["type"] == "Progressing")
    named = f"executors leave {node} (cordoned)" in found["message"]
    return found["reason"] == "RollingExecutors" and named and "Unschedulable" in found["message"]
