"""A ServiceAccount of another owner under the dataflow's name: it stops a dataflow that needs the name, but not one that names it."""

from __future__ import annotations

from typing import Any

from sim_cluster import NAME, NS, SimCluster
from test_status_degraded import condition

ACCOUNT = ("ServiceAccount", NS, NAME)
ROLE = {"eks.amazonaws.com/role-arn": "arn:aws:iam::123456789012:role/clicks"}


def with_account(**spec: Any) -> SimCluster:
    """A dataflow where such an account was made first."""
    cluster = SimCluster()
    meta = {"name": NAME, "namespace": NS, "annotations": dict(ROLE)}
    cluster.server.put("ServiceAccount", {"kind": "ServiceAccount", "metadata": meta})
    cluster.start()
    assert cluster.dataflow is not None
    cluster.dataflow["spec"].update(spec)
    return cluster


def test_a_name_that_is_taken_stops_it() -> None:
    """Unless the user names it, the account belongs to another owner."""
    cluster = with_account()
    cluster.run(10)
    assert condition(cluster, "Degraded")["reason"] == "NameTaken"
    assert cluster.pods("driver") == []


def test_the_account_that_is_named_is_used() -> None:
    """The dataflow comes up with it, and leaves it as it is, also at its end."""
    cluster = with_account(serviceAccountName=NAME)
    cluster.converge()
    accounts = {pod["spec"]["serviceAccountName"] for pod in cluster.pods("driver") + cluster.pods("executor")}
    assert accounts == {NAME}
    cluster.server.remove(("StreamingDataflow", NS, NAME))
    cluster.run(5)
    found = cluster.server.objects[ACCOUNT]["metadata"]
    assert (found["annotations"], found.get("ownerReferences")) == (ROLE, None)


def named(account: str) -> SimCluster:
    """A running stream whose spec then names an account; the API server rejects pods whose account does not exist."""
    cluster = SimCluster().start()
    cluster.converge()
    make = cluster._make_pod

    def made(owner: dict[str, Any], name: str) -> None:
        account = owner["spec"]["template"]["spec"]["serviceAccountName"]
        if ("ServiceAccount", NS, account) in cluster.server.objects:
            make(owner, name)

    cluster._make_pod = made  # type: ignore[method-assign]
    cluster.edit(serviceAccountName=account)
    return cluster


def test_an_account_that_is_not_there_stops_nothing() -> None:
    """The stream continues as before, the problem is reported, and once the account exists the edit is applied."""
    cluster = named("misspelt")
    before, epoch = (
        {pod["metadata"]["uid"] for pod in cluster.pods("driver") + cluster.pods("executor")},
        cluster.log.epoch,
    )
    cluster.run(40)
    assert {pod["metadata"]["uid"] for pod in cluster.pods("driver") + cluster.pods("executor")} == before
    assert cluster.log.epoch > epoch + 10
    assert condition(cluster, "Degraded")["reason"] == "ServiceAccountNotFound"
    assert "spec.serviceAccountName" in condition(cluster, "Degraded")["message"]
    assert condition(cluster, "Progressing")["reason"] == "Spec"
    cluster.server.put("ServiceAccount", {"kind": "ServiceAccount", "metadata": {"name": "misspelt", "namespace": NS}})
    cluster.converge()
    assert condition(cluster, "Degraded")["status"] == "False"


def test_an_edit_back_is_carried_out() -> None:
    """Removing the account from the spec restores the earlier state; a dataflow that has lost its account runs on, and reports it."""
    cluster = named("misspelt")
    cluster.run(10)
    assert cluster.dataflow is not None
    del cluster.dataflow["spec"]["serviceAccountName"]
    cluster.edit(replicas=3)
    cluster.converge()
    assert condition(cluster, "Degraded")["status"] == "False"


def test_without_its_account_nothing_begins() -> None:
    """A new dataflow waits for it, and can be deleted or suspended meanwhile."""
    cluster = SimCluster().start()
    assert cluster.dataflow is not None
    cluster.dataflow["spec"]["serviceAccountName"] = "streams"
    cluster.run(20)
    assert cluster.pods("driver") == []
    assert condition(cluster, "Degraded")["reason"] == "ServiceAccountNotFound"
    cluster.server.put("ServiceAccount", {"kind": "ServiceAccount", "metadata": {"name": "streams", "namespace": NS}})
    cluster.converge()
    key = ("ServiceAccount", NS, "streams")
    del cluster.server.objects[key]
    cluster.reconciler.invalidate(NS, NAME)
    cluster.run(2)
    assert condition(cluster, "Degraded")["reason"] == "ServiceAccountNotFound"
    assert condition(cluster, "Ready")["status"] == "True"


def test_another_account_is_an_edit() -> None:
    """Pods are replaced for it, in the order of any restart."""
    cluster = SimCluster().start()
    cluster.converge()
    meta = {"name": "streams", "namespace": NS}
    cluster.server.put("ServiceAccount", {"kind": "ServiceAccount", "metadata": meta})
    cluster.edit(serviceAccountName="streams")
    cluster.converge()
    assert {pod["spec"]["serviceAccountName"] for pod in cluster.pods("executor")} == {"streams"}
