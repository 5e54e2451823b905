"""A reconciliation of a settled dataflow costs two requests, and no action ever relies on a cached observation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sim_cluster import NAME, NS, RESYNC_SECONDS, SimCluster
from test_status_degraded import condition, start_cluster
from test_stopping_finished import ended

from binshift_operator.errors import Unreachable
from binshift_operator.memo import CachedObservation
from binshift_operator.model.names import Child
from binshift_operator.model.observed import ChildState, ClaimState, ObservedChild
from binshift_operator.reconcile import Reconciler

CHEAP_REQUESTS = [
    f"GET /apis/binshift.dev/v1alpha1/namespaces/{NS}/streamingdataflows/{NAME}",
    f"GET /api/v1/namespaces/{NS}/pods",
]
"""The requests of a reconciliation of a settled dataflow."""
SERVICE = ("Service", NS, f"{NAME}-driver")


def settle(cluster: SimCluster) -> SimCluster:
    """Everything was just read, nothing was to be done, and the status was published."""
    cluster.reconciler.invalidate(NS, NAME)
    cluster.reconcile()
    assert last(cluster) is not None
    return cluster


def last(cluster: SimCluster) -> CachedObservation | None:
    """What the operator remembers."""
    return cluster.reconciler._memos[(NS, NAME)].cached


def remember(cluster: SimCluster, false: CachedObservation) -> None:
    """Have it remember what is not so."""
    cluster.reconciler._memos[(NS, NAME)].cached = false


def requests_of_next_reconciliation(cluster: SimCluster) -> list[str]:
    """The requests of the next reconciliation."""
    cluster.reconcile()
    return cluster.server.requests


def suspend_cluster() -> SimCluster:
    """A dataflow without pods."""
    cluster = start_cluster()
    cluster.edit(suspend=True)
    cluster.converge()
    return cluster


@pytest.mark.parametrize(
    "make", [start_cluster, suspend_cluster, lambda: ended(SimCluster().start(2))], ids=["", "rests", "over"]
)
def test_settled_reconciliation_costs_two_requests(make: Callable[[], SimCluster]) -> None:
    """Running without input, suspended or ended: a reconciliation reads the resource and its pods, and writes nothing."""
    cluster = settle(make())
    for _ in range(3):
        assert requests_of_next_reconciliation(cluster) == CHEAP_REQUESTS


def test_figures_stay_up_to_date() -> None:
    """What the runtime reports is in the status, for one more write, once the current figures are old."""
    cluster = settle(start_cluster())
    cluster.tick(2)
    cluster.status["epochCommittedAt"] = "2023-11-14T22:00:00Z"
    epoch = cluster.log.epoch
    assert requests_of_next_reconciliation(cluster)[:2] == CHEAP_REQUESTS
    assert len(cluster.server.requests) == 3
    assert cluster.status["epoch"] == epoch


def test_everything_is_read_within_the_resync() -> None:
    """Without any event, an object that is not watched is repaired within the resync interval."""
    cluster = settle(start_cluster())
    cluster.deaf = True
    cluster.server.remove(SERVICE)
    cluster.reconcile()
    assert SERVICE not in cluster.server.objects
    cluster.run(int(RESYNC_SECONDS))
    assert SERVICE in cluster.server.objects


@pytest.mark.parametrize(
    "change",
    [
        lambda cluster: cluster.server.edit("StatefulSet", NS, f"{NAME}-executor", {"replicas": 3}),
        lambda cluster: cluster.server.remove(("Pod", NS, f"{NAME}-executor-0")),
        lambda cluster: cluster.edit(migration={"timeout": "1h"}),
        lambda cluster: cluster.reconciler.invalidate(NS, NAME),
    ],
    ids=["a StatefulSet", "a pod", "the spec", "anything"],
)
def test_an_event_ends_it(change: Callable[[SimCluster], object]) -> None:
    """After an event about anything that is watched, everything is read again."""
    cluster = settle(start_cluster())
    change(cluster)
    assert len(requests_of_next_reconciliation(cluster)) > 10


def test_event_during_a_reconciliation_is_not_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A change while everything is read leads to another full observation."""
    cluster = settle(start_cluster())
    observe = cluster.reconciler.observer.observe

    def meanwhile(*arguments: object) -> object:
        cluster.reconciler.invalidate(NS, NAME)
        return observe(*arguments)  # type: ignore[arg-type]

    cluster.reconciler.invalidate(NS, NAME)
    monkeypatch.setattr(type(cluster.reconciler.observer), "observe", lambda _, *arguments: meanwhile(*arguments))
    cluster.reconcile()
    assert len(requests_of_next_reconciliation(cluster)) > 10


@pytest.mark.parametrize("deaf", [False, True])
def test_other_pods_are_seen_without_an_event(deaf: bool) -> None:
    """A pod that is deleted, or recreated under its name, is noticed in the next reconciliation, with or without an event."""
    cluster = settle(start_cluster())
    cluster.deaf = deaf
    cluster.server.remove(("Pod", NS, f"{NAME}-executor-1"), at_once=True)
    assert len(requests_of_next_reconciliation(cluster)) > 10
    cluster.converge()
    settle(cluster)
    cluster.server.remove(("Pod", NS, f"{NAME}-executor-1"), at_once=True)
    cluster.tick()
    assert len(requests_of_next_reconciliation(cluster)) > 10


