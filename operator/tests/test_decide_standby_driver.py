"""Single decisions about two drivers: when the standby is activated, and what happens to the other one first."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from rendering import WITH_STANDBY
from sim_cluster import NAME, NS
from sim_standby import StandbyCluster
from test_children_rendering import dataflow
from test_decide import LIMITS, NOW, SETTLED, observed, pod

from binshift_operator.decide import decide
from binshift_operator.driver_access import DriverAccess
from binshift_operator.events import action_events
from binshift_operator.kube import Kube
from binshift_operator.model.actions import Action, Activate, DeletePod
from binshift_operator.model.driver_status import DriverStatus
from binshift_operator.model.drivers import DriverReport, choose_driver
from binshift_operator.model.executor_class import dataflow_hash
from binshift_operator.model.names import Child, DataflowKey
from binshift_operator.model.observed import ObservedState
from binshift_operator.model.observed_runtime import ObservedRuntime, RunState
from binshift_operator.model.reasons import ProgressingReason
from binshift_operator.model.specification import Dataflow
from binshift_operator.model.status import Status

FLOW = dataflow({"spec.replicas": 2, **WITH_STANDBY})
WAITS = DriverReport(ObservedRuntime(RunState.STANDBY, active=False))
REFUSED = DriverReport(None, "refused", silent_since=NOW)
BEFORE = replace(SETTLED, driver=DriverStatus("clicks-driver-0", "uid-clicks-driver-0", "clicks-driver-1"))
OLD, NEW = "clicks-driver-0", "clicks-driver-1"


def runs(state: RunState = RunState.RUNNING, active: bool | None = True) -> DriverReport:
    """The report of a driver whose query runs."""
    runtime = observed().runtime
    assert runtime is not None
    return DriverReport(replace(runtime, state=state, active=active))


def timed_out(seconds: float) -> DriverReport:
    """The report of a driver that has not answered for so long."""
    return DriverReport(None, "no answer", timed_out=True, silent_since=NOW - seconds)


def world(first: DriverReport, second: DriverReport = WAITS, **of_first: Any) -> ObservedState:
    """Two drivers' pods with these reports, and everything else in place."""
    hashes: dict[str, Any] = {"spec_hash": FLOW.restart_hash, "dataflow_hash": dataflow_hash(FLOW)}
    drivers = pod(0, driver=True, **{**hashes, **of_first}), pod(1, driver=True, **hashes)
    executors = tuple(replace(each, **hashes) for each in observed().executors)
    found = observed(pods=(*drivers, *executors))
    children = {**found.children, Child.DRIVER: replace(found.children[Child.DRIVER], replicas=2)}
    reports = dict(zip((each.uid for each in drivers), (first, second), strict=True))
    found = replace(found, children=children, reports=reports)
    chosen = found.driver
    assert chosen is not None
    return replace(found, runtime=reports[chosen.uid].runtime, unreachable=reports[chosen.uid].error)


def acts(found: ObservedState, before: Status = BEFORE, flow: Dataflow = FLOW) -> tuple[Action, ...]:
    """What is decided."""
    return decide(flow, found, before, LIMITS).actions


def kinds(actions: tuple[Action, ...]) -> list[tuple[str, str]]:
    """Deletions and activations, with their pods."""
    return [(type(each).__name__, each.name) for each in actions if isinstance(each, Activate | DeletePod)]


TAKES_OVER = [("DeletePod", OLD), ("Activate", NEW)]


