"""`checkpoint.restoreFrom`: a dataflow starts once its snapshot is complete, and with it; later the snapshot can be gone."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from sim_cluster import NAME, NS
from sim_rolling import condition, uids
from sim_snapshots import SnapshotCluster

from binshift_operator.model.locations import checkpoint_directory, claim_of, snapshot_location
from binshift_operator.model.names import SNAPSHOT_KIND, Child, DataflowKey
from binshift_operator.model.snapshot_spec import SnapshotSchedule
from binshift_operator.model.specification import Checkpoint, Dataflow

KEY = "spark.binshift.restoreFrom"
LOCATION = "s3a://backups/first"


def cloned(**restore: str) -> SnapshotCluster:
    """A dataflow that was just created, whose checkpoint is to begin with something."""
    cluster = SnapshotCluster()
    cluster.start()
    cluster.dataflow["spec"]["checkpoint"] = {"claimName": NAME, "restoreFrom": restore}
    return cluster


def put(cluster: SnapshotCluster, phase: str = "Complete", name: str = "first", **status: Any) -> None:
    """A snapshot of another dataflow, in a phase."""
    cluster.server.objects.pop((SNAPSHOT_KIND, NS, name), None)
    meta = {"name": name, "namespace": NS}
    status = {"phase": phase, "location": LOCATION, "message": "as reported", **status}
    found = {"kind": SNAPSHOT_KIND, "metadata": meta, "spec": {"dataflow": "views"}, "status": status}
    cluster.server.put(SNAPSHOT_KIND, found)


def conf(cluster: SnapshotCluster) -> str:
    """What Spark's conf has of it; empty if it has nothing, or does not exist."""
    found = cluster.server.objects.get(("ConfigMap", NS, DataflowKey(NS, NAME, "").child(Child.SPARK_CONF)))
    lines = [] if found is None else found["data"]["spark-defaults.conf"].splitlines()
    return next((line.partition(" ")[2] for line in lines if line.startswith(f"{KEY} ")), "")


def run_to_first_driver(cluster: SnapshotCluster) -> None:
    """Until the driver's pod is created."""
    cluster.until(lambda: bool(cluster.pods("driver")))


@pytest.mark.parametrize("phase", ["", "Pending", "Copying"])
def test_waits_for_its_snapshot(phase: str) -> None:
    """Nothing is started before the snapshot is complete, which is no problem; then the driver's conf has its location."""
    cluster = cloned(snapshot="first")
    put(cluster, phase)
    cluster.run(40)
    assert not cluster.pods("driver") + cluster.pods("executor")
    assert condition(cluster, "Progressing")["reason"] == "Snapshot"
    assert condition(cluster, "Degraded")["status"] == "False"
    put(cluster)
    run_to_first_driver(cluster)
    assert conf(cluster) == LOCATION
    cluster.converge()


@pytest.mark.parametrize(
    ("status", "message"),
    [
        (None, "there is no StreamingDataflowSnapshot first"),
        ({"phase": "Failed"}, "is Failed: as reported"),
        ({"claimName": "other", "location": "/checkpoint/x"}, "checkpoint.claimName other"),
    ],
    ids=["missing", "failed", "on another claim"],
)
def test_unusable(status: dict[str, Any] | None, message: str) -> None:
    """What cannot be restored is reported, and nothing is started, until it is replaced."""
    cluster = cloned(snapshot="first")
    if status is not None:
        put(cluster, **status)
    cluster.run(40)
    assert not cluster.pods("driver") + cluster.pods("executor")
    assert condition(cluster, "Degraded")["reason"] == "SnapshotUnusable"
    assert message in condition(cluster, "Degraded")["message"]
    put(cluster, claimName=NAME)
    run_to_first_driver(cluster)
    assert conf(cluster) == LOCATION
    cluster.converge()


@pytest.mark.parametrize(("given", "rendered"), [("s3://a/b", "s3a://a/b"), ("/checkpoint/b", "/checkpoint/b")])
def test_location(given: str, rendered: str) -> None:
    """A location needs no snapshot's object."""
    cluster = cloned(location=given)
    run_to_first_driver(cluster)
    assert conf(cluster) == rendered


@pytest.mark.parametrize("writes", range(1, 24))
def test_operator_crashes_after_each_write(writes: int) -> None:
    """No driver is ever started without the location."""
    cluster = cloned(snapshot="first")
    put(cluster, "Copying")
    cluster.server.crash_after = writes
    cluster.run(3)
    put(cluster)
    run_to_first_driver(cluster)
    assert conf(cluster) == LOCATION
    cluster.converge()


@pytest.mark.parametrize("restore", [{"snapshot": "first"}, {"location": LOCATION}], ids=lambda each: next(iter(each)))
def test_a_running_dataflow_needs_no_snapshot(restore: dict[str, str]) -> None:
    """The snapshot can be deleted: neither a restart nor a new start needs it, and both have its location."""
    cluster = cloned(**restore)
    put(cluster)
    cluster.converge()
    cluster.server.remove((SNAPSHOT_KIND, NS, "first"))
    cluster.restart_operator()
    cluster.edit(restartNonce=1)
    cluster.converge()
    for suspend in (True, False):
        cluster.edit(suspend=suspend)
        cluster.converge()
    assert conf(cluster) == LOCATION


