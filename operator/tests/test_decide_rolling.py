"""Single decisions of a roll: which slots should hold the bins, what is deleted, and when only a restart replaces a pod."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_children_rendering import dataflow
from test_decide import FLOW, LIMITS, NOW, SETTLED, observed, pod

from binshift_operator.decide import decide, rolling
from binshift_operator.model.actions import Action, Apply, DeletePod, PutTarget, StopQuery
from binshift_operator.model.executor_class import dataflow_hash
from binshift_operator.model.names import Child
from binshift_operator.model.observed import (
    REVISIONS,
    ChildState,
    ObservedRuntime,
    ObservedState,
    ObservedTarget,
    Pod,
    PodState,
    RunState,
)
from binshift_operator.model.reasons import ProgressingReason
from binshift_operator.model.situation import Situation
from binshift_operator.model.specification import Dataflow
from binshift_operator.model.status import ConditionType, RolloutStatus, SettledTarget, Status

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


def test_the_surge_is_made_from_the_new_template() -> None:
    """One write has the template and one executor more; the query is not stopped, and no bin is sent anywhere."""
    state = rolling_state(FIRST, {0, 1, 2}, {0, 1, 2})
    drifted = replace(state.children[Child.EXECUTORS], state=ChildState.DRIFTED)
    state = replace(state, children={**state.children, Child.EXECUTORS: drifted})
    (apply,) = actions(state)
    assert isinstance(apply, Apply)
    assert (apply.child, apply.replicas) == (Child.EXECUTORS, 4)


@pytest.mark.parametrize(
    ("pods", "target", "workers"),
    [
        (SURGE, {0, 1, 2}, (1, 2, 3)),
        ({0: NEW, 1: OLD, 2: OLD, 3: NEW}, {1, 2, 3}, (0, 2, 3)),
        ({0: NEW, 1: NEW, 2: OLD, 3: NEW}, {0, 2, 3}, (0, 1, 3)),
        ({0: NEW, 1: NEW, 2: NEW, 3: NEW}, {0, 1, 3}, (0, 1, 2)),
        ({0: NEW, 1: OLD, 2: OLD, 3: NEW}, {0, 1, 3}, None),
        ({1: OLD, 2: OLD, 3: NEW}, {1, 2, 3}, None),
    ],
)
def test_one_slot_after_the_other_hands_over(
    pods: dict[int, str], target: set[int], workers: tuple[int, ...] | None
) -> None:
    """The bins of the next outdated slot go to the one that is empty; nothing moves while a slot is replaced."""
    put = [each.workers for each in actions(rolling_state(pods, target, target)) if isinstance(each, PutTarget)]
    assert put == ([] if workers is None else [workers])


EMPTY = rolling_state(SURGE, {1, 2, 3}, {1, 2, 3})


def test_an_empty_executor_is_deleted() -> None:
    """By its UID, once an epoch was committed since it became empty."""
    (delete,) = actions(EMPTY)
    assert isinstance(delete, DeletePod)
    assert (delete.name, delete.uid, delete.force) == ("clicks-executor-0", "uid-clicks-executor-0", False)
    assert actions(EMPTY, replace(SETTLED, settled_target=SettledTarget(REVISIONS, 50))) == ()


def test_it_would_return_on_the_new_template() -> None:
    """Nothing is deleted while a StatefulSet would make it from the old template again."""
    children = EMPTY.children
    for executors in (
        replace(children[Child.EXECUTORS], state=ChildState.DRIFTED),
        replace(children[Child.EXECUTORS], is_generation_observed=False),
    ):
        state = replace(EMPTY, children={**children, Child.EXECUTORS: executors})
        assert not [each for each in actions(state) if isinstance(each, DeletePod)]


@given(
    classes=st.lists(st.sampled_from([OLD, NEW]), min_size=1, max_size=5),
    target=st.sets(st.integers(0, 4), min_size=1),
    holding=st.sets(st.integers(0, 4)),
    registered=st.sets(st.integers(0, 5)),
    settled=st.booleans(),
    epoch=st.integers(49, 51),
    late=st.booleans(),
    surge=st.integers(0, 1),
)
def test_only_what_holds_nothing_goes(
    classes: list[str],
    target: set[int],
    holding: set[int],
    registered: set[int],
    settled: bool,
    epoch: int,
    late: bool,
    surge: int,
) -> None:
    """Whatever is observed of a query that runs: it is not stopped, and a deleted executor is outdated, empty, and stays empty."""
    flow = dataflow({"spec.replicas": 3, **OTHER, "spec.executor.maxSurge": surge})
    wanted = ObservedTarget(FLOW.key.uid, REVISIONS, frozenset(target), settled)
    runtime = {"registered": frozenset(registered), "target": wanted, "epoch": epoch}
    state = rolling_state(dict(enumerate(classes)), target, holding, runtime=runtime)
    before = replace(SETTLED, settled_target=SettledTarget(REVISIONS, 49), timed_out_generation=int(late))
    found = decide(flow, state, before, LIMITS).actions
    assert StopQuery() not in found
    after = next((set(each.workers) for each in found if isinstance(each, PutTarget)), target)
    for each in found:
        if isinstance(each, DeletePod):
            slot = int(each.name[-1])
            assert classes[slot] == OLD
            assert slot not in holding | target | after
            assert (settled, epoch > 49, late) == (True, True, False)
        if isinstance(each, Apply) and each.child is Child.EXECUTORS and each.replicas is not None:
            assert each.replicas >= len(classes) or (settled and max(holding | target) < each.replicas)


def possible(state: ObservedState, flow: Dataflow = ROLLED) -> bool:
    """Whether a roll is."""
    return rolling.is_possible(Situation(flow, state, SETTLED, LIMITS))


DRIVER = next(each for each in EMPTY.pods if each.is_driver)
EXECUTORS = tuple(each for each in EMPTY.pods if not each.is_driver)
LOADING = ObservedRuntime(RunState.LOADING)


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


def test_a_single_executor_without_a_surge_is_restarted() -> None:
    """There is no other one that could take its bins."""
    state = rolling_state({0: OLD}, {0}, {0})
    one: dict[str, Any] = {"spec.replicas": 1, **OTHER}
    assert possible(state, dataflow(one))
    assert not possible(state, dataflow({**one, "spec.executor.maxSurge": 0}))


def test_progress_is_kept_while_the_driver_is_silent() -> None:
    """A driver that does not answer for a moment does not end a roll; a settled dataflow has none."""
    before = replace(SETTLED, rollout=RolloutStatus(1, 3))
    silent = decide(ROLLED, replace(EMPTY, runtime=None, unreachable="timed out"), before, LIMITS)
    assert (silent.status.rollout, silent.actions) == (before.rollout, ())
    done = rolling_state(dict.fromkeys(range(3), NEW), {0, 1, 2}, {0, 1, 2})
    assert decide(ROLLED, done, before, LIMITS).status.rollout is None


def test_rejected_templates_leave_the_executors() -> None:
    """If the API server rejects the template, that is reported as for a restart."""
    state = rolling_state(FIRST, {0, 1, 2}, {0, 1, 2}, refusals={Child.EXECUTORS.value: "no such class"})
    found = decide(ROLLED, state, SETTLED, LIMITS).status.condition(ConditionType.PROGRESSING)
    assert found is not None
    assert found.reason == ProgressingReason.SPEC
