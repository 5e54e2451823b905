"""Single decisions about what rests, what is silent, what cannot be carried out, and what does not stay as it was applied."""

from __future__ import annotations

from dataclasses import replace

import pytest
from test_children_rendering import dataflow
from test_decide import FLOW, LIMITS, NOW, SETTLED, condition, observed, pod

from binshift_operator.decide import decide
from binshift_operator.decide.drift import STATEFUL
from binshift_operator.model.actions import Apply, DeletePod, StopQuery
from binshift_operator.model.names import Child
from binshift_operator.model.observed import ChildState, ClaimState, ObservedChild
from binshift_operator.model.observed_runtime import RunState
from binshift_operator.model.status import Awaiting, ConditionType, Phase


@pytest.mark.parametrize(
    ("ready", "born", "reported"),
    [(True, NOW - 10, True), (False, NOW - 10, False), (False, NOW - 900, True), (False, None, False)],
)
def test_silent_driver_is_reported(ready: bool, born: float | None, reported: bool) -> None:
    """A silent driver is reported once it should answer: its pod is ready, or so old that its node must be gone."""
    driver = replace(pod(0, driver=True), ready=ready, created_at=born)
    silent = replace(observed(), runtime=None, unreachable="timed out", pods=(driver, pod(0), pod(1)))
    before = replace(SETTLED, awaiting=Awaiting("Runtime", NOW - 200))
    found = decide(FLOW, silent, before, LIMITS).status
    assert (condition(found, ConditionType.DEGRADED).reason == "ControlUnreachable") is reported
    assert (condition(found, ConditionType.READY).reason == "ControlUnreachable") is reported


def test_a_wrong_spec_frees_lost_nodes() -> None:
    """A pod on a lost node is freed, and no pod is replaced, while the spec cannot be carried out."""
    gone = replace(pod(1), deleting_since=NOW - 500, grace_seconds=120, node_lost=True, spec_hash="old")
    wrong = replace(
        observed(),
        pods=(replace(pod(0, driver=True), spec_hash="old"), gone),
        render_error="too small",
        unrenderable=frozenset(STATEFUL),
    )
    found = decide(FLOW, wrong, SETTLED, LIMITS)
    assert [(each.name, each.force) for each in found.actions if isinstance(each, DeletePod)] == [(gone.name, True)]
    assert len(found.actions) == 1
    assert condition(found.status, ConditionType.DEGRADED).message == "too small"


def test_an_end_is_remembered_before_anything_goes() -> None:
    """A program that has ended is recorded first; the driver's pod is deleted in the next reconciliation, then the executors'."""
    ended = observed(runtime={"state": RunState.FINISHED})
    first = decide(FLOW, ended, SETTLED, LIMITS)
    assert first.actions == ()
    assert (first.status.finished_generation, first.status.settled_generation) == (1, 1)
    second = decide(FLOW, ended, first.status, LIMITS)
    assert [(each.child, each.replicas) for each in second.actions if isinstance(each, Apply)] == [(Child.DRIVER, 0)]
    edited = replace(first.status, finished_spec="another")
    assert decide(FLOW, ended, edited, LIMITS).status.phase is Phase.RESTARTING


def test_a_query_that_runs_again_is_stopped_in_order() -> None:
    """Should a query run although its program has ended, nothing of it is touched before it was asked to stop."""
    assert decide(FLOW, observed(), replace(SETTLED, finished_generation=1), LIMITS).actions == (StopQuery(),)


def test_kept_children_are_applied_with_other_actions() -> None:
    """A child that does not stay as it was applied holds up nothing, and is applied once more when it is time to, as it is."""
    seen = observed()
    kept = {
        child: ObservedChild(ChildState.CONTESTED, f"uid-{child}", "7", retry_due=child is Child.EXECUTORS)
        for child in (*STATEFUL, Child.SPARK_CONF)
    }
    kept[Child.EXECUTORS] = replace(kept[Child.EXECUTORS], replicas=2)
    kept[Child.DRIVER] = replace(kept[Child.DRIVER], replicas=1)
    found = decide(FLOW, replace(seen, children={**seen.children, **kept}), SETTLED, LIMITS)
    assert found.actions == (Apply(Child.EXECUTORS, 2, uid=f"uid-{Child.EXECUTORS}", resource_version="7"),)
    assert condition(found.status, ConditionType.PROGRESSING).reason == "Settled"
    assert found.requeue_after == LIMITS.rest_seconds


@pytest.mark.parametrize("earlier", [0, 7])
@pytest.mark.parametrize("state", [RunState.LOADING, RunState.RUNNING, RunState.FINISHED])
def test_an_earlier_end_is_forgotten_with_its_driver(state: RunState, earlier: int) -> None:
    """Once the driver of an earlier end goes, or another one runs, only an end to come counts for the edited spec."""
    before = replace(SETTLED, finished_generation=earlier)
    driver = replace(pod(0, driver=True), deleting_since=NOW - 1 if state is RunState.FINISHED else None)
    seen = replace(observed(runtime={"state": state}), pods=(driver, pod(0), pod(1)))
    assert decide(FLOW, seen, before, LIMITS).status.finished_generation == 0


def test_what_has_ended_needs_no_checkpoint() -> None:
    """A claim that is removed after the end is not reported as missing."""
    seen = replace(observed(0), runtime=None, pods=(), claim=ClaimState.ABSENT)
    down = {**seen.children, Child.DRIVER: replace(seen.children[Child.DRIVER], replicas=0)}
    found = decide(FLOW, replace(seen, children=down), replace(SETTLED, finished_generation=1), LIMITS)
    assert found.actions == ()
    assert found.status.phase is Phase.FINISHED
    assert condition(found.status, ConditionType.DEGRADED).status is False


def test_what_cannot_be_rendered_is_not_made() -> None:
    """A dataflow that is made suspended, and wrong, comes to rest without what cannot be rendered."""
    seen = replace(
        observed(0),
        runtime=None,
        pods=(),
        render_error="too small",
        unrenderable=frozenset({*STATEFUL, Child.SPARK_CONF}),
    )
    absent = dict.fromkeys(seen.children, ObservedChild(ChildState.ABSENT)) | {Child.KEYS: seen.children[Child.KEYS]}
    resting = dataflow({"spec.suspend": True})
    found = decide(resting, replace(seen, children=absent), SETTLED, LIMITS)
    made = {action.child for action in found.actions if isinstance(action, Apply)}
    assert made == set(Child) - {*STATEFUL, Child.SPARK_CONF, Child.KEYS}
