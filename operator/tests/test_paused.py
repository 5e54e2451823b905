"""A dataflow with the annotation binshift.dev/paused: the operator changes nothing, still reports, and continues where it was."""

from __future__ import annotations

from typing import Any

import pytest
from sim_cluster import NAME, NS, SDF, SimCluster
from sim_rolling import FAST, condition, start_cluster, uids

from binshift_operator.model.names import Child, DataflowKey

PAUSED = "binshift.dev/paused"


def pause(cluster: SimCluster, value: str | None = "true") -> None:
    """Annotate the dataflow, or remove the annotation."""
    cluster.dataflow["metadata"]["annotations"] = {} if value is None else {PAUSED: value}


def writes(cluster: SimCluster, ticks: int) -> list[str]:
    """What the operator writes within some ticks, but for the status and events."""
    cluster.server.writes.clear()
    cluster.run(ticks)
    return [write for write in cluster.server.writes if "/status" not in write and "/events" not in write]


@pytest.mark.parametrize(
    "edit",
    [{"replicas": 4}, {"restartNonce": 1}, {"suspend": True}, {"executor": FAST}, {"image": ""}],
    ids=lambda edit: next(iter(edit)),
)
def test_edits_wait(edit: dict[str, Any]) -> None:
    """No edit has an effect, an invalid one included, until the annotation is removed."""
    cluster = start_cluster()
    before = uids(cluster)
    pause(cluster)
    cluster.edit(**edit)
    assert writes(cluster, 40) == []
    assert uids(cluster) == before
    assert condition(cluster, "Progressing")["reason"] == "Paused"
    assert condition(cluster, "Ready")["status"] == "True"
    assert not cluster.settled()
    pause(cluster, None)
    cluster.edit(**({"image": "registry.example/clicks:1"} if "image" in edit else {}))
    cluster.converge()


def test_drift_stays() -> None:
    """What someone deletes while it is paused is not made again, and is made again afterwards."""
    cluster = start_cluster()
    pause(cluster)
    cluster.run(2)
    cluster.server.remove(("ConfigMap", NS, DataflowKey(NS, NAME, "").child(Child.SPARK_CONF)))
    assert writes(cluster, 40) == []
    pause(cluster, None)
    cluster.converge()


def test_paused_in_the_middle_of_a_rescale() -> None:
    """Bins that move arrive, nothing further is requested, and the rescale ends once it is no longer paused."""
    cluster = start_cluster()
    cluster.edit(replicas=1)
    cluster.run(1)
    pause(cluster)
    assert writes(cluster, 40) == []
    assert len(cluster.pods("executor")) == 3
    pause(cluster, None)
    cluster.converge()
    assert len(cluster.pods("executor")) == 1


@pytest.mark.parametrize("value", ["false", "yes", ""])
def test_other_values_do_not_pause(value: str) -> None:
    """Only "true" does."""
    cluster = start_cluster()
    pause(cluster, value)
    cluster.edit(replicas=4)
    cluster.converge()


def test_deletion_is_not_delayed() -> None:
    """A paused dataflow that is deleted goes with its children."""
    cluster = start_cluster()
    pause(cluster)
    cluster.server.remove(SDF)
    cluster.run(10)
    assert SDF not in cluster.server.objects
