"""The operator in a simulated cluster: whatever happens, it converges to the spec, and does no harm on the way."""

from __future__ import annotations

from typing import Any

import pytest
from sim_cluster import NAME, NS, SDF, SimCluster


def start_cluster(replicas: int = 2) -> SimCluster:
    """A dataflow that has come up."""
    cluster = SimCluster().start(replicas)
    cluster.converge()
    return cluster


def test_comes_up() -> None:
    """A new dataflow gets its pods, its target and its bins, and reports it."""
    cluster = start_cluster(3)
    assert cluster.status["phase"] == "Running"
    assert cluster.status["replicas"] == cluster.status["readyReplicas"] == 3
    assert cluster.log.target is not None
    assert cluster.log.newest_target["owner"] == cluster.dataflow["metadata"]["uid"]


def test_rests_without_writing() -> None:
    """Once everything is in place, nothing is written any more but what is new."""
    cluster = start_cluster()
    cluster.run(2)
    before = list(cluster.server.writes)
    cluster.silent = False
    epoch = cluster.status["epoch"]
    for _ in range(5):
        cluster.reconcile()
    new = cluster.server.writes[len(before) :]
    assert all("status" in write for write in new)
    assert len(new) <= 1
    assert cluster.status["epoch"] >= epoch


@pytest.mark.parametrize("way", [(2, 4), (4, 2), (1, 5, 3, 2), (3, 3)])
def test_scales(way: tuple[int, ...]) -> None:
    """Growing and shrinking end with exactly the requested workers."""
    cluster = start_cluster(way[0])
    for replicas in way[1:]:
        cluster.edit(replicas=replicas)
        cluster.converge()


def test_edit_in_the_middle_of_a_migration() -> None:
    """A newer edit wins over a migration under way, whatever it had moved."""
    cluster = start_cluster(2)
    cluster.edit(replicas=5)
    while cluster.log.newest_target["workers"] != [0, 1, 2, 3, 4]:
        cluster.run(1)
    cluster.run(1)
    cluster.edit(replicas=1)
    cluster.converge()


def test_what_cannot_be_scheduled_is_not_waited_for() -> None:
    """Executors without room leave the stream running, are reported with the scheduler's message, and the others are used in time."""
    cluster = start_cluster(2)
    cluster.no_room = {3, 4}
    cluster.edit(replicas=5)
    epoch = cluster.log.epoch
    cluster.run(40)
    degraded = next(each for each in cluster.status["conditions"] if each["type"] == "Degraded")
    assert (degraded["reason"], degraded["status"]) == ("Unschedulable", "True")
    assert "0/1 nodes" in degraded["message"]
    assert cluster.log.holding == {0, 1, 2}
    assert cluster.log.epoch > epoch + 20
    assert not cluster.settled()
    cluster.converge()


def test_program_that_fails() -> None:
    """The reason of a failing program is in the condition; once it runs, nothing is left of it."""
    cluster = SimCluster(failing="ZeroDivisionError: division by zero").start()
    cluster.run(20)
    degraded = next(each for each in cluster.status["conditions"] if each["type"] == "Degraded")
    assert degraded["reason"] == "ProgramFailed"
    assert "ZeroDivisionError" in degraded["message"]
    cluster.converge()


def test_spec_that_cannot_be_carried_out() -> None:
    """A container that is too small for its processes is reported, with the required size; the stream continues, and an edit repairs it."""
    cluster = start_cluster()
    small = {"resources": {"limits": {"memory": "600Mi"}}}
    cluster.edit(executor=small)
    epoch = cluster.log.epoch
    cluster.run(5)
    degraded = next(each for each in cluster.status["conditions"] if each["type"] == "Degraded")
    assert degraded["reason"] == "InvalidSpec"
    assert "give its container" in degraded["message"]
    assert cluster.log.epoch > epoch
    assert not cluster.settled()
    cluster.edit(executor={})
    cluster.converge()


def test_api_server_away_for_a_minute() -> None:
    """The stream continues without the API server, and nothing is to be done when it is back."""
    cluster = start_cluster()
    writes = len(cluster.server.writes)
    cluster.server.down = True
    cluster.run(60)
    assert len(cluster.server.writes) == writes
    cluster.converge()
    assert all("status" in write or "events" in write for write in cluster.server.writes[writes:])


def test_suspend_keeps_the_checkpoint() -> None:
    """Suspended, there is no pod and the log is unchanged; resumed with fewer replicas, the stream continues from there."""
    cluster = start_cluster(4)
    cluster.edit(suspend=True)
    cluster.converge()
    epoch = cluster.log.epoch
    cluster.edit(suspend=False, replicas=2)
    cluster.converge()
    assert cluster.log.epoch > epoch


def test_made_again_goes_on() -> None:
    """A deleted dataflow takes everything with it but the checkpoint; one of the same name continues, and owns the target."""
    cluster = start_cluster(3)
    epoch, first = cluster.log.epoch, cluster.dataflow["metadata"]["uid"]
    cluster.server.remove(SDF)
    cluster.start(2)
    cluster.converge()
    assert cluster.dataflow["metadata"]["uid"] != first
    assert cluster.log.newest_target["owner"] == cluster.dataflow["metadata"]["uid"]
    assert cluster.log.epoch > epoch


@pytest.mark.parametrize("kind", ["Secret", "StatefulSet", "ConfigMap"])
def test_foreign_objects_are_left_alone(kind: str) -> None:
    """A foreign object of a child's name is not touched, and is reported."""
    names = {"Secret": f"{NAME}-keys", "StatefulSet": f"{NAME}-executor", "ConfigMap": f"{NAME}-spark"}
    cluster = SimCluster().start()
    theirs: dict[str, Any] = {
        "kind": kind,
        "metadata": {"name": names[kind], "namespace": NS},
        "spec": {"replicas": 0},
        "data": {},
    }
    cluster.server.put(kind, theirs)
    version = theirs["metadata"]["resourceVersion"]
    cluster.reconcile()
    cluster.reconcile()
    assert cluster.server.objects[(kind, NS, names[kind])]["metadata"]["resourceVersion"] == version
    degraded = next(each for each in cluster.status["conditions"] if each["type"] == "Degraded")
    assert degraded["reason"] == "NameTaken"
    assert names[kind] in degraded["message"]


def test_migration_that_takes_too_long() -> None:
    """After the timeout the migration is cancelled and reported, and the next edit starts a new one."""
    cluster = start_cluster(2)
    cluster.edit(replicas=4, migration={"timeout": "5s"})
    while cluster.log.newest_target["workers"] != [0, 1, 2, 3]:
        cluster.run(1)
    query = next(iter(cluster.queries.values()))
    query.newest_migration["startedAt"] = "2023-11-14T22:00:00Z"
    cluster.run(2)
    degraded = next(each for each in cluster.status["conditions"] if each["type"] == "Degraded")
    assert degraded["reason"] == "MigrationTimedOut"
    assert "stopped after 5 s (spec.migration.timeout)" in degraded["message"]
    assert query.newest_migration["phase"] == "cancelled"
    cluster.run(5)
    assert not cluster.settled()
    assert len(cluster.pods("executor")) == 4
    cluster.edit(migration={"timeout": "30m"})
    cluster.converge()
