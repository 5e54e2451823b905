"""Programs that end by themselves: their pods are deleted, and they run again only when a user requests it."""

from __future__ import annotations

import pytest
from sim_cluster import NAME, NS, SimCluster


def over(cluster: SimCluster) -> bool:
    """Whether nothing runs, and the status reports it."""
    pods = [key for key in cluster.server.objects if key[0] == "Pod"]
    return cluster.settled() and not pods and cluster.status["phase"] == "Finished"


def ended(cluster: SimCluster, ticks: int = 60) -> SimCluster:
    """The program comes to its end, and the operator to rest."""
    cluster.ending = True
    for _ in range(ticks):
        if over(cluster):
            return cluster
        cluster.run(1)
    raise AssertionError(f"{cluster.status}")


def condition(cluster: SimCluster, kind: str) -> dict[str, str]:
    """One of the conditions."""
    return next(each for each in cluster.status["conditions"] if each["type"] == kind)


def test_pods_of_a_program_that_has_ended_go() -> None:
    """A generation whose program has ended is settled, its pods are gone, and every condition reports it."""
    cluster = ended(SimCluster().start(3))
    assert cluster.status["finishedGeneration"] == cluster.dataflow["metadata"]["generation"]
    assert (condition(cluster, "Progressing")["reason"], condition(cluster, "Progressing")["status"]) == (
        "Finished",
        "False",
    )
    assert "restartNonce" in condition(cluster, "Progressing")["message"]
    assert (condition(cluster, "Ready")["reason"], condition(cluster, "Ready")["status"]) == ("Finished", "False")
    assert condition(cluster, "Degraded")["status"] == "False"


def test_it_is_not_run_again_by_accident() -> None:
    """Neither time, nor a new operator, nor a Secret that is lost brings it back."""
    cluster = ended(SimCluster().start(2))
    epoch = cluster.log.epoch
    cluster.restart_operator()
    cluster.server.remove(("Secret", NS, f"{NAME}-keys"))
    cluster.run(30)
    assert over(cluster)
    assert cluster.log.epoch == epoch


@pytest.mark.parametrize("replicas", [1, 3])
def test_an_autoscaler_does_not_run_it_again(replicas: int) -> None:
    """A program that has ended is not run again by an edit of replicas or migration, neither after its pods are gone nor before."""
    cluster = ended(SimCluster().start(2))
    epoch = cluster.log.epoch
    cluster.edit(replicas=replicas)
    cluster.run(20)
    cluster.edit(migration={"batchSize": 8})
    cluster.run(20)
    assert over(cluster)
    cluster.edit(restartNonce=1)
    cluster.run(1)
    while not cluster.status.get("finishedSpec"):
        cluster.run(1)
    cluster.edit(replicas=replicas + 1)
    ended(cluster)
    cluster.run(20)
    assert over(cluster)
    assert cluster.log.epoch == epoch + 1


def test_a_status_of_an_earlier_operator_is_understood() -> None:
    """A status that names the generation only keeps its program from being run again."""
    cluster = ended(SimCluster().start(2))
    epoch = cluster.log.epoch
    del cluster.dataflow["status"]["finishedSpec"]
    cluster.run(20)
    assert over(cluster)
    assert cluster.log.epoch == epoch


def test_an_edit_runs_it_again() -> None:
    """An edit runs it once more, to its end or for good; so does one that comes while its pods are still ending."""
    cluster = ended(SimCluster().start(2))
    for nonce in (1, 2):
        epoch = cluster.log.epoch
        cluster.edit(restartNonce=nonce)
        ended(cluster)
        assert cluster.log.epoch == epoch + 1
    cluster.edit(restartNonce=3)
    cluster.run(1)
    while cluster.status.get("finishedGeneration") != cluster.dataflow["metadata"]["generation"]:
        cluster.run(1)
    epoch = cluster.log.epoch
    cluster.edit(restartNonce=4)
    ended(cluster)
    assert cluster.log.epoch > epoch
    cluster.edit(restartNonce=5)
    cluster.converge()
    assert "finishedGeneration" not in cluster.status


def test_suspend_and_resume_runs_it_again() -> None:
    """A finished dataflow can be suspended, and runs when it is resumed."""
    cluster = ended(SimCluster().start(2))
    cluster.edit(suspend=True)
    cluster.converge()
    cluster.edit(suspend=False)
    cluster.converge()


def test_crash_after_every_write_of_an_end() -> None:
    """Whichever write an operator ends after, the program is not run twice."""
    before = SimCluster().start(3)
    before.converge()
    calm = before.fork()
    calm.server.writes.clear()
    ended(calm)
    writes = len(calm.server.writes)
    assert writes >= 6
    for write in range(1, writes + 1):
        other = before.fork()
        other.server.writes.clear()
        other.server.crash_after = write
        ended(other)
        assert other.log.epoch == before.log.epoch + 1, f"it ran again after a crash at write {write}"