@pytest.mark.parametrize("other", [{"snapshot": "second"}, {"location": "/elsewhere"}, None])
def test_an_edit_restarts_nothing(other: dict[str, str] | None) -> None:
    """The field can be changed or removed while the stream runs; the next start has the new value."""
    cluster = cloned(snapshot="first")
    put(cluster)
    put(cluster, name="second", location="s3a://backups/second")
    cluster.converge()
    driver, executors = uids(cluster, "driver"), uids(cluster)
    cluster.edit(checkpoint={"claimName": NAME} | ({} if other is None else {"restoreFrom": other}))
    cluster.converge()
    assert (uids(cluster, "driver"), uids(cluster)) == (driver, executors)
    assert conf(cluster) == ("" if other is None else other.get("location", "s3a://backups/second"))


def test_an_edit_that_names_no_snapshot() -> None:
    """It is reported while the stream runs, which continues; a new start waits, as it could be meant for an empty checkpoint."""
    cluster = cloned(location=LOCATION)
    cluster.converge()
    driver = uids(cluster, "driver")
    cluster.edit(checkpoint={"claimName": NAME, "restoreFrom": {"snapshot": "gone"}})
    cluster.run(30)
    assert condition(cluster, "Degraded")["reason"] == "SnapshotUnusable"
    assert uids(cluster, "driver") == driver
    cluster.edit(suspend=True)
    cluster.run(30)
    cluster.edit(suspend=False)
    cluster.run(30)
    assert not cluster.pods("driver")
    assert condition(cluster, "Progressing")["reason"] == "Snapshot"
    cluster.edit(checkpoint={"claimName": NAME})
    cluster.converge()


def test_a_settled_dataflow_costs_the_same() -> None:
    """Once the location is known, the snapshot is read no more."""
    cluster = cloned(snapshot="first")
    put(cluster)
    cluster.converge()
    cluster.reconciler.invalidate(NS, NAME)
    cluster.reconcile()
    assert not [each for each in cluster.server.requests if "snapshots" in each]
    assert cluster.status["restoreFrom"] == {"snapshot": "first", "location": LOCATION}


def test_lost_snapshot_before_the_first_epoch() -> None:
    """A driver that has started and recorded nothing keeps its conf, and its pod, when the snapshot is deleted."""
    cluster = cloned(snapshot="first")
    put(cluster)
    cluster.ending = False
    cluster.no_pods = "quota"
    run_to_first_driver(cluster)
    cluster.run(5)
    driver = uids(cluster, "driver")
    cluster.server.remove((SNAPSHOT_KIND, NS, "first"))
    cluster.run(60)
    assert conf(cluster) == LOCATION
    assert uids(cluster, "driver") == driver
    put(cluster)
    cluster.converge()


def test_suspended() -> None:
    """A suspended dataflow waits for no snapshot."""
    cluster = cloned(snapshot="first")
    cluster.edit(suspend=True)
    cluster.run(20)
    assert cluster.status["phase"] == "Suspended"
    assert condition(cluster, "Degraded")["status"] == "False"


def test_checkpoint_directory() -> None:
    """A claim is a path, by default named after the dataflow; a location is a Hadoop URL."""

    def directory(**given: str) -> str:
        return checkpoint_directory(dataflow(**given))

    assert directory(claim="c", path="clicks") == "/checkpoint/clicks"
    assert directory(claim="c", path="a/b") == "/checkpoint/a/b"
    assert (
        directory(location="s3://bucket/clicks") == directory(location="s3a://bucket/clicks") == "s3a://bucket/clicks"
    )


def dataflow(**given: str) -> Dataflow:
    """A dataflow with this checkpoint."""
    return Dataflow(DataflowKey(NS, NAME, "u"), 1, deleting=False, suspend=False, checkpoint=Checkpoint(**given))


def test_places_of_snapshots() -> None:
    """Without anything given, a snapshot is next to the checkpoint and never in it; a claim is named only for what is on it."""
    on_claim, on_s3 = dataflow(claim="c", path="a/b"), dataflow(location="s3://bucket/a/")
    assert snapshot_location(on_claim, "n", None) == "/checkpoint/a/b-snapshots/n"
    assert snapshot_location(on_s3, "n", None) == "s3a://bucket/a-snapshots/n"
    assert snapshot_location(on_s3, "n", "s3://other/n") == "s3a://other/n"
    assert [claim_of(on_claim, at) for at in ("/checkpoint/x", "/checkpoints/x", "s3a://b/x")] == ["c", "", ""]
    assert claim_of(on_s3, "/checkpoint/x") == ""
    uids = {"prod": "1234567890", "staging": "abcdefghij"}
    keys = [DataflowKey(namespace, NAME, uid) for namespace, uid in uids.items()]
    shared = [replace(on_s3, key=key, snapshots=SnapshotSchedule(3600.0, 1, "s3://b/base/")) for key in keys]
    expected = ["s3a://b/base/prod/12345678/n", "s3a://b/base/staging/abcdefgh/n"]
    assert [snapshot_location(each, "n", None) for each in shared] == expected
    with pytest.raises(ValueError, match=r"whole bucket s3a://bucket.*set spec\.location"):
        snapshot_location(dataflow(location="s3://bucket/"), "n", None)
