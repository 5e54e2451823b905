"""Dataflows whose spec cannot be read, as they are older than a rule of their definition: seen as before, and not touched."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sim_cluster import NAME, NS, SimCluster
from test_decide import LIMITS, NOW, SETTLED, observed, pod
from test_status_degraded import condition, start_cluster

from binshift_operator.decide import decide
from binshift_operator.model.names import Child
from binshift_operator.model.observed import ChildState, ObservedChild
from binshift_operator.model.observed_runtime import RunState
from binshift_operator.model.specification import parse, parse_invalid

ODD: list[dict[str, Any]] = [
    {"replicas": 0},
    {"replicas": "many"},
    {"migration": {"timeout": "soon"}},
    {"migration": "fast"},
    {"checkpoint": {}},
    {"application": None},
]
"""Edits that the definition's rules would refuse today."""


def unreadable(cluster: SimCluster) -> SimCluster:
    """The spec cannot be read any more, and nothing was written yet because of it."""
    cluster.edit(replicas=0)
    cluster.server.writes.clear()
    return cluster


def touched(cluster: SimCluster) -> list[str]:
    """What was written but status and events."""
    return [write for write in cluster.server.writes if not ("/status" in write or "/events" in write)]


@pytest.mark.parametrize("odd", ODD, ids=str)
def test_what_runs_is_seen_as_before(odd: dict[str, Any]) -> None:
    """Epochs, workers, phase and Ready stay up to date; Degraded has the error, and the generation is observed, not settled."""
    cluster = start_cluster(2)
    right = copy.deepcopy(cluster.dataflow["spec"])
    cluster.edit(**odd)
    cluster.run(3)
    epoch = cluster.status["epoch"]
    cluster.run(65)
    assert cluster.status["epoch"] > epoch
    assert (cluster.status["replicas"], cluster.status["readyReplicas"], cluster.status["phase"]) == (2, 2, "Running")
    assert condition(cluster, "Ready")["status"] == "True"
    assert (condition(cluster, "Degraded")["reason"], condition(cluster, "Progressing")["reason"]) == (
        "InvalidSpec",
        "Spec",
    )
    assert cluster.status["observedGeneration"] == cluster.dataflow["metadata"]["generation"]
    assert not cluster.settled()
    cluster.edit(**{"migration": {}, **right})
    cluster.converge()


def test_failure_with_an_invalid_spec_is_reported() -> None:
    """A driver that goes silent, and pods that go, are in the status; so is that they are back."""
    cluster = unreadable(start_cluster(2))
    cluster.silent = True
    cluster.run(40)
    assert (condition(cluster, "Ready")["status"], condition(cluster, "Progressing")["reason"]) == ("False", "Runtime")
    assert cluster.status["readyReplicas"] == 0
    cluster.silent, cluster.no_pods = False, "exceeded quota"
    cluster.server.remove(("Pod", NS, f"{NAME}-executor-1"), at_once=True)
    cluster.run(5)
    assert (cluster.status["replicas"], cluster.status["readyReplicas"]) == (1, 1)
    assert condition(cluster, "Ready")["reason"] == "WorkersAway"
    cluster.no_pods = ""
    cluster.run(5)
    assert (cluster.status["replicas"], condition(cluster, "Ready")["status"]) == (2, "True")
    assert touched(cluster) == []


def test_children_are_left_alone() -> None:
    """What goes, or is changed by hand, is left so until the spec can be read; then it is put right."""
    cluster = unreadable(start_cluster(2))
    cluster.server.remove(("Service", NS, f"{NAME}-driver"))
    cluster.server.edit("StatefulSet", NS, f"{NAME}-executor", {"replicas": 3})
    cluster.run(30)
    assert touched(cluster) == []
    cluster.edit(replicas=2)
    cluster.converge()


def test_suspended_dataflow_is_not_reported_as_suspending() -> None:
    """A suspended dataflow without pods is still reported as suspended."""
    cluster = start_cluster(2)
    cluster.edit(suspend=True)
    cluster.converge()
    unreadable(cluster).run(3)
    assert (cluster.status["phase"], condition(cluster, "Ready")["reason"]) == ("Suspended", "Suspended")


@given(
    found=st.sampled_from(ChildState),
    again=st.booleans(),
    lost=st.booleans(),
    state=st.one_of(st.none(), st.sampled_from(RunState)),
    finished=st.sampled_from([0, 1]),
    spec=st.sampled_from([None, [], "x", {"suspend": True}, {"suspend": "yes"}]),
)
def test_nothing_is_done(
    found: ChildState, again: bool, lost: bool, state: RunState | None, finished: int, spec: object
) -> None:
    """Whatever is, an unreadable spec is no reason to do anything; pods of other specs and on lost nodes stay, too."""
    meta = {"namespace": "ns", "name": "clicks", "uid": "uid-1", "generation": 1}
    flow = parse_invalid({"metadata": meta, "spec": spec}, "replicas is 0")
    seen = observed(runtime={"state": state or RunState.RUNNING})
    gone = replace(pod(1), deleting_since=NOW - 5000, node_lost=lost, spec_hash="old")
    children = {child: ObservedChild(found, "u", "7", retry_due=again) for child in Child}
    odd = replace(
        seen,
        children=children,
        pods=(pod(0, driver=True), gone),
        runtime=seen.runtime if state else None,
        render_error="x",
    )
    decision = decide(flow, odd, replace(SETTLED, finished_generation=finished), LIMITS)
    assert decision.actions == ()
    assert decision.status.settled_generation == SETTLED.settled_generation


@pytest.mark.parametrize("odd", ODD, ids=str)
def test_what_is_odd_cannot_be_read(odd: dict[str, Any]) -> None:
    """The odd edits of these tests are indeed refused by who reads."""
    made = copy.deepcopy(start_cluster().dataflow)
    made["spec"].update(odd)
    with pytest.raises((AttributeError, KeyError, TypeError, ValueError)):
        parse(made)
