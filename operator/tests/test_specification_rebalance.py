"""`spec.rebalance` asks the runtime once more for the same workers, and restarts nothing."""

from __future__ import annotations

from sim_cluster import SimCluster
from test_reconcile_convergence import start_cluster

from binshift_operator.model.specification import restart_hash


def uids(cluster: SimCluster) -> dict[str, str]:
    """The pods there are, and which ones."""
    found = [*cluster.pods("driver"), *cluster.pods("executor")]
    return {each["metadata"]["name"]: each["metadata"]["uid"] for each in found}


def test_a_new_nonce_is_a_new_request() -> None:
    """The target has a newer generation and the same workers: the runtime then shares the bins by their load of now."""
    cluster = start_cluster(3)
    before = dict(cluster.log.newest_target)
    pods = uids(cluster)
    cluster.edit(rebalance={"nonce": 1})
    cluster.converge()
    after = cluster.log.newest_target
    assert after["generation"] > before["generation"]
    assert (after["owner"], after["workers"]) == (before["owner"], before["workers"])
    assert uids(cluster) == pods


def test_it_is_no_restart() -> None:
    """An executor's pod and the driver's are what they were: the field is not in the hash of what restarts."""
    spec = {"image": "a", "replicas": 2}
    assert restart_hash(spec) == restart_hash(spec | {"rebalance": {"nonce": 5}})
