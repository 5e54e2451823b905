"""A ServiceAccount that somebody made under the dataflow's name: it stops a dataflow that needs the name, and not one that is told to use it."""

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
    """Without a word of the user's, the account is somebody else's."""
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


def test_another_account_is_an_edit() -> None:
    """Pods are replaced for it, in the order of any restart."""
    cluster = SimCluster().start()
    cluster.converge()
    meta = {"name": "streams", "namespace": NS}
    cluster.server.put("ServiceAccount", {"kind": "ServiceAccount", "metadata": meta})
    cluster.edit(serviceAccountName="streams")
    cluster.converge()
    assert {pod["spec"]["serviceAccountName"] for pod in cluster.pods("executor")} == {"streams"}
