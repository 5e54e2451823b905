"""Puts children in place that are missing or different, and frees what is stuck; touches no pod that lives."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from binshift_operator.decide.limits import Limits
from binshift_operator.model.actions import Action, Apply, DeletePod, TryApply
from binshift_operator.model.names import Child
from binshift_operator.model.world import ChildSeen, Found, Pod, World

STATEFUL = (Child.EXECUTORS, Child.DRIVER)
PLAIN = tuple(child for child in Child if child not in (*STATEFUL, Child.KEYS))
"""Children that need neither the Secret nor a number of replicas."""


def plain(world: World) -> tuple[Action, ...]:
    """Put in place all children but the Secret and the StatefulSets, as far as the spec lets them be rendered."""
    return tuple(
        applied(child, world.children[child])
        for child in PLAIN
        if needs_apply(world.children[child]) and child not in world.unrendered
    )


def stateful(world: World, replicas: dict[Child, int]) -> tuple[Action, ...]:
    """Put the StatefulSets in place, with so many replicas; what cannot be rendered is scaled if it is there."""
    wanted = ((child, world.children[child], replicas[child]) for child in STATEFUL if child in replicas)
    return tuple(
        applied(child, seen, count)
        for child, seen, count in wanted
        if seen.found is not Found.GOING
        and child not in orphaned(world)
        and (needs_apply(seen) or seen.replicas != count)
        and not (seen.found is Found.ABSENT and child in world.unrendered)
    )


def orphaned(world: World) -> list[Child]:
    """StatefulSets that were deleted while their pods still end: one made now could not make its pods, and would wait for minutes."""
    ending = {Child.DRIVER if pod.is_driver else Child.EXECUTORS for pod in world.pods if pod.going_since is not None}
    return [child for child in STATEFUL if child in ending and world.children[child].found is Found.ABSENT]


def trials(world: World) -> tuple[TryApply, ...]:
    """Ask whether the StatefulSets would be taken as they are rendered now."""
    seen = ((child, world.children[child]) for child in STATEFUL)
    return tuple(TryApply(child, each.replicas, each.uid) for child, each in seen if each.found is Found.DRIFTED)


def retried(world: World, actions: Iterable[Action]) -> tuple[Action, ...]:
    """Apply once more what does not stay as it was applied, if it is time to, and nothing else is done to it; nothing waits for it."""
    done = {action.child for action in actions if isinstance(action, Apply)}
    kept = ((child, seen) for child, seen in world.children.items() if seen.again and child not in done)
    return tuple(
        applied(child, seen, seen.replicas if child in STATEFUL else None, exactly=child in STATEFUL)
        for child, seen in kept
    )


def needs_apply(seen: ChildSeen) -> bool:
    """Whether a child is missing or different."""
    return seen.found in (Found.ABSENT, Found.DRIFTED)


def applied(child: Child, seen: ChildSeen, replicas: int | None = None, *, exactly: bool = False) -> Apply:
    """The action that puts a child in place; ``exactly``: only if nothing about it has changed since it was seen."""
    there = seen.found is not Found.ABSENT
    return Apply(
        child,
        replicas,
        uid=seen.uid if there else "",
        resource_version=seen.resource_version if there and exactly else "",
        unavailable=max(seen.asked or seen.unavailable, 1),
    )


def budget(world: World, absent: int) -> tuple[Action, ...]:
    """Let one more executor be evicted than are absent: one that cannot be scheduled must not block the drain of a node."""
    child, seen = Child.DISRUPTION_BUDGET, world.children[Child.DISRUPTION_BUDGET]
    there = seen.found in (Found.CURRENT, Found.KEPT)
    if not there or seen.unavailable == 1 + absent or child in world.unrendered:
        return ()
    if seen.found is Found.KEPT and seen.asked == 1 + absent and not seen.again:
        return ()  # it was asked for just now, and is written over
    return (replace(applied(child, seen), unavailable=1 + absent),)


def ending(world: World, children: Iterable[Child]) -> list[Child]:
    """Children that are being deleted: they are made anew once they are gone."""
    return [child for child in children if world.children[child].found is Found.GOING]


def freed(world: World, limits: Limits) -> tuple[Action, ...]:
    """Delete by force what should have ended: a kubelet that lives ends a pod with its grace, whatever it was deleted for.

    The log fences: what may still run on a node that does not answer cannot change anything.
    """
    why = "it has not ended in time, as when its node does not answer"
    return tuple(
        DeletePod(pod.name, pod.uid, why, force=True)
        for pod in world.pods
        if pod.going_since is not None
        and not pod.only_held
        and world.now > _due(pod, pod.going_since, world) + limits.lost_node_seconds
    )


def _due(pod: Pod, going_since: float, world: World) -> float:
    """When a pod should have ended; one that was deleted as its node is lost, and is not heard of, has nothing to do with its grace."""
    runtime = world.runtime
    heard = runtime is not None if pod.is_driver else runtime is None or pod.slot in runtime.registered
    lost = pod.node_lost and not pod.ready and not heard
    return going_since if lost else going_since + pod.grace_seconds