def test_silent_driver_is_observed_in_full() -> None:
    """Silence is no rest."""
    cluster = settle(start_cluster())
    cluster.silent = True
    assert len(requests_of_next_reconciliation(cluster)) > 10
    assert last(cluster) is None


def test_a_clock_that_is_set_back_keeps_nothing() -> None:
    """What was seen in the future is not believed."""
    cluster = settle(start_cluster())
    cluster.now -= 3600
    assert len(requests_of_next_reconciliation(cluster)) > 10


def test_problem_that_a_user_can_fix_is_not_cached() -> None:
    """A problem with the checkpoint is removed from the status in the first reconciliation after its repair."""
    cluster = start_cluster()
    claim = cluster.server.objects.pop(("PersistentVolumeClaim", NS, NAME))
    cluster.run(int(RESYNC_SECONDS))
    assert condition(cluster, "Degraded")["reason"] == "CheckpointNotFound"
    assert last(cluster) is None
    cluster.server.objects[("PersistentVolumeClaim", NS, NAME)] = claim
    cluster.reconcile()
    assert condition(cluster, "Degraded")["status"] == "False"


def test_no_resync_no_memory() -> None:
    """If the resync interval is shorter than that of a settled dataflow, everything is read every time."""
    cluster = settle(start_cluster())
    cluster.reconciler.resync_seconds = cluster.reconciler.timeouts.rest_seconds
    assert len(requests_of_next_reconciliation(cluster)) > 10


def test_a_token_does_not_show() -> None:
    """What is remembered can be printed."""
    seen = last(settle(start_cluster()))
    assert seen is not None
    assert seen.access is not None
    assert seen.access.token not in repr(seen)


FALSE = st.builds(
    ObservedChild,
    st.sampled_from(ChildState),
    uid=st.sampled_from(["", "uid-of-another"]),
    resource_version=st.sampled_from(["", "1"]),
    replicas=st.integers(0, 6),
    is_generation_observed=st.booleans(),
    retry_due=st.booleans(),
)


@given(
    children=st.dictionaries(st.sampled_from(Child), FALSE),
    keys=st.sampled_from([None, "another"]),
    claim=st.sampled_from(ClaimState),
    invalid=st.sampled_from(["", "too small"]),
    runs=st.booleans(),
)
def test_what_is_not_so_leads_to_nothing(
    children: dict[Child, ObservedChild], keys: str | None, claim: ClaimState, invalid: str, runs: bool
) -> None:
    """Whatever the cache has wrong, only the status is written, it reports no problem, and the cache is soon correct."""
    cluster = settle(PREPARED[runs].fork())
    seen = last(cluster)
    assert seen is not None
    # No problem is ever cached. A suspended dataflow, which needs neither claim nor spec, would report one that was.
    problems = {"claim": claim, "render_error": invalid} if runs else {}
    children = {**seen.observed.children, **children}
    observed = replace(seen.observed, children=children, keys_hash=keys, **problems)  # type: ignore[arg-type]
    remember(cluster, replace(seen, observed=observed))
    cluster.server.writes.clear()
    cluster.deaf = True
    cluster.run(int(RESYNC_SECONDS))
    assert [write for write in cluster.server.writes if "/status" not in write] == []
    assert cluster.settled()
    found = last(cluster)
    assert found is None or found.observed.children == seen.observed.children


PREPARED = {True: start_cluster(), False: suspend_cluster()}
"""Settled dataflows, with and without pods."""


def test_cached_observation_permits_no_action(monkeypatch: pytest.MonkeyPatch) -> None:
    """Should the operator ever try to act upon a cached observation, the reconciliation fails instead."""
    cluster = settle(start_cluster())
    cluster.server.remove(SERVICE)
    real = Reconciler._decide

    def mistaken(self: Reconciler, *arguments: object) -> object:
        seen, decision = real(self, *arguments)  # type: ignore[arg-type]
        return replace(seen, complete=False), decision

    monkeypatch.setattr(Reconciler, "_decide", mistaken)
    cluster.reconciler.invalidate(NS, NAME)
    cluster.server.writes.clear()
    with pytest.raises(AssertionError, match="cached observation"):
        cluster.reconciler.reconcile(NS, NAME)
    assert cluster.server.writes == []


def test_failed_cached_observation_leads_to_a_full_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """When the pods could not be read, nothing else is assumed in the next reconciliation."""
    cluster = settle(start_cluster())

    def away(*_: object) -> None:
        raise Unreachable("the API server is away")

    with monkeypatch.context() as patched:
        patched.setattr(type(cluster.reconciler.observer), "observe_pods", away)
        with pytest.raises(Unreachable):
            cluster.reconciler.reconcile(NS, NAME)
    assert len(requests_of_next_reconciliation(cluster)) > 10
