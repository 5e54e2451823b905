"""Actions that correct drift: apply children that are missing or different, and force-delete stuck pods. Live pods are never touched."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from binshift_operator.model.actions import Action, Apply, DeletePod, TryApply
from binshift_operator.model.names import Child
from binshift_operator.model.observed import ChildState, ObservedChild, ObservedState
from binshift_operator.model.pods import Pod
from binshift_operator.model.situation import Situation

STATEFUL = (Child.EXECUTORS, Child.DRIVER)
PLAIN = tuple(child for child in Child if child not in (*STATEFUL, Child.KEYS))
"""Children that need neither the Secret nor a number of replicas."""


def plain_children(observed: ObservedState) -> tuple[Action, ...]:
    """Apply the plain children that need it and can be rendered."""
    return tuple(
        apply_action(child, observed.children[child])
        for child in PLAIN
        if needs_apply(observed.children[child]) and child not in observed.unrenderable
    )


def stateful_sets(observed: ObservedState, replicas: dict[Child, int]) -> tuple[Action, ...]:
    """Apply the StatefulSets that need it, with these replicas. One that exists but cannot be rendered is only scaled."""
    orphans = orphaned(observed)
    wanted = ((child, observed.children[child], replicas[child]) for child in STATEFUL if child in replicas)
    return tuple(
        apply_action(child, current, count)
        for child, current, count in wanted
        if current.state is not ChildState.DELETING
        and child not in orphans
        and (needs_apply(current) or current.replicas != count)
        and not (current.state is ChildState.ABSENT and child in observed.unrenderable)
    )


def orphaned(observed: ObservedState) -> list[Child]:
    """Deleted StatefulSets whose pods are still ending: one that is recreated now cannot create its pods, and backs off for minutes."""
    ending = {
        Child.DRIVER if pod.is_driver else Child.EXECUTORS for pod in observed.pods if pod.deleting_since is not None
    }
    return [child for child in STATEFUL if child in ending and observed.children[child].state is ChildState.ABSENT]


def dry_runs(observed: ObservedState) -> tuple[TryApply, ...]:
    """Dry-run the StatefulSets that have drifted."""
    children = ((child, observed.children[child]) for child in STATEFUL)
    return tuple(
        TryApply(child, current.replicas, current.uid)
        for child, current in children
        if current.state is ChildState.DRIFTED
    )


def retries(observed: ObservedState, actions: Iterable[Action]) -> tuple[Action, ...]:
    """Apply contested children again whose retry is due, unless ``actions`` apply them already; nothing waits for these."""
    done = {action.child for action in actions if isinstance(action, Apply)}
    return tuple(
        apply_action(child, current, current.replicas if child in STATEFUL else None, exactly=child in STATEFUL)
        for child, current in observed.children.items()
        if current.retry_due and child not in done
    )


def needs_apply(current: ObservedChild) -> bool:
    """Whether a child is missing or has drifted."""
    return current.state in (ChildState.ABSENT, ChildState.DRIFTED)


def apply_action(child: Child, current: ObservedChild, replicas: int | None = None, *, exactly: bool = False) -> Apply:
    """The action that applies a child; ``exactly``: it fails if the child has changed since it was observed."""
    exists = current.state is not ChildState.ABSENT
    return Apply(
        child,
        replicas,
        uid=current.uid if exists else "",
        resource_version=current.resource_version if exists and exactly else "",
        max_unavailable=max(current.requested_max_unavailable or current.max_unavailable, 1),
    )


def disruption_budget(observed: ObservedState, absent: int) -> tuple[Action, ...]:
    """Allow one disruption in addition to the absent executors: an unschedulable executor must not block the drain of a node."""
    child, current = Child.DISRUPTION_BUDGET, observed.children[Child.DISRUPTION_BUDGET]
    exists = current.state in (ChildState.CURRENT, ChildState.CONTESTED)
    if not exists or current.max_unavailable == 1 + absent or child in observed.unrenderable:
        return ()
    if (
        current.state is ChildState.CONTESTED
        and current.requested_max_unavailable == 1 + absent
        and not current.retry_due
    ):
        return ()  # it was requested recently, and is being overwritten
    return (replace(apply_action(child, current), max_unavailable=1 + absent),)


def deleting(observed: ObservedState, children: Iterable[Child]) -> list[Child]:
    """Those of the children that are being deleted; each is recreated once it is gone."""
    return [child for child in children if observed.children[child].state is ChildState.DELETING]


def force_deletions(situation: Situation) -> tuple[Action, ...]:
    """Force-delete pods that are overdue: a live kubelet ends a pod within its grace period.

    This is safe: a container that still runs on an unreachable node is fenced by the log and cannot change anything.
    """
    observed, why = situation.observed, "it has not ended in time; its node may be unreachable"
    return tuple(
        DeletePod(pod.name, pod.uid, why, force=True)
        for pod in observed.pods
        if pod.deleting_since is not None
        and not pod.only_finalizers_left
        and observed.now > _end_due(pod, pod.deleting_since, observed) + situation.timeouts.lost_node_seconds
    )


def _end_due(pod: Pod, deleting_since: float, observed: ObservedState) -> float:
    """When a pod should have ended. The grace period does not count if its node is lost and its process is silent."""
    runtime = observed.runtime
    driver = runtime if pod.uid not in observed.reports else observed.reports[pod.uid].runtime
    answers = driver is not None if pod.is_driver else runtime is None or pod.slot in runtime.registered
    lost = pod.node_lost and not pod.ready and not answers
    return deleting_since if lost else deleting_since + pod.grace_seconds
