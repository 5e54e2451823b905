"""What is reported when something is wrong around a dataflow, and what continues anyway."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from prometheus_client.registry import CollectorRegistry
from sim_cluster import NAME, NS, RESYNC_SECONDS, SDF, SimCluster
from sim_runtime import Query

from binshift_operator import reconcile
from binshift_operator.driver_client import DriverClient
from binshift_operator.errors import Forbidden, TimedOut, Unreachable
from binshift_operator.memo import CONTROL_BACKOFF_SECONDS, TRANSIENT_FAILURES_MAX, Memo
from binshift_operator.metrics import OUTCOMES, OperatorMetrics
from binshift_operator.model.names import DataflowKey
from binshift_operator.model.reasons import ProgressingReason
from binshift_operator.model.status import Awaiting, Status

SMALL = {"resources": {"limits": {"memory": "600Mi"}}}


def start_cluster(replicas: int = 2) -> SimCluster:
    """A dataflow that has come up."""
    cluster = SimCluster().start(replicas)
    cluster.converge()
    return cluster


def condition(cluster: SimCluster, kind: str) -> dict[str, str]:
    """One of the conditions."""
    return next(each for each in cluster.status["conditions"] if each["type"] == kind)


def test_invalid_spec_does_not_stop_observation() -> None:
    """While the spec cannot be rendered, epochs, Ready and phase are unchanged, and children that can be rendered are repaired."""
    cluster = start_cluster()
    cluster.edit(executor=SMALL)
    cluster.run(3)
    epoch = cluster.status["epoch"]
    cluster.server.remove(("Service", NS, f"{NAME}-driver"))
    cluster.run(65)
    assert cluster.status["epoch"] > epoch
    assert cluster.status["phase"] == "Running"
    assert condition(cluster, "Ready")["status"] == "True"
    assert (condition(cluster, "Degraded")["reason"], cluster.settled()) == ("InvalidSpec", False)
    assert ("Service", NS, f"{NAME}-driver") in cluster.server.objects
    cluster.silent = True
    cluster.run(40)
    assert condition(cluster, "Ready")["status"] == "False"
    cluster.edit(executor={})
    cluster.converge()


def test_a_wrong_spec_can_be_suspended() -> None:
    """A running dataflow is brought to rest although its pods cannot be rendered, in order, and comes back with a right spec."""
    cluster = start_cluster(3)
    cluster.edit(executor=SMALL)
    cluster.run(3)
    cluster.edit(suspend=True)
    cluster.run(30)
    assert not [key for key in cluster.server.objects if key[0] == "Pod"]
    assert cluster.status["phase"] == "Suspended"
    assert condition(cluster, "Degraded")["reason"] == "InvalidSpec"
    cluster.edit(suspend=False)
    cluster.run(10)
    assert not [key for key in cluster.server.objects if key[0] == "Pod"]
    cluster.edit(executor={})
    cluster.converge()


def test_what_the_api_server_refuses_stops_nothing() -> None:
    """Templates that the API server rejects are reported, and the stream continues with the existing pods; an edit repairs it."""
    cluster = start_cluster()
    pods = {pod["metadata"]["uid"] for pod in cluster.pods("executor") + cluster.pods("driver")}
    cluster.server.refusing = {"statefulsets": (422, "nodeSelector: Invalid value")}
    cluster.edit(executor={"pod": {"nodeSelector": {"a b": "c"}}})
    epoch = cluster.log.epoch
    cluster.run(30)
    assert cluster.log.epoch >= epoch + 28
    assert {pod["metadata"]["uid"] for pod in cluster.pods("executor") + cluster.pods("driver")} == pods
    degraded = condition(cluster, "Degraded")
    assert (degraded["reason"], "Invalid value" in degraded["message"]) == ("Refused", True)
    assert (condition(cluster, "Ready")["status"], cluster.status["phase"]) == ("True", "Running")
    assert condition(cluster, "Progressing")["reason"] == "Spec"
    cluster.edit(executor={})
    cluster.converge()
    assert {pod["metadata"]["uid"] for pod in cluster.pods("executor") + cluster.pods("driver")} == pods


def test_invalid_size_is_reported() -> None:
    """A heap that Spark could not read is reported before anything is restarted for it."""
    cluster = start_cluster()
    cluster.edit(sparkConf={"spark.executor.memory": "2Gi"})
    cluster.run(3)
    assert "spark.executor.memory is '2Gi'" in condition(cluster, "Degraded")["message"]
    assert condition(cluster, "Ready")["status"] == "True"


def test_unreadable_memory_is_reported() -> None:
    """An object that is older than the rules of its definition is reported; it counts while it exists, and no longer."""
    cluster = SimCluster().start()
    registry = CollectorRegistry()
    cluster.reconciler.metrics = OperatorMetrics(registry)
    cluster.edit(replicas=0)
    cluster.reconcile()
    assert "suspend: true" in condition(cluster, "Degraded")["message"]
    assert registry.get_sample_value("binshift_operator_dataflows", {"condition": "Degraded"}) == 1
    assert registry.get_sample_value("binshift_operator_troubles", {"reason": "InvalidSpec"}) == 1
    cluster.server.remove(SDF)
    cluster.reconcile()
    assert registry.get_sample_value("binshift_operator_troubles", {"reason": "InvalidSpec"}) == 0
    assert registry.get_sample_value("binshift_operator_dataflows", {"condition": "Degraded"}) == 0


def test_stuck_epoch_is_reported() -> None:
    """A dataflow with a stuck epoch is not ready, the status reports for how long and what to check, and it recovers by itself."""
    cluster = start_cluster()
    (query,) = cluster.queries.values()
    query.hanging = True
    cluster.run(10)
    assert (condition(cluster, "Ready")["status"], condition(cluster, "Ready")["reason"]) == ("True", "EpochRunning")
    cluster.run(10)
    assert (condition(cluster, "Ready")["status"], condition(cluster, "Ready")["reason"]) == ("False", "EpochHangs")
    degraded = condition(cluster, "Degraded")
    assert (degraded["status"], degraded["reason"]) == ("True", "EpochHangs")
    assert f"epoch {cluster.log.epoch + 1} has been running for over 15 s" in degraded["message"]
    assert "check the sink" in degraded["message"]
    cluster.run(60)
    assert "over 1 min" in condition(cluster, "Degraded")["message"]
    query.hanging = False
    cluster.converge()
    assert condition(cluster, "Ready")["status"] == "True"


def test_counters_are_there_before_they_count() -> None:
    """All reasons and outcomes are shown as 0 before they occur: otherwise their first occurrence would be lost."""
    registry = CollectorRegistry()
    metrics = OperatorMetrics(registry)
    for reason in ProgressingReason:
        assert registry.get_sample_value("binshift_operator_awaited_seconds_count", {"reason": reason.value}) == 0
    for outcome in OUTCOMES:
        assert registry.get_sample_value("binshift_operator_reconciles_total", {"outcome": outcome}) == 0
    metrics.record_status(
        DataflowKey("ns", "clicks", "a"),
        Status(awaiting=Awaiting(ProgressingReason.REGISTRATION.value, 10.0)),
        Status(),
        25.0,
    )
    assert registry.get_sample_value("binshift_operator_awaited_seconds_sum", {"reason": "Registration"}) == 15


def test_another_of_the_same_name_counts_once() -> None:
    """A dataflow that replaces another one of its name, whose deletion was not observed, leaves no stale metric."""
    registry = CollectorRegistry()
    metrics = OperatorMetrics(registry)
    for uid in ("a", "b"):
        metrics.record_status(DataflowKey("ns", "clicks", uid), Status(), Status(), 0.0)
    assert registry.get_sample_value("binshift_operator_phases", {"phase": "Pending"}) == 1
    metrics.remove("ns", "clicks")
    assert registry.get_sample_value("binshift_operator_phases", {"phase": "Pending"}) == 0


def test_the_operators_own_mistake_is_not_the_users(monkeypatch: pytest.MonkeyPatch) -> None:
    """An error of the operator's own ends the reconciliation, and is not reported as a wrong spec."""
    cluster = start_cluster()

    def mistaken(*_: object) -> None:
        raise KeyError("x")

    monkeypatch.setattr(reconcile, "decide", mistaken)
    with pytest.raises(KeyError):
        cluster.reconciler.reconcile(NS, NAME)
    assert condition(cluster, "Degraded")["status"] == "False"


