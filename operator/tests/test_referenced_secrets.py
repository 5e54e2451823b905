"""A Secret that a dataflow references: if the spec requests it, a change of its content restarts the dataflow in order; nothing else does."""

from __future__ import annotations

from typing import Any

import pytest
from sim_cluster import NAME, NS, SimCluster

from binshift_operator.model.specification import parse
from binshift_operator.referenced_secrets import secret_names

SECRET = ("Secret", NS, "db")
ENV = [{"name": "PASSWORD", "valueFrom": {"secretKeyRef": {"name": "db", "key": "password"}}}]


def put(cluster: SimCluster, password: str) -> None:
    """A user creates the Secret, or another one of its name."""
    cluster.server.objects.pop(SECRET, None)
    body = {"kind": "Secret", "metadata": {"name": "db", "namespace": NS}, "data": {"password": password}}
    cluster.server.put("Secret", body)


def following(**spec: Any) -> SimCluster:
    """A dataflow that has come up with a password."""
    cluster = SimCluster()
    put(cluster, "old")
    cluster.start()
    assert cluster.dataflow is not None
    cluster.dataflow["spec"]["application"]["env"] = ENV
    cluster.dataflow["spec"].update(spec)
    cluster.converge()
    return cluster


def uids(cluster: SimCluster) -> set[str]:
    """Which pods there are."""
    return {each["metadata"]["uid"] for each in cluster.pods("driver") + cluster.pods("executor")}


def test_a_new_password_restarts() -> None:
    """All pods are replaced, in the order of any restart, and then nothing more is done."""
    cluster = following(restartOn="SecretChange")
    before = uids(cluster)
    put(cluster, "new")
    cluster.run(40)
    cluster.converge()
    assert not uids(cluster) & before
    again = uids(cluster)
    cluster.run(60)
    assert uids(cluster) == again


@pytest.mark.parametrize("spec", [{}, {"restartOn": "Edit"}])
def test_without_it_nothing_restarts(spec: dict[str, Any]) -> None:
    """A rotated Secret is no edit."""
    cluster = following(**spec)
    before = uids(cluster)
    put(cluster, "new")
    cluster.run(60)
    assert uids(cluster) == before


def test_the_same_content_restarts_nothing() -> None:
    """A Secret that was made once more with what it had, and one that is away for a while, stop no stream."""
    cluster = following(restartOn="SecretChange")
    before = uids(cluster)
    del cluster.server.objects[SECRET]
    cluster.run(40)
    put(cluster, "old")
    cluster.run(40)
    assert uids(cluster) == before
    assert cluster.settled()


def test_another_process_of_the_operator_restarts_nothing() -> None:
    """What a Secret was is on the pods: it is not for one process to remember."""
    cluster = following(restartOn="SecretChange")
    before = uids(cluster)
    cluster.restart_operator()
    cluster.run(40)
    assert uids(cluster) == before


@pytest.mark.parametrize("forbidden", [False, True])
def test_another_process_restarts_nothing_for_a_secret_that_is_away(forbidden: bool) -> None:
    """A process that has read no Secret yet, and finds none or has no right to read it, uses the pods' hash, until there is other content."""
    cluster = following(restartOn="SecretChange")
    before = uids(cluster)
    found = cluster.server.objects.pop(SECRET)
    if forbidden:
        cluster.server.objects[SECRET] = found
        cluster.server.unreadable = {"/secrets/db"}
    cluster.restart_operator()
    cluster.run(40)
    assert uids(cluster) == before
    cluster.server.unreadable = set()
    put(cluster, "old")
    cluster.run(40)
    assert uids(cluster) == before
    put(cluster, "new")
    cluster.run(40)
    cluster.converge()
    assert not uids(cluster) & before


def test_short_password_is_not_disclosed() -> None:
    """The hash on the pods has a key of its own: the same password gives another one for another dataflow."""
    hashes = set()
    for _ in range(2):
        cluster = following(restartOn="SecretChange")
        hashes.add(cluster.pods("driver")[0]["metadata"]["annotations"]["binshift.dev/restart-hash"])
    assert len(hashes) == 2


def test_which_secrets_are_followed() -> None:
    """All that become variables: the credentials, those of the application and of each pod, and those of a template."""
    spec = {
        "image": "a",
        "application": {"mainFile": "/a", "env": ENV},
        "checkpoint": {"location": "s3://bucket/a", "credentialsSecret": "s3"},
        "driver": {"pod": {"env": [{"name": "A", "valueFrom": {"secretKeyRef": {"name": "one", "key": "k"}}}]}},
        "executor": {
            "pod": {
                "template": {"spec": {"containers": [{"name": "worker", "envFrom": [{"secretRef": {"name": "two"}}]}]}},
                "volumes": [{"name": "files", "secret": {"secretName": "mounted"}}],
            }
        },
    }
    meta = {"name": NAME, "namespace": NS, "uid": "u", "generation": 1}
    assert secret_names(parse({"metadata": meta, "spec": spec})) == ("db", "one", "s3", "two")
