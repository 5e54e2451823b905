"""Fields that reach the runtime: `spec.standbyReplicas` as a setting, `spec.maxEpoch` also through the API of a running driver."""

from __future__ import annotations

from typing import Any

import pytest
from crd_cases import changed
from sim_cluster import SimCluster
from sim_runtime import Query
from test_reconcile_convergence import start_cluster

from binshift_operator.children.spark_conf import spark_conf
from binshift_operator.model.driver_settings import MAX_EPOCH_CONF
from binshift_operator.model.specification import Dataflow, parse


def dataflow(**edits: object) -> Dataflow:
    """The smallest one with these edits."""
    made = changed({f"spec.{name}": value for name, value in edits.items()})
    made["metadata"] |= {"namespace": "ns", "uid": "uid-1", "generation": 1}
    return parse(made)


def query(cluster: SimCluster) -> Query:
    """The one that runs."""
    return next(iter(cluster.queries.values()))


def conf(value: str) -> dict[str, Any]:
    """The same setting as a key of sparkConf."""
    return {"sparkConf": {MAX_EPOCH_CONF: value}}


def test_the_longest_epoch_is_in_seconds() -> None:
    """The runtime gets it as a setting; without it, none. A key of sparkConf takes precedence, as all of them do."""
    assert spark_conf(dataflow(maxEpoch="1m30s"))[MAX_EPOCH_CONF] == "90.0s"
    assert MAX_EPOCH_CONF not in spark_conf(dataflow())
    both = dataflow(maxEpoch="1s", **conf("500ms"))
    assert (spark_conf(both)[MAX_EPOCH_CONF], both.settings.max_epoch_seconds) == ("500ms", 0.5)


def test_standby_replicas_are_a_number() -> None:
    """The runtime gets it as a setting; without it, the runtime's default counts."""
    assert spark_conf(dataflow(standbyReplicas=1))["spark.binshift.standbyReplicas"] == "1"
    assert "spark.binshift.standbyReplicas" not in spark_conf(dataflow())


def test_an_edit_of_standby_replicas_restarts() -> None:
    """Spark's conf is read when a driver starts."""
    assert dataflow(standbyReplicas=1).restart_hash != dataflow().restart_hash


OTHER_CASE = {"sparkConf": {MAX_EPOCH_CONF.lower(): "2s"}}


def test_the_key_is_found_in_any_case() -> None:
    """As the runtime finds it."""
    assert dataflow(**OTHER_CASE).settings.max_epoch_seconds == 2.0


@pytest.mark.parametrize("edit", [{"maxEpoch": "1s"}, conf("2s"), OTHER_CASE], ids=["field", "conf", "lower case"])
def test_an_edit_restarts_nothing(edit: dict[str, Any]) -> None:
    """Of either place; another key of sparkConf does."""
    assert dataflow(**edit).restart_hash == dataflow().restart_hash
    other = {"sparkConf": {**edit.get("sparkConf", {}), "spark.a": "b"}}
    assert dataflow(**(edit | other)).restart_hash != dataflow().restart_hash


def test_a_wrong_conf_is_an_invalid_spec() -> None:
    """A driver would not start with it."""
    with pytest.raises(ValueError, match=r"sparkConf: .*maxEpoch' is 'soon'"):
        dataflow(**conf("soon"))


def test_the_running_driver_takes_it_over() -> None:
    """Each edit reaches it, once; its pod stays, and the next driver begins with the newest."""
    cluster = start_cluster(2)
    pod = query(cluster).pod
    for edit, seconds in (
        ({"maxEpoch": "2s"}, 2.0),
        ({"maxEpoch": "500ms"}, 0.5),
        (conf("3s"), 3.0),
        ({"sparkConf": {}}, 0.5),
    ):
        cluster.edit(**edit)
        cluster.converge()
        assert query(cluster).settings == {"maxEpochSeconds": seconds}
        assert query(cluster).pod == pod
    requests = [write for write in cluster.server.writes if write == "PUT /v1/settings"]
    assert len(requests) == 4
    cluster.edit(restartNonce=1)
    cluster.converge()
    assert query(cluster).pod != pod
    assert query(cluster).settings == {"maxEpochSeconds": 0.5}
    assert [write for write in cluster.server.writes if write == "PUT /v1/settings"] == requests


def test_an_older_driver_gets_it_when_it_starts() -> None:
    """It has no such call: nothing is requested of it, and nothing is awaited."""
    cluster = start_cluster(2)
    query(cluster).settings = None
    cluster.edit(maxEpoch="2s")
    cluster.converge()
    assert query(cluster).settings is None
