"""When executors can be rolled, and when a surge is given up."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from rolling_states import (
    DESERTED,
    DRIVER,
    EMPTY,
    EXECUTORS,
    FIRST,
    LOADING,
    NEW,
    OLD,
    OTHER,
    ROLLED,
    actions,
    executor,
    rolling_state,
)
from test_children_rendering import dataflow
from test_decide import FLOW, LIMITS, NOW, SETTLED, observed, pod

from binshift_operator.decide import decide, rolling
from binshift_operator.model.actions import StopQuery
from binshift_operator.model.names import Child
from binshift_operator.model.observed import MissingPods, ObservedState
from binshift_operator.model.observed_runtime import RunState
from binshift_operator.model.pods import PodState
from binshift_operator.model.situation import Situation
from binshift_operator.model.specification import Dataflow
from binshift_operator.model.status import Awaiting


def possible(state: ObservedState, flow: Dataflow = ROLLED) -> bool:
    """Whether a roll is."""
    return rolling.is_possible(Situation(flow, state, SETTLED, LIMITS))


@pytest.mark.parametrize(
    ("changes", "rolls"),
    [
        ({}, True),
        ({"runtime": None}, True),
        ({"runtime": None, "pods": (replace(DRIVER, state=PodState.IMAGE), *EXECUTORS)}, False),
        ({"pods": EXECUTORS}, False),
        ({"pods": (replace(DRIVER, deleting_since=NOW), *EXECUTORS)}, False),
        ({"runtime": LOADING}, True),
        ({"runtime": replace(LOADING, failures=1)}, False),
        ({"runtime": LOADING, "pods": (DRIVER, executor(0, OLD, state=PodState.UNSCHEDULABLE))}, False),
        ({"runtime": replace(LOADING, state=RunState.FAILED)}, False),
        ({"runtime": DESERTED}, True),
        ({"runtime": DESERTED, "pods": (DRIVER, executor(0, OLD, state=PodState.CRASHING))}, False),
        ({"runtime": replace(LOADING, state=RunState.FENCED)}, False),
        ({"runtime": replace(LOADING, state=RunState.RUNNING)}, False),
        ({"pods": (replace(DRIVER, dataflow_hash="other"), *EXECUTORS)}, False),
        ({"pods": (replace(DRIVER, dataflow_hash=""), *EXECUTORS)}, False),
        ({"pods": (replace(DRIVER, keys_hash="other"), *EXECUTORS)}, False),
        ({"pods": (DRIVER, replace(EXECUTORS[0], dataflow_hash="other"))}, False),
    ],
)
def test_when_a_roll_is_possible(changes: dict[str, Any], rolls: bool) -> None:
    """A query that runs, a driver of the same dataflow class; whatever is not known is not stopped."""
    state = replace(EMPTY, **changes)
    assert possible(state) is rolls
    runs = state.runtime_state is RunState.RUNNING and state.has_live_driver
    assert (StopQuery() in actions(state)) is (runs and not rolls)


def test_a_pod_of_an_older_operator_is_current_until_the_first_edit() -> None:
    """Without the hash of its dataflow class, a driver is judged by the whole: an upgrade of the operator restarts nothing."""
    upgraded = replace(observed(), pods=(pod(0, driver=True), pod(0), pod(1)))
    assert not any(each.dataflow_hash for each in upgraded.pods)
    assert decide(FLOW, upgraded, SETTLED, LIMITS).actions == ()
    assert StopQuery() in decide(dataflow({"spec.replicas": 2, **OTHER}), upgraded, SETTLED, LIMITS).actions


def test_a_program_that_loads_for_long_may_wait_for_its_executors() -> None:
    """Executors that run and do not register are outdated: after a while a restart replaces them, as no query can."""
    state = replace(EMPTY, runtime=LOADING)
    for since, rolls in ((NOW - 5, True), (NOW - 500, False)):
        before = replace(SETTLED, awaiting=Awaiting("Runtime", since))
        assert rolling.is_possible(Situation(ROLLED, state, before, LIMITS)) is rolls


@pytest.mark.parametrize(
    ("pod_state", "processes", "reason", "given_up"),
    [
        (PodState.UNSCHEDULABLE, 4, "", True),
        (PodState.CRASHING, 4, "", False),
        (None, 4, "pods is forbidden: exceeded quota: small", True),
        (None, 4, "admission webhook denied the request", False),
        (None, 3, "", True),
    ],
)
def test_when_a_surge_is_given_up(pod_state: PodState | None, processes: int, reason: str, given_up: bool) -> None:
    """For want of room only, and after a while: a template with which no pod starts costs no executor."""
    missing = {Child.EXECUTORS: MissingPods(1, NOW - 100, reason)} if reason else {}
    state = rolling_state(FIRST, {0, 1, 2}, {0, 1, 2}, processes=processes, missing_pods=missing)
    if pod_state is not None:
        state = replace(state, pods=(*state.pods, executor(3, NEW, state=pod_state, ready=False)))
    for since, late in ((NOW - 5, False), (NOW - 500, True)):
        planned = rolling.plan(Situation(ROLLED, state, replace(SETTLED, waiting={3: since}), LIMITS))
        wanted = frozenset({1, 2} if late and given_up else {0, 1, 2})
        assert (planned.workers, planned.surge) == (wanted, frozenset({3}))


def test_a_single_executor_without_a_surge_is_restarted() -> None:
    """There is no other one that could take its bins."""
    state = rolling_state({0: OLD}, {0}, {0})
    one: dict[str, Any] = {"spec.replicas": 1, **OTHER}
    assert possible(state, dataflow(one))
    assert not possible(state, dataflow({**one, "spec.executor.maxSurge": 0}))
