"""At any moment of a roll, in a simulated cluster: the spec is edited, or something is lost; see `test_reconcile_rolling`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from sim_cluster import NAME, NS, SimCluster
from sim_limits import LIMITS
from sim_rolling import FAST, SLOW, query, start_cluster, uids

from binshift_operator.model.names import ANNOTATION_SPEC

STEPS = (*range(1, 8), 10, 13, 16, *range(19, 25))
"""Ticks after the edit: each step of the first and of the last executor of three, and some of those between."""


@dataclass(frozen=True)
class Moment:
    """A cluster in the middle of a roll.

    Attributes:
        cluster: of three executors, which get another template.
        before: the pods of its executors before the edit.
        driver: that of its driver.
        epoch: the newest one before the edit, and one for each tick since.
    """

    cluster: SimCluster
    before: set[str]
    driver: set[str]
    epoch: int


def moments() -> Iterator[Moment]:
    """A cluster of its own for each of `STEPS`."""
    start = start_cluster()
    for ticks in STEPS:
        cluster = start.fork()
        moment = Moment(cluster, uids(cluster), uids(cluster, "driver"), cluster.log.epoch + ticks)
        cluster.edit(executor=FAST)
        cluster.run(ticks)
        yield moment


@pytest.mark.parametrize("replicas", [1, 2, 4, 5])
def test_replicas_are_edited_in_the_middle(replicas: int) -> None:
    """An autoscaler's edit at any moment of a roll is taken at once, and the roll ends with all executors of the new template."""
    for moment in moments():
        cluster = moment.cluster
        cluster.edit(replicas=replicas)
        cluster.converge()
        assert not moment.before & uids(cluster)
        assert uids(cluster, "driver") == moment.driver
        assert query(cluster).stop_requests == 0


def test_another_template_in_the_middle() -> None:
    """At any moment of a roll another edit of executors also rolls the executors of the first one's template."""
    for moment in moments():
        cluster = moment.cluster
        cluster.edit(executor=SLOW)
        cluster.converge()
        assert not moment.before & uids(cluster)
        assert {pod["spec"]["nodeSelector"]["disk"] for pod in cluster.pods("executor")} == {"slow"}
        assert (uids(cluster, "driver"), query(cluster).stop_requests) == (moment.driver, 0)


def test_an_edit_that_is_undone() -> None:
    """Back to the first template at any moment: executors that still have it are kept."""
    for moment in moments():
        cluster = moment.cluster
        hashes = [pod["metadata"]["annotations"][ANNOTATION_SPEC] for pod in cluster.pods("executor")]
        live = [pod for pod in cluster.pods("executor") if "deletionTimestamp" not in pod["metadata"]]
        kept = moment.before & {pod["metadata"]["uid"] for pod in live}
        cluster.edit(executor={})
        cluster.converge()
        assert kept <= uids(cluster), hashes
        assert query(cluster).stop_requests == 0


@pytest.mark.parametrize("edit", [{"image": "example/clicks:2"}, {"suspend": True}, {"restartNonce": 1}])
def test_a_stop_in_the_middle(edit: dict[str, Any]) -> None:
    """An edit of the dataflow class stops the query as it does without a roll, at any moment, and everything is new afterwards."""
    for moment in moments():
        cluster = moment.cluster
        cluster.edit(**edit)
        cluster.converge()
        cluster.edit(suspend=False)
        cluster.converge()
        assert not moment.before & uids(cluster)
        assert not moment.driver & uids(cluster, "driver")
        assert cluster.log.epoch > moment.epoch


def test_a_lost_driver_in_the_middle() -> None:
    """A driver that is deleted at any moment of a roll comes back, and the roll ends."""
    for moment in moments():
        cluster = moment.cluster
        cluster.server.remove(("Pod", NS, f"{NAME}-driver-0"))
        cluster.converge()
        assert not moment.before & uids(cluster)


@pytest.mark.parametrize("slot", range(4))
def test_a_lost_executor_in_the_middle(slot: int) -> None:
    """So does any executor, with or without bins."""
    for moment in moments():
        cluster = moment.cluster
        key = ("Pod", NS, f"{NAME}-executor-{slot}")
        if key in cluster.server.objects:
            cluster.server.remove(key, at_once=True)
        cluster.converge()
        assert not moment.before & uids(cluster)
        assert (uids(cluster, "driver"), query(cluster).stop_requests) == (moment.driver, 0)


def test_silence_in_the_middle() -> None:
    """A driver that does not answer for a while: no executor is touched meanwhile, and then the roll continues."""
    for moment in moments():
        cluster = moment.cluster
        cluster.silent = True
        cluster.run(2)
        live = {p["metadata"]["uid"] for p in cluster.pods("executor") if "deletionTimestamp" not in p["metadata"]}
        cluster.run(int(LIMITS.stop_wait_seconds) + 10)
        assert live <= uids(cluster)
        cluster.converge()
        assert query(cluster).stop_requests == 0
