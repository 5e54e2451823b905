"""What is wrong with pods, once it has lasted so long that it does not end by itself: an autoscaler of nodes takes minutes, a registry may be busy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from binshift_operator.model.reasons import Trouble
from binshift_operator.model.specification import Dataflow
from binshift_operator.model.world import Pod, PodState, World

TROUBLE: Final = {
    PodState.IMAGE: Trouble.IMAGE_PULL,
    PodState.CONFIG: Trouble.INVALID_CONFIG,
    PodState.OUT_OF_MEMORY: Trouble.OUT_OF_MEMORY,
    PodState.CRASHING: Trouble.CRASHING,
    PodState.UNSCHEDULABLE: Trouble.UNSCHEDULABLE,
    PodState.EVICTED: Trouble.EVICTED,
    PodState.NOT_STARTED: Trouble.NOT_STARTED,
}
"""What is wrong with a pod, as a reason."""


@dataclass(frozen=True, slots=True)
class Waits:
    """Seconds for which an image may not be had, and a pod may be without a node, evicted or not started."""

    image: float
    unplaced: float

    def of(self, state: PodState) -> float:
        """For which a pod may be in a state; 0: it is told at once."""
        if state is PodState.IMAGE:
            return self.image
        later = (PodState.UNSCHEDULABLE, PodState.EVICTED, PodState.NOT_STARTED)
        return self.unplaced if state in later else 0.0


def found(dataflow: Dataflow, world: World, waits: Waits) -> list[tuple[Trouble, str]]:
    """What is to be told of pods."""
    return [
        _of_pod(dataflow, world, pod)
        for pod in world.pods
        if pod.state is not PodState.FINE and pod.going_since is None and _lasted(pod, world.now, waits)
    ] + [
        _of_held(pod, pod.going_since, world.now)
        for pod in world.pods
        if pod.only_held and pod.going_since is not None and world.now - pod.going_since >= waits.unplaced
    ]


def _lasted(pod: Pod, now: float, waits: Waits) -> bool:
    return pod.since is None or now - pod.since >= waits.of(pod.state)


def _of_pod(dataflow: Dataflow, world: World, pod: Pod) -> tuple[Trouble, str]:
    trouble = TROUBLE[pod.state]
    if pod.is_driver and trouble is Trouble.CRASHING and pod.message:
        trouble = Trouble.PROGRAM_FAILED
    if trouble is Trouble.UNSCHEDULABLE:
        return trouble, _unscheduled(dataflow, world, pod)
    if trouble is Trouble.NOT_STARTED:
        return trouble, (
            f"Pod {pod.name} has a node, and has not started{_for(pod, world.now)}: {pod.message}. A volume that cannot be mounted, an "
            f"init container that does not end, or no IP address left: the events of kubectl describe pod {pod.name} say which"
        )
    return trouble, f"pod {pod.name}: {pod.message or pod.state.value}"


def _of_held(pod: Pod, since: float, now: float) -> tuple[Trouble, str]:
    """Who keeps a pod from going, and from being made anew."""
    named, minutes = ", ".join(pod.held_by), int(now - since) // 60
    return Trouble.NOT_DELETED, (
        f"Pod {pod.name} was deleted{f' {minutes} min ago' if minutes else ''}, and none can take its place while these finalizers keep "
        f"it: {named}. Mend what should remove them; if that is gone for good, take them off the pod: kubectl edit pod {pod.name}"
    )


def _unscheduled(dataflow: Dataflow, world: World, pod: Pod) -> str:
    which = "driver" if pod.is_driver else "executor"
    requests = ((dataflow.raw.get(which) or {}).get("resources") or {}).get("requests") or {}
    now = f" (now {', '.join(f'{name} {amount}' for name, amount in requests.items())})" if requests else ""
    registered = 0 if world.runtime is None else len(world.runtime.registered)
    meanwhile = (
        "the stream waits for it" if pod.is_driver else f"{registered} of {dataflow.replicas} executors are registered"
    )
    fewer = "" if pod.is_driver else "lower spec.replicas, "
    return (
        f"Pod {pod.name} has had no node{_for(pod, world.now)}; {meanwhile}. The scheduler: {pod.message.rstrip('. ')}. Add nodes, "
        f"{fewer}or lower {which}.resources.requests{now}"
    )


def _for(pod: Pod, now: float) -> str:
    """For how long, in whole minutes, so that it is something new once a minute only."""
    minutes = 0 if pod.since is None else int(now - pod.since) // 60
    return f" for {minutes} min" if minutes else ""
