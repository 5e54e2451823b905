"""The message about executors that have not registered with Spark: which, for how long and why, and which are ready."""

from __future__ import annotations

from collections.abc import Mapping

from binshift_operator.model.observed import ObservedState, PodState
from binshift_operator.model.specification import Dataflow
from binshift_operator.model.status import truncate

REASON_CHARACTERS_MAX = 300


def describe(dataflow: Dataflow, observed: ObservedState, waiting: Mapping[int, float]) -> str:
    """The whole message; times are whole minutes, so that it changes at most once a minute."""
    full, runtime = frozenset(range(dataflow.replicas)), observed.runtime
    registered = frozenset() if runtime is None else runtime.registered & full
    holding = frozenset() if runtime is None else runtime.holding & full
    missing, ready = full - registered, registered - holding
    parts = [f"{len(holding)} of {dataflow.replicas} executors share the state."]
    if missing:
        since = min((waiting[slot] for slot in missing if slot in waiting), default=observed.now)
        minutes = int(observed.now - since) // 60
        duration = f" for {minutes} min" if minutes else ""
        executors = (
            f"Executor {format_slots(missing)} has" if len(missing) == 1 else f"Executors {format_slots(missing)} have"
        )
        parts.append(f"{executors} not registered{duration}{_why(dataflow, observed, missing)}.")
    if ready:
        parts.append(f"Ready and without state: {format_slots(ready)}.")
    return " ".join(parts)


def _why(dataflow: Dataflow, observed: ObservedState, missing: frozenset[int]) -> str:
    """The state of the first pod that has not registered, in parentheses."""
    slot, name = min(missing), dataflow.key.executor
    pod = next((pod for pod in observed.executors if pod.slot == slot), None)
    if pod is None:
        return f" (pod {name}-{slot} does not exist)"
    if pod.deleting_since is not None:
        return f" (pod {pod.name} is being deleted)"
    if pod.state is PodState.FINE:
        return ""
    return f" (pod {pod.name}: {pod.state.value}: {truncate(pod.message, REASON_CHARACTERS_MAX)})"


def format_slots(slots: frozenset[int]) -> str:
    """The first slots, and the number of the others.

    >>> format_slots(frozenset({3, 1})), format_slots(frozenset(range(100)))
    ('1, 3', '0, 1, 2, 3, 4, 5, 6, 7 and 92 more')
    """
    first = ", ".join(map(str, sorted(slots)[:8]))
    return first if len(slots) <= 8 else f"{first} and {len(slots) - 8} more"
