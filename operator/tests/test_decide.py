"""Single decisions, where the made-up cluster would only get by chance."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_children_rendering import dataflow

from binshift_operator.decide import decide
from binshift_operator.model.actions import Apply, DeletePod, PutTarget, StopQuery
from binshift_operator.model.names import Child
from binshift_operator.model.observed import REVISIONS, ChildState, ClaimState, ObservedChild, ObservedState
from binshift_operator.model.observed_runtime import ObservedRuntime, ObservedTarget, RunningEpoch, RunState
from binshift_operator.model.pods import Pod, PodState
from binshift_operator.model.situation import Timeouts
from binshift_operator.model.status import Awaiting, Condition, ConditionType, MigrationStatus, SettledTarget, Status
from binshift_operator.status import count_holding_slots

LIMITS = Timeouts()
NOW = 1000.0
FLOW = dataflow({"spec.replicas": 2})
SLOTS = frozenset({0, 1})


def pod(slot: int, driver: bool = False, **more: Any) -> Pod:
    """A pod that is as it should be."""
    name = f"clicks-{'driver' if driver else 'executor'}-{slot}"
    usual: dict[str, Any] = {"spec_hash": FLOW.restart_hash, "keys_hash": "k", "ready": True}
    return Pod(name, f"uid-{name}", slot, driver, **(usual | more))


def observed(executors: int = 2, runtime: dict[str, Any] | None = None, **more: Any) -> ObservedState:
    """A world in which everything is in place, except for the given differences."""
    children = {child: ObservedChild(ChildState.CURRENT, f"uid-{child}", "7") for child in Child}
    children[Child.EXECUTORS] = replace(children[Child.EXECUTORS], replicas=executors)
    children[Child.DRIVER] = replace(children[Child.DRIVER], replicas=1)
    children[Child.DISRUPTION_BUDGET] = replace(children[Child.DISRUPTION_BUDGET], max_unavailable=1)
    reported: dict[str, Any] = {
        "state": RunState.RUNNING,
        "epoch": 50,
        "committed_at": NOW,
        "route_version": 3,
        "holding": SLOTS,
        "registered": SLOTS,
        "target": ObservedTarget(FLOW.key.uid, REVISIONS, SLOTS, True),
        **(runtime or {}),
    }
    pods = (pod(0, driver=True), *(pod(slot) for slot in range(executors)))
    return ObservedState(
        **{
            "now": NOW,
            "children": children,
            "pods": pods,
            "keys_hash": "k",
            "runtime": ObservedRuntime(**reported),
            **more,
        }
    )


SETTLED = Status(observed_generation=1, settled_generation=1, settled_target=SettledTarget(REVISIONS, 40))


def test_nothing_to_do() -> None:
    """Where all is as it should be, nothing is done, and the generation is settled."""
    found = decide(FLOW, observed(), SETTLED, LIMITS)
    assert found.actions == ()
    assert found.status.settled_generation == 1
    assert found.requeue_after == LIMITS.rest_seconds


def test_shrinks_only_what_was_seen() -> None:
    """Pods beyond the target go by one write that names the object's version."""
    (action,) = decide(FLOW, observed(4), SETTLED, LIMITS).actions
    assert action == Apply(Child.EXECUTORS, 2, uid=f"uid-{Child.EXECUTORS}", resource_version="7")


@given(
    holding=st.sets(st.integers(0, 5), min_size=1),
    settled=st.booleans(),
    epoch=st.integers(40, 44),
    owner=st.sampled_from(["uid-1", "other"]),
    generation=st.sampled_from([0, REVISIONS, REVISIONS + 1, 2 * REVISIONS]),
    late=st.booleans(),
)
def test_never_shrinks_below_what_holds_bins(
    holding: set[int], settled: bool, epoch: int, owner: str, generation: int, late: bool
) -> None:
    """Whatever else is claimed, executors that hold bins, or whose target is not known to be ours and settled, stay."""
    target = ObservedTarget(owner, generation, SLOTS, settled)
    seen = observed(
        6, {"holding": frozenset(holding), "epoch": epoch, "target": target, "registered": frozenset(range(6))}
    )
    before = replace(SETTLED, timed_out_generation=1 if late else 0)
    for action in decide(FLOW, seen, before, LIMITS).actions:
        if isinstance(action, Apply) and action.child is Child.EXECUTORS and (action.replicas or 0) < 6:
            assert settled
            assert owner == FLOW.key.uid
            assert epoch > 40 or generation != REVISIONS
            assert max(holding) < (action.replicas or 0)


