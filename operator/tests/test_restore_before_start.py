"""`checkpoint.restoreFrom` is edited while the driver's pod waits for its image: nothing starts with an empty checkpoint instead."""

from __future__ import annotations

import pytest
from sim_cluster import NAME, NS
from sim_rolling import condition, uids
from sim_snapshots import SnapshotCluster
from test_restore_from import conf, put, run_to_first_driver


class WithoutImage(SnapshotCluster):
    """A cluster in which the driver's image cannot be pulled, until ``pulls`` is set."""

    pulls = False

    def _kubelet(self) -> None:
        super()._kubelet()
        waiting = {"reason": "ErrImagePull", "message": "not found"}
        for pod in [] if self.pulls else self.pods("driver"):
            pod["status"] = {"phase": "Pending", "containerStatuses": [{"name": "d", "state": {"waiting": waiting}}]}


@pytest.mark.parametrize("before", [None, {"snapshot": "first"}, {"location": "/elsewhere"}])
@pytest.mark.parametrize("second", [None, "Copying"])
def test_driver_that_never_ran(before: dict[str, str] | None, second: str | None) -> None:
    """An edit that names an incomplete snapshot removes the driver's pod: it would start with an empty checkpoint once it can."""
    cluster = WithoutImage()
    cluster.start()
    put(cluster)
    cluster.edit(checkpoint={"claimName": NAME} | ({} if before is None else {"restoreFrom": before}))
    run_to_first_driver(cluster)
    cluster.run(20)
    if second is not None:
        put(cluster, second, "second")
    cluster.edit(checkpoint={"claimName": NAME, "restoreFrom": {"snapshot": "second"}})
    cluster.run(20)
    assert not cluster.pods("driver")
    cluster.pulls = True
    cluster.run(20)
    assert not cluster.pods("driver")
    assert condition(cluster, "Progressing")["reason"] == "Snapshot"
    put(cluster, name="second", location="s3a://backups/second")
    run_to_first_driver(cluster)
    assert conf(cluster) == "s3a://backups/second"
    cluster.converge()


def test_driver_that_waits_after_the_first_epoch() -> None:
    """A dataflow with an epoch has a checkpoint, so its driver's pod is not removed for a snapshot that has no effect."""
    cluster = WithoutImage()
    cluster.pulls = True
    cluster.start()
    cluster.converge()
    cluster.pulls = False
    cluster.server.remove(("Pod", NS, f"{NAME}-driver-0"))
    cluster.until(lambda: not uids(cluster, "driver"))
    run_to_first_driver(cluster)
    driver = uids(cluster, "driver")
    cluster.edit(checkpoint={"claimName": NAME, "restoreFrom": {"snapshot": "gone"}})
    cluster.run(20)
    assert uids(cluster, "driver") == driver
    cluster.pulls = True
    cluster.run(20)
    assert uids(cluster, "driver") == driver


def test_snapshot_that_cannot_be_read() -> None:
    """It is reported, and the dataflow that runs is still reconciled."""
    cluster = SnapshotCluster()
    cluster.start()
    cluster.converge()
    driver = uids(cluster, "driver")
    cluster.server.unreadable.add("/first")
    cluster.edit(checkpoint={"claimName": NAME, "restoreFrom": {"snapshot": "first"}}, replicas=3)
    cluster.run(60)
    assert "cannot be read" in condition(cluster, "Degraded")["message"]
    assert uids(cluster, "driver") == driver
    assert len(cluster.pods("executor")) == 3


def test_snapshot_of_itself() -> None:
    """A dataflow that waits for its own snapshot, which waits for the dataflow, reports that."""
    cluster = SnapshotCluster()
    cluster.start()
    cluster.request("first")
    cluster.dataflow["spec"]["checkpoint"] = {"claimName": NAME, "restoreFrom": {"snapshot": "first"}}
    cluster.run(20)
    assert not cluster.pods("driver")
    assert condition(cluster, "Degraded")["reason"] == "SnapshotUnusable"
    assert "it is a snapshot of this dataflow" in condition(cluster, "Degraded")["message"]
