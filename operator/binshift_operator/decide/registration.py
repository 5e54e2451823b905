"""The message about executors that have not registered: which, for how long, what their pods are waiting for, and who is ready."""

from __future__ import annotations

from collections.abc import Mapping

from binshift_operator.model.observed import ObservedState, PodState
from binshift_operator.model.specification import Dataflow
from binshift_operator.model.status import shortened

REASON_CHARACTERS_MAX = 300


def describe(dataflow: Dataflow, observed: ObservedState, waiting: Mapping[int, float]) -> str:
    """The whole message; times are in whole minutes, so that it changes once a minute at most."""
    full, runtime = frozenset(range(dataflow.replicas)), observed.runtime
    registered = frozenset() if runtime is None else runtime.registered & full
    holding = frozenset() if runtime is None else runtime.holding & full
    missing, ready = full - registered, registered - holding
    one = len(missing) == 1
    parts = [f"{len(holding)} of {dataflow.replicas} executors share the state."]
    if missing:
        minutes = (
            int(observed.now - min((waiting[slot] for slot in missing if slot in waiting), default=observed.now)) // 60
        )
        since = f" for {minutes} min" if minutes else ""
        verb = "has" if one else "have"
        parts.append(
            f"Executor{'' if one else 's'} {format_slots(missing)} {verb} not registered{since}{_why(dataflow, observed, missing)}."
        )
    if ready:
        parts.append(f"Ready and without state: {format_slots(ready)}.")
    return " ".join(parts)


def _why(dataflow: Dataflow, observed: ObservedState, missing: frozenset[int]) -> str:
    """What the first pod that has not registered is waiting for, in brackets."""
    slot, name = min(missing), dataflow.key.executor
    pod = next((pod for pod in observed.executors if pod.slot == slot), None)
    if pod is None:
        return f" (pod {name}-{slot} does not exist)"
    if pod.deleting_since is not None:
        return f" (pod {pod.name} is being deleted)"
    if pod.state is PodState.FINE:
        return ""
    return f" (pod {pod.name}: {pod.state.value}: {shortened(pod.message, REASON_CHARACTERS_MAX)})"


def format_slots(slots: frozenset[int]) -> str:
    """Slots for people, no more than a few.

    >>> format_slots(frozenset({3, 1})), format_slots(frozenset(range(100)))
    ('1, 3', '0, 1, 2, 3, 4, 5, 6, 7 and 92 more')
    """
    named = ", ".join(map(str, sorted(slots)[:8]))
    return named if len(slots) <= 8 else f"{named} and {len(slots) - 8} more"