@pytest.mark.parametrize("runtime", [None, ObservedRuntime(RunState.LOADING), ObservedRuntime(RunState.FAILED, "x")])
def test_never_shrinks_blindly(runtime: ObservedRuntime | None) -> None:
    """While the runtime reports no bins, no executor is removed."""
    for action in decide(FLOW, replace(observed(5), runtime=runtime), SETTLED, LIMITS).actions:
        assert not isinstance(action, DeletePod)
        assert not (isinstance(action, Apply) and action.replicas is not None and action.replicas < 5)


def test_requests_a_stop_first() -> None:
    """A stop of a running query is requested before anything of it is touched, be it for an edit or a rest."""
    old = replace(observed(), pods=(replace(pod(0, driver=True), spec_hash="old"), pod(0), pod(1)))
    assert decide(FLOW, old, SETTLED, LIMITS).actions == (StopQuery(),)
    resting = dataflow({"spec.replicas": 2, "spec.suspend": True})
    assert decide(resting, observed(), SETTLED, LIMITS).actions == (StopQuery(),)


def test_resumes_with_those_that_held_bins() -> None:
    """On resume, executors are started for all slots that held bins when last seen: the first epoch needs them."""
    seen = replace(observed(0), runtime=None, pods=())
    actions = decide(FLOW, seen, replace(SETTLED, holding_slots=4), LIMITS).actions
    assert [action.replicas for action in actions if isinstance(action, Apply) and action.child is Child.EXECUTORS] == [
        4
    ]


def test_failed_migration_is_requested_again() -> None:
    """A migration that failed is requested again by a new revision, after a while; if it keeps failing, it is reported."""
    failed = MigrationStatus(1, "failed", REVISIONS, ended_at=NOW - 60, reason="worker 1 has no executor")
    target = ObservedTarget(FLOW.key.uid, REVISIONS, SLOTS, False)
    seen = observed(runtime={"migration": failed, "migration_workers": SLOTS, "target": target})
    assert decide(FLOW, seen, SETTLED, LIMITS).actions == (PutTarget(REVISIONS + 1, (0, 1)),)
    recent = replace(failed, ended_at=NOW - 1)
    soon = observed(runtime={"migration": recent, "migration_workers": SLOTS, "target": target})
    assert decide(FLOW, soon, SETTLED, LIMITS).actions == ()
    often = observed(
        runtime={"migration": recent, "migration_workers": SLOTS, "target": replace(target, generation=REVISIONS + 3)}
    )
    assert condition(decide(FLOW, often, SETTLED, LIMITS).status, ConditionType.DEGRADED).reason == "MigrationFailed"


def test_cancelled_on_request_stays_cancelled() -> None:
    """What a user has cancelled is not requested again, and the status names the way to continue."""
    by_hand = MigrationStatus(1, "cancelled", REVISIONS, ended_at=NOW - 600, reason="cancelled on request")
    target = ObservedTarget(FLOW.key.uid, REVISIONS, SLOTS, False)
    seen = observed(runtime={"migration": by_hand, "migration_workers": SLOTS, "target": target})
    found = decide(FLOW, seen, SETTLED, LIMITS)
    assert found.actions == ()
    assert condition(found.status, ConditionType.DEGRADED).reason == "MigrationCancelled"


@pytest.mark.parametrize(
    ("claim", "reason"),
    [(ClaimState.ABSENT, "CheckpointNotFound"), (ClaimState.NOT_SHARED, "CheckpointNotShared")],
)
def test_unusable_checkpoint(claim: ClaimState, reason: str) -> None:
    """Without a usable checkpoint nothing is started; what runs already continues, and both cases are reported."""
    absent = {child: ObservedChild(ChildState.ABSENT) for child in Child}
    fresh = ObservedState(NOW, absent, claim=claim)
    found = decide(FLOW, fresh, Status(), LIMITS)
    assert not [
        each for each in found.actions if isinstance(each, Apply) and each.child in (Child.DRIVER, Child.EXECUTORS)
    ]
    assert condition(found.status, ConditionType.DEGRADED).reason == reason
    running = decide(FLOW, replace(observed(), claim=claim), SETTLED, LIMITS)
    assert running.actions == ()
    assert condition(running.status, ConditionType.DEGRADED).reason == reason


