"""Parses a pod of the API server into the form that decisions use: its state, by what a user must do about it. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from binshift.encryption import SECRET_ANNOTATION
from binshift_operator.model import names
from binshift_operator.model.messages import truncate
from binshift_operator.model.node_taints import Taints, reason_to_leave
from binshift_operator.model.pods import Pod, PodState
from binshift_operator.model.tracebacks import cause_first
from binshift_operator.status_codec import parse_time

NO_IMAGE: Final = (
    *("ErrImagePull", "ImagePullBackOff", "ErrImageNeverPull", "InvalidImageName", "ImageInspectError"),
    "RegistryUnavailable",
)
NO_START: Final = ("CreateContainerConfigError", "CreateContainerError", "RunContainerError")
NOT_YET: Final = ("ContainerCreating", "PodInitializing")
RECENT_SECONDS: Final = 600.0
"""How long the end of a container by the out-of-memory killer is reported."""
RECOVERED_SECONDS: Final = 120.0
"""A container that has run for this long since then is no longer reported."""


def parse_pod(found: Mapping[str, Any], now: float, going: Callable[[str], Taints] = lambda node: ()) -> Pod:
    """The pod in an object of the API server; ``now`` in seconds since 1970; ``going``: the taints by which a node is about to go."""
    meta, spec, status = found["metadata"], found.get("spec") or {}, found.get("status") or {}
    node = str(spec.get("nodeName") or "")
    annotations = meta.get("annotations") or {}
    conditions = {each["type"]: each for each in status.get("conditions") or ()}
    grace = float(meta.get("deletionGracePeriodSeconds") or 0)
    due = meta.get("deletionTimestamp")
    state, message = _state(found, conditions, now)
    return Pod(
        name=meta["name"],
        uid=meta["uid"],
        slot=_slot(meta["name"]),
        is_driver=(meta.get("labels") or {}).get(names.LABEL_COMPONENT) == names.DRIVER,
        deleting_since=None if due is None else parse_time(due) - grace,
        grace_seconds=grace,
        node_lost=(conditions.get("DisruptionTarget") or {}).get("reason") == "DeletionByTaintManager",
        finalizers=tuple(map(str, meta.get("finalizers") or ())),
        spec_hash=annotations.get(names.ANNOTATION_SPEC, ""),
        dataflow_hash=annotations.get(names.ANNOTATION_DATAFLOW, ""),
        keys_hash=annotations.get(names.ANNOTATION_KEYS, ""),
        tls_secret=annotations.get(SECRET_ANNOTATION, ""),
        ready=(conditions.get("Ready") or {}).get("status") == "True",
        state=state,
        message=truncate(message, 900),
        state_since=_since(state, conditions, meta),
        ip=str(status.get("podIP") or ""),
        node=node,
        leaves=reason_to_leave(going(node), spec.get("tolerations") or ()),
        operator_version=annotations.get(names.ANNOTATION_VERSION, ""),
        created_at=parse_time(meta["creationTimestamp"]) if "creationTimestamp" in meta else None,
    )


def _slot(name: str) -> int:
    found = re.search(r"-(\d+)$", name)
    return int(found[1]) if found else 0


def _state(found: Mapping[str, Any], conditions: Mapping[str, Any], now: float) -> tuple[PodState, str]:
    status = found.get("status") or {}
    # A pod may have failed and list no containers at all: its phase comes first.
    if status.get("phase") == "Failed":
        return PodState.EVICTED, f"{status.get('reason') or 'Failed'}: {status.get('message') or 'the pod has ended'}"
    scheduled = conditions.get("PodScheduled") or {}
    # Other reasons are transient errors of the scheduler, which retries at once.
    if scheduled.get("status") == "False" and scheduled.get("reason") == "Unschedulable":
        return PodState.UNSCHEDULABLE, str(scheduled.get("message") or scheduled.get("reason") or "")
    problems = (_container_problem(container, now) for container in containers(status))
    problem = next(filter(None, problems), None)
    if problem is not None:
        return problem
    late = {str(each.get("name")): _waiting(each)[0] for each in containers(status) if _waiting(each)[0] in NOT_YET}
    if late:
        return PodState.NOT_STARTED, f"containers {', '.join(late)}: {next(iter(late.values()))}"
    return PodState.FINE, ""


def containers(status: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The statuses of init containers, sidecars and containers."""
    return [*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())]


def _waiting(container: Mapping[str, Any]) -> tuple[str, str]:
    """The reason for which a container waits, and its message; empty if it does not."""
    waiting = (container.get("state") or {}).get("waiting") or {}
    return str(waiting.get("reason") or ""), str(waiting.get("message") or "")


def _since(state: PodState, conditions: Mapping[str, Any], meta: Mapping[str, Any]) -> float | None:
    """Since when a pod has been in its state, from its conditions; None if unknown."""
    kind = "PodScheduled" if state is PodState.UNSCHEDULABLE else "Ready"
    at = (conditions.get(kind) or {}).get("lastTransitionTime") or meta.get("creationTimestamp")
    return None if at is None else parse_time(at)


def _container_problem(container: Mapping[str, Any], now: float) -> tuple[PodState, str] | None:
    name, state, (reason, message) = container.get("name"), container.get("state") or {}, _waiting(container)
    ended = state.get("terminated") or (container.get("lastState") or {}).get("terminated") or {}
    if reason in NO_IMAGE:
        return PodState.IMAGE, f"image {container.get('image')}: {reason}: {message}"
    if reason in NO_START:
        return PodState.CONFIG, f"container {name}: {reason}: {message}"
    if ended.get("reason") == "OOMKilled" and _is_recent(ended, state.get("running") or {}, now):
        times = container.get("restartCount") or 0
        why = f"container {name} exceeded limits.memory and was killed; it was restarted {times} times"
        return PodState.OUT_OF_MEMORY, why
    if reason == "CrashLoopBackOff":
        why = cause_first(str(ended.get("message") or f"it ended with exit code {ended.get('exitCode')}"))
        return PodState.CRASHING, f"container {name} crashes repeatedly: {why}"
    return None


def _is_recent(ended: Mapping[str, Any], running: Mapping[str, Any], now: float) -> bool:
    """Whether a container ended recently, and has not recovered since."""
    since = running.get("startedAt")
    recovered = since is not None and now - parse_time(since) >= RECOVERED_SECONDS
    return "finishedAt" in ended and now - parse_time(ended["finishedAt"]) < RECENT_SECONDS and not recovered