def test_pods_that_cannot_be_made() -> None:
    """Pods that a quota forbids are reported with the controller's message, after a while, although there is no pod."""
    cluster = start_cluster(2)
    cluster.no_pods = "exceeded quota: small"
    cluster.edit(replicas=4)
    cluster.run(20)
    assert condition(cluster, "Degraded")["status"] == "False"
    cluster.run(25)
    degraded = condition(cluster, "Degraded")
    assert degraded["reason"] == "PodsNotCreated"
    assert "2 pods are not created" in degraded["message"]
    assert "exceeded quota: small" in degraded["message"]
    cluster.converge()


def test_pods_that_cannot_be_made_without_the_right_to_events(monkeypatch: pytest.MonkeyPatch) -> None:
    """An operator without the right to list events reports less, and works as before."""
    cluster = start_cluster(2)
    listed = cluster.reconciler.kube.list

    def forbidden(kind: str, *more: Any, **named: Any) -> Any:
        if kind == "Event":
            raise Forbidden("no")
        return listed(kind, *more, **named)

    monkeypatch.setattr(cluster.reconciler.observer.kube, "list", forbidden)
    cluster.no_pods = "exceeded quota: small"
    cluster.edit(replicas=4)
    cluster.run(45)
    assert condition(cluster, "Degraded")["reason"] == "PodsNotCreated"


