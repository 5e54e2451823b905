"""How many slots hold bins: pods that the first epoch cannot do without."""

from __future__ import annotations

from binshift_operator.model.observed import ObservedRuntime, RunState
from binshift_operator.model.status import Status


def holding_slots(runtime: ObservedRuntime | None, before: Status) -> int:
    """How many slots hold bins, as far as is known: a program that loads says whom its log names, else what was seen last."""
    told = max(runtime.holding, default=-1) + 1 if runtime is not None else 0
    if runtime is not None and runtime.state is RunState.RUNNING and runtime.route_version is not None:
        return told
    return max(told, before.holding_slots)