def test_pod_that_does_not_end_is_freed() -> None:
    """A pod that should have ended is deleted by force, whatever it was deleted for, and no other pod ever is."""
    gone = replace(pod(1), deleting_since=NOW - 500, grace_seconds=120)
    for stuck, forced in ((gone, True), (pod(1), False), (replace(gone, deleting_since=NOW - 130), False)):
        seen = replace(observed(), pods=(pod(0, driver=True), pod(0), stuck))
        found = [each for each in decide(FLOW, seen, SETTLED, LIMITS).actions if isinstance(each, DeletePod)]
        assert [each.force for each in found] == [True] * forced


def condition(status: Status, kind: ConditionType) -> Condition:
    """A condition that must exist."""
    found = status.condition(kind)
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("runtime", "status", "reason"),
    [
        ({}, True, "EpochCommitted"),
        ({"committed_at": NOW - 100}, True, "Idle"),
        ({"committed_at": NOW - 100, "registered": frozenset({0})}, False, "WorkersAway"),
        ({"state": RunState.LOADING}, False, "Loading"),
        ({"state": RunState.FINISHED}, False, "Finished"),
        ({"epoch": -1, "committed_at": None, "holding": frozenset()}, True, "Idle"),
        ({"committed_at": NOW - 100, "running_epoch": RunningEpoch(51, 90.0)}, True, "EpochRunning"),
    ],
)
def test_ready(runtime: dict[str, Any], status: bool, reason: str) -> None:
    """Ready means that epochs are committed, or could be if there were input."""
    found = condition(decide(FLOW, observed(runtime=runtime), SETTLED, LIMITS).status, ConditionType.READY)
    assert (found.status, found.reason) == (status, reason)


def test_a_moments_silence_is_not_unready() -> None:
    """A control API that is silent for a moment does not make a ready dataflow unready; one that stays silent does."""
    ready = Condition(ConditionType.READY, True, "EpochCommitted", "", 1, 0.0)
    silent = replace(observed(), runtime=None, unreachable="timed out")
    for since, expected in ((NOW - 5, True), (NOW - 100, False)):
        before = replace(SETTLED, conditions=(ready,), awaiting=Awaiting("Runtime", since))
        found = condition(decide(FLOW, silent, before, LIMITS).status, ConditionType.READY)
        assert found.status is expected


@pytest.mark.parametrize("state", [state for state in PodState if state is not PodState.FINE])
def test_pod_problem_is_reported(state: PodState) -> None:
    """Every problem of a pod is a reason of Degraded, with its original message."""
    seen = replace(observed(), pods=(pod(0, driver=True), pod(0), replace(pod(1), state=state, message="this error")))
    found = condition(decide(FLOW, seen, SETTLED, LIMITS).status, ConditionType.DEGRADED)
    assert found.status is True
    assert "this error" in found.message


def test_messages_are_bounded() -> None:
    """A traceback without end is cut at its beginning."""
    seen = replace(observed(), runtime=ObservedRuntime(RunState.FAILED, "x" * 100_000 + "KeyError: 'y'"))
    found = condition(decide(FLOW, seen, SETTLED, LIMITS).status, ConditionType.DEGRADED)
    assert len(found.message) <= 1024
    assert found.message.endswith("KeyError: 'y'")


def test_history_is_bounded() -> None:
    """Five ended migrations are remembered, the newest first, each once."""
    status = SETTLED
    for number in range(1, 9):
        ended = MigrationStatus(
            number, "settled", REVISIONS, bins_total=4, started_at=number * 10.0, ended_at=number * 10.0 + 5
        )
        for _ in range(2):
            status = decide(
                FLOW, observed(runtime={"migration": ended, "migration_workers": SLOTS}), status, LIMITS
            ).status
    assert [each.id for each in status.history] == [8, 7, 6, 5, 4]


def test_workers_of_the_log_are_started_first() -> None:
    """A dataflow made again with fewer replicas: its program, while it loads, names the workers that hold the bins."""
    loading = ObservedRuntime(RunState.LOADING, holding=frozenset({0, 1, 2, 3}))
    actions = decide(FLOW, replace(observed(2), runtime=loading), Status(), LIMITS).actions
    executors = [a.replicas for a in actions if isinstance(a, Apply) and a.child is Child.EXECUTORS]
    assert executors == [4]
    assert count_holding_slots(loading, Status()) == 4
    assert count_holding_slots(replace(loading, holding=frozenset()), Status(holding_slots=3)) == 3
