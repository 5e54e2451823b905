"""Single decisions of a roll: which slots should hold the bins, what is deleted, and when only a restart replaces a pod."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rolling_states import (
    DRIVER,
    EMPTY,
    EXECUTORS,
    FIRST,
    NEW,
    OLD,
    OTHER,
    ROLLED,
    SURGE,
    actions,
    executor,
    rolling_state,
)
from test_children_rendering import dataflow
from test_decide import FLOW, LIMITS, NOW, SETTLED

from binshift_operator.decide import decide, rolling
from binshift_operator.model.actions import Apply, DeletePod, PutTarget, StopQuery
from binshift_operator.model.names import Child
from binshift_operator.model.observed import REVISIONS, ChildState, ClaimState
from binshift_operator.model.observed_runtime import ObservedTarget
from binshift_operator.model.pods import PodState
from binshift_operator.model.reasons import ProgressingReason
from binshift_operator.model.situation import Situation
from binshift_operator.model.status import ConditionType, RolloutStatus, SettledTarget


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


def test_an_empty_executor_is_deleted() -> None:
    """By its UID, once an epoch was committed since it became empty."""
    (delete,) = actions(EMPTY)
    assert isinstance(delete, DeletePod)
    assert (delete.name, delete.uid, delete.force) == ("clicks-executor-0", "uid-clicks-executor-0", False)
    assert actions(EMPTY, replace(SETTLED, settled_target=SettledTarget(REVISIONS, 50))) == ()


def test_it_would_return_on_the_new_template() -> None:
    """Nothing is deleted while a StatefulSet would make it from the old template again."""
    children = EMPTY.children
    missing: tuple[dict[str, Any], ...] = (
        {"account_missing": "spark"},
        {"credentials_missing": "s3"},
        {"claim": ClaimState.ABSENT},
    )
    for each in missing:
        assert not [action for action in actions(replace(EMPTY, **each)) if isinstance(action, DeletePod)]
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
    going=st.sets(st.integers(0, 4)),
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
    going: set[int],
) -> None:
    """Whatever is observed of a query that runs: it is not stopped, and a deleted executor is outdated, empty, and stays empty."""
    flow = dataflow({"spec.replicas": 3, **OTHER, "spec.executor.maxSurge": surge})
    wanted = ObservedTarget(FLOW.key.uid, REVISIONS, frozenset(target), settled)
    runtime = {"registered": frozenset(registered), "target": wanted, "epoch": epoch}
    state = rolling_state(dict(enumerate(classes)), target, holding, runtime=runtime)
    leaves = (
        replace(each, leaves="cordoned" if each.slot in going and not each.is_driver else "") for each in state.pods
    )
    state = replace(state, pods=tuple(leaves))
    before = replace(SETTLED, settled_target=SettledTarget(REVISIONS, 49), timed_out_generation=int(late))
    found = decide(flow, state, before, LIMITS).actions
    assert StopQuery() not in found
    after = next((set(each.workers) for each in found if isinstance(each, PutTarget)), target)
    for each in found:
        if isinstance(each, DeletePod):
            slot = int(each.name[-1])
            assert classes[slot] == OLD or slot in going
            assert slot not in holding | target | after
            assert (settled, epoch > 49, late) == (True, True, False)
        if isinstance(each, Apply) and each.child is Child.EXECUTORS and each.replicas is not None:
            assert each.replicas >= len(classes) or (settled and max(holding | target) < each.replicas)


def test_a_broken_executor_is_replaced_at_once() -> None:
    """One that cannot run and holds nothing need not wait for its turn, even in a target that cannot settle without it."""
    runtime = {
        "registered": frozenset({1, 2, 3}),
        "target": ObservedTarget(FLOW.key.uid, REVISIONS, frozenset(range(3)), False),
    }
    pods = (DRIVER, executor(0, OLD, state=PodState.CRASHING), *EXECUTORS[1:])
    state = replace(rolling_state(SURGE, {0}, {1, 2}, runtime=runtime), pods=pods)
    assert [each.name for each in actions(state) if isinstance(each, DeletePod)] == ["clicks-executor-0"]
    holds = replace(rolling_state(SURGE, {0}, {0, 1, 2}, runtime=runtime), pods=pods)
    assert not [each for each in actions(holds) if isinstance(each, DeletePod)]


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


def test_an_outdated_executor_without_bins_gets_none_again() -> None:
    """It is the next to be replaced, even while another slot of the spec or the surge is still starting."""
    pods = {0: NEW, 1: OLD, 2: OLD}
    state = rolling_state(pods, {0, 2}, {0, 2}, processes=4)
    planned = rolling.plan(Situation(ROLLED, state, SETTLED, LIMITS))
    assert planned.workers == {0, 2, 3}
    assert planned.outgoing is not None
    assert planned.outgoing.slot == 1


def test_a_registration_of_the_earlier_pod_does_not_count() -> None:
    """Spark may report the executor of a deleted pod for a moment: its slot gets bins once the new pod is ready."""
    state = rolling_state({0: NEW, 1: OLD, 2: OLD, 3: NEW}, {1, 2, 3}, {1, 2, 3})
    for pod_0 in (executor(0, NEW, ready=False), executor(0, NEW, deleting_since=NOW)):
        pods = tuple(pod_0 if each.name == pod_0.name else each for each in state.pods)
        assert actions(replace(state, pods=pods)) == ()
