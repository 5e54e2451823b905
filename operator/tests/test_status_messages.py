"""Messages name the problem, the values that matter, and what to do: as a user reads them in `kubectl describe`."""

from __future__ import annotations

from dataclasses import replace

import pytest
from sim_cluster import NAME, NS, SimCluster
from test_decide import FLOW, LIMITS, NOW, SETTLED, SLOTS, observed
from test_decide import condition as find_condition
from test_status_degraded import condition, start_cluster

from binshift_operator.decide import decide
from binshift_operator.model.names import Child
from binshift_operator.model.observed import REVISIONS, ChildState, ObservedChild, ObservedState
from binshift_operator.model.observed_runtime import ObservedTarget
from binshift_operator.model.status import ConditionType, MigrationStatus


def degraded(state: ObservedState) -> str:
    """The message of a dataflow of which this is observed."""
    return find_condition(decide(FLOW, state, SETTLED, LIMITS).status, ConditionType.DEGRADED).message


def test_a_name_that_is_taken() -> None:
    """Kind and name of the object, both ways out, and a warning of the dangerous one."""
    children = dict(observed().children) | {Child.SERVICE_ACCOUNT: ObservedChild(ChildState.FOREIGN)}
    assert degraded(replace(observed(), children=children)) == (
        "There is a ServiceAccount named clicks that does not belong to this dataflow, which needs the name for its own. Rename the "
        "dataflow, or set spec.serviceAccountName: clicks to use yours. Do not delete the ServiceAccount unless you know that nothing "
        "uses it."
    )


@pytest.mark.parametrize(
    ("days", "ago"), [(0.5, ""), (1.0, ", 1 day ago"), (1.9, ", 1 day ago"), (9.0, ", 9 days ago")]
)
def test_an_idle_stream(days: float, ago: str) -> None:
    """The newest epoch and its time, with the days since then, and how many executors are registered."""
    committed = 300.0
    seen = replace(observed(runtime={"committed_at": committed, "epoch": 1184}), now=committed + days * 86_400)
    message = find_condition(decide(FLOW, seen, SETTLED, LIMITS).status, ConditionType.READY).message
    assert message == (
        f"No new input; the newest is 1184, committed at 00:05:00Z{ago}. The 2 executors that hold state are registered"
    )


def test_a_migration_that_timed_out() -> None:
    """What was stopped, after how long and by which field, how far it was, and both fields that make it succeed."""
    migration = MigrationStatus(1, "copying", REVISIONS, bins_moved=512, bins_total=1024, started_at=NOW - 1900.0)
    target = ObservedTarget(FLOW.key.uid, REVISIONS, SLOTS, False)
    seen = observed(runtime={"migration": migration, "migration_workers": SLOTS, "target": target})
    assert degraded(seen) == (
        "Rescaling to 2 executors was stopped after 1800 s (spec.migration.timeout): 512 of 1024 bins had moved, which stay where they "
        "are; the stream continues. Any edit of the spec retries; raise migration.timeout, or migration.latencyTarget (now a quarter "
        "above the calm latency) to make it faster"
    )


def test_a_driver_that_cannot_be_reached() -> None:
    """The address, the pod and its state, for how long, the error, and the two usual causes with the names to check."""
    cluster = start_cluster()
    cluster.silent = True
    cluster.run(200)
    assert condition(cluster, "Degraded")["message"] == (
        "The operator has not reached the control API of pod clicks-driver-0 (ready) for 3 min: http://driver: no answer. The stream may "
        "still be running. Check for a NetworkPolicy that blocks the operator's namespace (binshift), and for a driver without CPU: "
        "kubectl top pod clicks-driver-0"
    )
    assert "http://driver: no answer" in condition(cluster, "Ready")["message"]


def test_a_claim_that_one_node_can_write_to() -> None:
    """The claim with its access modes and class, why that does not suffice, and what does."""
    cluster = SimCluster()
    claim = {"kind": "PersistentVolumeClaim", "metadata": {"name": NAME, "namespace": NS}}
    spec = {"accessModes": ["ReadWriteOnce"], "storageClassName": "standard"}
    cluster.server.put("PersistentVolumeClaim", {**claim, "spec": spec})
    cluster.start(2)
    cluster.run(5)
    found = condition(cluster, "Degraded")
    assert found["reason"] == "CheckpointNotShared"
    assert found["message"] == (
        "PersistentVolumeClaim clicks (accessModes ReadWriteOnce; storageClassName standard) is not ReadWriteMany, and driver and "
        "executors on several nodes all write to it. Create a ReadWriteMany claim of a class such as NFS, CephFS, EFS, Filestore or "
        "Azure Files, or use checkpoint.location: s3://...; checkpoint is fixed, so create another dataflow with it"
    )


def test_objects_that_are_missing() -> None:
    """The name of the object, and the field that names it."""
    absent = {child: ObservedChild(ChildState.ABSENT) for child in Child}
    fresh = ObservedState(NOW, absent, credentials_missing="s3")
    assert degraded(fresh) == "there is no Secret s3 (checkpoint.credentialsSecret): create it"