def test_writes_that_a_webhook_fails_are_reported() -> None:
    """A write that fails repeatedly is reported with the response; until then it is not, and the waits grow."""
    cluster = start_cluster()
    cluster.server.refusing = {"services": (500, "failed calling webhook")}
    cluster.tick(int(RESYNC_SECONDS))
    cluster.server.remove(("Service", NS, f"{NAME}-driver"))
    with pytest.raises(Unreachable, match=r"DriverService.*failed calling webhook"):
        cluster.reconciler.reconcile(NS, NAME)
    assert condition(cluster, "Degraded")["status"] == "False"
    cluster.run(TRANSIENT_FAILURES_MAX + 1)
    assert condition(cluster, "Degraded")["reason"] == "Refused"
    assert "failed calling webhook" in condition(cluster, "Degraded")["message"]
    cluster.converge()


def test_rejected_targets_are_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    """A driver that rejects targets is reported, with its message."""
    cluster = start_cluster()

    def no(*_: object) -> None:
        raise Forbidden("only the owner may")

    with monkeypatch.context() as patched:
        patched.setattr(Query, "_put", no)
        cluster.edit(replicas=3)
        cluster.run(TRANSIENT_FAILURES_MAX + 10)
        assert condition(cluster, "Degraded")["reason"] == "Refused"
        assert "target for the runtime: only the owner may" in condition(cluster, "Degraded")["message"]
    cluster.converge()


def test_failures_in_a_row() -> None:
    """A rejected write is reported at once, a failing one after some consecutive attempts."""
    memo = Memo("u")
    memo.record_failure("ConfigMap", "no such field", permanent=True)
    assert memo.refusals == {"ConfigMap": "no such field"}
    for _ in range(TRANSIENT_FAILURES_MAX - 1):
        memo.record_failure("target for the runtime", "not yet", permanent=False)
    assert memo.refusals == {}
    memo.record_failure("request to stop", "not yet", permanent=False)
    assert memo.refusals == {}
    for _ in range(TRANSIENT_FAILURES_MAX - 1):
        memo.record_failure("request to stop", "not yet", permanent=False)
    assert list(memo.refusals) == ["request to stop"]


def test_a_dead_driver_holds_no_threads() -> None:
    """A control API that did not answer in time is left alone for some seconds; that of a new pod is read at once."""
    cluster = start_cluster()
    reads: list[float] = []

    class Late(DriverClient):
        def _request(self, method: str, path: str, body: Any = None) -> Any:
            reads.append(cluster.now)
            raise TimedOut("timed out")

    cluster.reconciler.observer = replace(cluster.reconciler.observer, connect=Late)
    cluster.silent = True
    cluster.run(int(2 * CONTROL_BACKOFF_SECONDS) - 5)
    assert len(reads) == 2
    cluster.server.remove(("Pod", NS, f"{NAME}-driver-0"), at_once=True)
    cluster.queries.clear()
    cluster.tick()
    cluster.reconcile()
    assert len(reads) == 3


def test_memos_are_of_one_dataflow() -> None:
    """Another dataflow that takes the name inherits nothing that was noted of the one before."""
    reconciler = SimCluster().reconciler
    first = reconciler._memo(DataflowKey(NS, NAME, "a"))
    assert reconciler._memo(DataflowKey(NS, NAME, "a")) is first
    assert reconciler._memo(DataflowKey(NS, NAME, "b")) is not first


def test_an_autoscaler_hides_no_dead_driver() -> None:
    """Edits that are more frequent than the report of a silent driver do not delay it: the stream is not Ready, and Degraded has the reason."""
    cluster = start_cluster()
    cluster.silent = True
    for edit in range(20):
        cluster.edit(replicas=2 + edit % 2)
        cluster.run(15)
    assert condition(cluster, "Ready")["status"] == "False"
    assert condition(cluster, "Degraded")["reason"] == "ControlUnreachable"
