"""An operator that serves only dataflows with certain labels leaves all others alone, also after a change of their labels."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import kopf
from kopf._cogs.structs.references import Resource
from prometheus_client.registry import CollectorRegistry
from sim_cluster import NAME, NS, SimCluster
from sim_server import SimServer

from binshift_operator import watching
from binshift_operator.controller import Controller
from binshift_operator.kube import Kube
from binshift_operator.metrics import OperatorMetrics
from binshift_operator.reconcile import Result
from binshift_operator.work_queue import WorkQueue

SELECTOR = "team=a"


def labelled(cluster: SimCluster, team: str) -> None:
    """A user labels the dataflow."""
    assert cluster.dataflow is not None
    cluster.dataflow["metadata"]["labels"] = {"team": team}


def test_others_are_left_alone() -> None:
    """What is not selected is as good as not there; once it is, it is reconciled, and once it is not any more, it is left as it is."""
    cluster = SimCluster().start()
    cluster.reconciler = replace(cluster.reconciler, selector=SELECTOR)
    labelled(cluster, "b")
    assert cluster.reconciler.reconcile(NS, NAME) == Result()
    assert cluster.server.writes == []
    labelled(cluster, "a")
    cluster.converge()
    labelled(cluster, "b")
    cluster.edit(replicas=4)
    before = len(cluster.server.writes)
    assert cluster.reconciler.reconcile(NS, NAME) == Result()
    assert len(cluster.server.writes) == before


def test_only_those_are_listed() -> None:
    """The periodic listing finds the selected dataflows."""
    server = SimServer(lambda: 0.0)
    for name, team in (("one", "a"), ("two", "b")):
        meta = {"name": name, "namespace": NS, "labels": {"team": team}}
        server.put("StreamingDataflow", {"kind": "StreamingDataflow", "metadata": meta, "spec": {}})
    parts = WorkQueue(lambda: 0.0), lambda *_: Result(), Kube(server), OperatorMetrics(CollectorRegistry())
    assert Controller(*parts, (), 60.0, 1, SELECTOR)._list() == {(NS, "one")}
    assert Controller(*parts, (NS,), 60.0, 1)._list() == {(NS, "one"), (NS, "two")}


def test_only_those_are_watched() -> None:
    """The API server is queried for events of selected dataflows, and of children as before."""
    settings = kopf.OperatorSettings()
    asyncio.run(watching.configure(settings=settings, selector=SELECTOR))
    for plural, kind, wanted in (
        ("streamingdataflows", "StreamingDataflow", [SELECTOR]),
        ("pods", "Pod", ["app.kubernetes.io/managed-by=binshift-operator"]),
    ):
        group, version = ("", "v1") if kind == "Pod" else ("binshift.dev", "v1alpha1")
        resource = Resource(group, version, plural, kind=kind)
        assert settings.watching.label_selectors.collect(resource) == wanted