@pytest.mark.parametrize(
    ("first", "of_first", "expected"),
    [
        (runs(), {}, []),
        (runs(), {"ready": False}, []),
        (runs(RunState.LOADING), {"ready": False}, []),
        (runs(RunState.FAILED), {}, []),
        (timed_out(5), {}, []),
        (timed_out(5), {"ready": False}, []),
        (timed_out(11), {}, TAKES_OVER),
        (REFUSED, {}, []),
        (REFUSED, {"ready": False}, TAKES_OVER),
        (runs(), {"deleting_since": NOW - 2}, []),
        (runs(), {"deleting_since": NOW - 11}, [("Activate", NEW)]),
        (runs(RunState.STOPPED), {"deleting_since": NOW - 2}, [("Activate", NEW)]),
        (timed_out(0), {"deleting_since": NOW}, [("Activate", NEW)]),
        (WAITS, {}, [("Activate", NEW)]),
    ],
)
def test_when_the_standby_takes_over(
    first: DriverReport, of_first: dict[str, Any], expected: list[tuple[str, str]]
) -> None:
    """(I8) A driver that may be active is deleted before another one is activated, and none is while one is known to be."""
    assert kinds(acts(world(first, **of_first))) == expected


def test_a_first_start_is_no_take_over() -> None:
    """Of two drivers that wait, or begin to, the first is activated, which is no event; one that does not answer yet is left alone."""
    actions = acts(world(WAITS), before=Status())
    assert kinds(actions) == [("Activate", OLD)]
    assert not [each for each in action_events(actions, world(WAITS)) if each.reason == "StandbyActivated"]
    starting = world(REFUSED, DriverReport(ObservedRuntime(RunState.LOADING, active=False)), ready=False)
    assert kinds(acts(starting, before=Status())) == [("Activate", NEW)]


def test_the_event_has_the_reason() -> None:
    """The event of a take-over names both pods, and why."""
    found = world(REFUSED, ready=False, message="container driver was killed")
    (event,) = (each for each in action_events(acts(found), found) if each.reason == "StandbyActivated")
    assert event.message == (
        f"pod {NEW} is the active driver: pod {OLD} is not ready and does not answer: container driver was killed"
    )


def test_a_fenced_driver_comes_back_as_the_standby() -> None:
    """A driver from which another one has taken the checkpoint is deleted; one of a version without standbys is not."""
    assert kinds(acts(world(runs(RunState.FENCED), runs()))) == [("DeletePod", OLD)]
    assert kinds(acts(world(runs(RunState.FENCED, active=None), runs(active=None)))) == []


def test_an_epoch_that_ends_is_awaited() -> None:
    """While a driver whose pod is deleted finishes its epoch, the status names both; nothing is settled."""
    decision = decide(FLOW, world(runs(), deleting_since=NOW - 2), BEFORE, LIMITS)
    assert decision.status.awaiting is not None
    assert decision.status.awaiting.reason == ProgressingReason.RUNTIME
    assert decision.status.driver == BEFORE.driver


def test_nothing_is_activated_for_a_stream_that_is_to_stop() -> None:
    """A paused or a suspended dataflow activates no driver."""
    assert kinds(acts(world(WAITS), flow=replace(FLOW, paused=True))) == []
    assert kinds(acts(world(WAITS), flow=replace(FLOW, suspend=True))) == []


def test_the_active_driver_is_chosen() -> None:
    """The driver is the active one, rather than one that is silent, rather than a standby; of two active ones, that which is not fenced."""
    pods = pod(0, driver=True), pod(1, driver=True)
    first, second = (each.uid for each in pods)
    for reports, expected in (
        ({first: WAITS, second: runs()}, pods[1]),
        ({first: WAITS, second: REFUSED}, pods[1]),
        ({first: runs(RunState.FENCED), second: runs(RunState.LOADING)}, pods[1]),
        ({first: WAITS, second: WAITS}, pods[0]),
    ):
        assert choose_driver(pods, reports) == expected
    assert choose_driver((), {}) is None


def test_snapshots_are_requested_of_the_active_driver() -> None:
    """What needs only the control API of a dataflow finds that of its active driver."""
    cluster = StandbyCluster().start()
    cluster.converge()
    cluster.server.remove(("Pod", NS, f"{NAME}-driver-0"))
    cluster.converge()
    key = DataflowKey(NS, NAME, cluster.dataflow["metadata"]["uid"])
    client = DriverAccess(Kube(cluster.server), cluster.address, cluster._connected).client(key)
    assert not isinstance(client, str)
    assert client.dataflow().active is True
    assert cluster.driver(1).active
