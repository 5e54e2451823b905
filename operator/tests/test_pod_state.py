"""The state of a pod, as read from the API server."""

from __future__ import annotations

from typing import Any

import pytest

from binshift_operator.model.pods import PodState
from binshift_operator.pod_state import parse_pod


def pod(status: dict[str, Any], **meta: Any) -> Any:
    """A pod with this status, as the operator sees it at second 1000."""
    metadata = {"name": "clicks-executor-12", "uid": "p", "labels": {"app.kubernetes.io/component": "executor"}, **meta}
    return parse_pod({"metadata": metadata, "status": status}, now=1000.0)


def waiting(reason: str, message: str = "", **more: Any) -> dict[str, Any]:
    """The status of a pod whose container waits."""
    state = {"waiting": {"reason": reason, "message": message}}
    return {"containerStatuses": [{"name": "worker", "image": "img:1", "state": state, **more}]}


RUNNING = {"running": {"startedAt": "1970-01-01T00:15:10Z"}}
LONG_RUNNING = {"running": {"startedAt": "1970-01-01T00:14:30Z"}}
OOM: dict[str, Any] = {
    "lastState": {"terminated": {"reason": "OOMKilled", "finishedAt": "1970-01-01T00:15:00Z"}},
    "restartCount": 2,
}
OLD_OOM = {"lastState": {"terminated": {"reason": "OOMKilled", "finishedAt": "1970-01-01T00:00:00Z"}}}
ENDED: dict[str, Any] = {"lastState": {"terminated": {"exitCode": 1, "message": "KeyError: 'x'"}}}


@pytest.mark.parametrize(
    ("status", "state", "message"),
    [
        ({}, PodState.FINE, ""),
        (waiting("ContainerCreating"), PodState.NOT_STARTED, "containers worker: ContainerCreating"),
        ({"containerStatuses": [{"name": "worker", "state": RUNNING, **OOM}]}, PodState.OUT_OF_MEMORY, "limits.memory"),
        ({"containerStatuses": [{"name": "worker", "state": LONG_RUNNING, **OOM}]}, PodState.FINE, ""),
        (waiting("ErrImageNeverPull", "not present"), PodState.IMAGE, "img:1"),
        (waiting("ImagePullBackOff", "Back-off"), PodState.IMAGE, "Back-off"),
        (waiting("CreateContainerConfigError", 'secret "s3" not found'), PodState.CONFIG, "s3"),
        (waiting("CrashLoopBackOff", **OOM), PodState.OUT_OF_MEMORY, "limits.memory"),
        (waiting("CrashLoopBackOff", **ENDED), PodState.CRASHING, "KeyError: 'x'"),
        ({"containerStatuses": [{"name": "worker", "state": {"running": {}}, **OLD_OOM}]}, PodState.FINE, ""),
        ({"phase": "Failed", "reason": "Evicted", "message": "low on memory"}, PodState.EVICTED, "low on memory"),
    ],
)
def test_what_is_wrong_with_a_pod(status: dict[str, Any], state: PodState, message: str) -> None:
    """A pod's problem is reported with its original message."""
    found = pod(status)
    assert found.state is state
    assert message in found.message
    assert (found.slot, found.is_driver) == (12, False)


@pytest.mark.parametrize(
    ("reason", "state"), [("Unschedulable", PodState.UNSCHEDULABLE), ("SchedulerError", PodState.FINE)]
)
def test_message_of_the_scheduler_is_reported(reason: str, state: PodState) -> None:
    """Only a pod without room is reported; transient errors of the scheduler pass."""
    condition = {"type": "PodScheduled", "status": "False", "reason": reason, "message": "0/3 nodes are available"}
    assert pod({"conditions": [condition]}).state is state


def test_pod_that_ends() -> None:
    """Since when a pod ends is when it was asked to, not when it must have."""
    found = pod({}, deletionTimestamp="1970-01-01T00:10:00Z", deletionGracePeriodSeconds=120)
    assert (found.deleting_since, found.grace_seconds) == (480.0, 120.0)
