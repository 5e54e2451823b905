"""Observed states in which executors are rolled, for tests of single decisions."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from test_children_rendering import dataflow
from test_decide import FLOW, LIMITS, SETTLED, observed, pod

from binshift_operator.decide import decide
from binshift_operator.model.actions import Action
from binshift_operator.model.executor_class import dataflow_hash
from binshift_operator.model.observed import REVISIONS, ObservedState
from binshift_operator.model.observed_runtime import ObservedRuntime, ObservedTarget, RunState
from binshift_operator.model.pods import Pod
from binshift_operator.model.specification import Dataflow
from binshift_operator.model.status import Status

OTHER: dict[str, Any] = {"spec.executor.pod.nodeSelector": {"disk": "fast"}}
ROLLED = dataflow({"spec.replicas": 3, **OTHER})
OLD = dataflow({"spec.replicas": 3}).pod_hash
NEW = ROLLED.pod_hash


def executor(slot: int, spec_hash: str, **more: Any) -> Pod:
    """An executor's pod of this restart class; all are of the same dataflow class."""
    return replace(pod(slot), spec_hash=spec_hash, dataflow_hash=dataflow_hash(ROLLED), **more)


def rolling_state(
    pods: dict[int, str],
    target: set[int],
    holding: set[int],
    *,
    runtime: dict[str, Any] | None = None,
    **more: Any,
) -> ObservedState:
    """A roll in some step: the executors by slot, with the restart class of each."""
    driver = replace(pod(0, driver=True), spec_hash=OLD, dataflow_hash=dataflow_hash(ROLLED))
    reported = {
        "registered": frozenset(pods),
        "holding": frozenset(holding),
        "target": ObservedTarget(FLOW.key.uid, REVISIONS, frozenset(target), True),
        **(runtime or {}),
    }
    executors = tuple(executor(slot, spec_hash) for slot, spec_hash in pods.items())
    found = observed(more.pop("processes", max(pods) + 1), reported)
    return replace(found, **{"pods": (driver, *executors), **more})


def actions(state: ObservedState, before: Status = SETTLED, flow: Dataflow = ROLLED) -> tuple[Action, ...]:
    """What is decided."""
    return decide(flow, state, before, LIMITS).actions


FIRST = {0: OLD, 1: OLD, 2: OLD}
SURGE = {**FIRST, 3: NEW}
EMPTY = rolling_state(SURGE, {1, 2, 3}, {1, 2, 3})
DRIVER = next(each for each in EMPTY.pods if each.is_driver)
EXECUTORS = tuple(each for each in EMPTY.pods if not each.is_driver)
LOADING = ObservedRuntime(RunState.LOADING)
DESERTED = rolling_state(SURGE, {1, 2, 3}, {1, 2, 3}, runtime={"registered": frozenset()}).runtime
