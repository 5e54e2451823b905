"""What is wrong with pods, once it has lasted so long that it does not end by itself: an autoscaler of nodes takes minutes, a registry may be busy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from binshift_operator.model.observed import ObservedState, Pod, PodState
from binshift_operator.model.reasons import DegradedReason
from binshift_operator.model.specification import Dataflow

TROUBLE: Final = {
    PodState.IMAGE: DegradedReason.IMAGE_PULL,
    PodState.CONFIG: DegradedReason.INVALID_CONFIG,
    PodState.OUT_OF_MEMORY: DegradedReason.OUT_OF_MEMORY,
    PodState.CRASHING: DegradedReason.CRASHING,
    PodState.UNSCHEDULABLE: DegradedReason.UNSCHEDULABLE,
    PodState.EVICTED: DegradedReason.EVICTED,
    PodState.NOT_STARTED: DegradedReason.NOT_STARTED,
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


def found(dataflow: Dataflow, observed: ObservedState, waits: Waits) -> list[tuple[DegradedReason, str]]:
    """What is to be told of pods."""
    return [
        _of_pod(dataflow, observed, pod)
        for pod in observed.pods
        if pod.state is not PodState.FINE and pod.deleting_since is None and _lasted(pod, observed.now, waits)
    ]


def _lasted(pod: Pod, now: float, waits: Waits) -> bool:
    return pod.state_since is None or now - pod.state_since >= waits.of(pod.state)


def _of_pod(dataflow: Dataflow, observed: ObservedState, pod: Pod) -> tuple[DegradedReason, str]:
    trouble = TROUBLE[pod.state]
    if pod.is_driver and trouble is DegradedReason.CRASHING and pod.message:
        trouble = DegradedReason.PROGRAM_FAILED
    if trouble is DegradedReason.UNSCHEDULABLE:
        return trouble, _unscheduled(dataflow, observed, pod)
    if trouble is DegradedReason.NOT_STARTED:
        return trouble, (
            f"Pod {pod.name} has a node, and has not started{_for(pod, observed.now)}: {pod.message}. A volume that cannot be mounted, an "
            f"init container that does not end, or no IP address left: the events of kubectl describe pod {pod.name} say which"
        )
    return trouble, f"pod {pod.name}: {pod.message or pod.state.value}"


def _unscheduled(dataflow: Dataflow, observed: ObservedState, pod: Pod) -> str:
    which = "driver" if pod.is_driver else "executor"
    requests = ((dataflow.raw.get(which) or {}).get("resources") or {}).get("requests") or {}
    now = f" (now {', '.join(f'{name} {amount}' for name, amount in requests.items())})" if requests else ""
    registered = 0 if observed.runtime is None else len(observed.runtime.registered)
    meanwhile = (
        "the stream waits for it" if pod.is_driver else f"{registered} of {dataflow.replicas} executors are registered"
    )
    fewer = "" if pod.is_driver else "lower spec.replicas, "
    return (
        f"Pod {pod.name} has had no node{_for(pod, observed.now)}; {meanwhile}. The scheduler: {pod.message.rstrip('. ')}. Add nodes, "
        f"{fewer}or lower {which}.resources.requests{now}"
    )


def _for(pod: Pod, now: float) -> str:
    """For how long, in whole minutes, so that it is something new once a minute only."""
    minutes = 0 if pod.state_since is None else int(now - pod.state_since) // 60
    return f" for {minutes} min" if minutes else ""
