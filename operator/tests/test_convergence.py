"""The operator in a made-up cluster: whatever happens, it comes to what the spec asks for, and does no harm on the way."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule
from sim_cluster import NAME, NS, SDF, SimCluster


def started(replicas: int = 2) -> SimCluster:
    """A dataflow that has come up."""
    cluster = SimCluster().start(replicas)
    cluster.converge()
    return cluster


def test_comes_up() -> None:
    """A new dataflow gets its pods, its target and its bins, and says so."""
    cluster = started(3)
    assert cluster.status["phase"] == "Running"
    assert cluster.status["replicas"] == cluster.status["readyReplicas"] == 3
    assert cluster.log.target is not None
    assert cluster.log.target["owner"] == cluster.dataflow["metadata"]["uid"]


def test_rests_without_writing() -> None:
    """Once everything is in place, nothing is written any more but what is new."""
    cluster = started()
    cluster.run(2)
    before = list(cluster.server.writes)
    cluster.silent = False
    epoch = cluster.status["epoch"]
    for _ in range(5):
        cluster.look()
    new = cluster.server.writes[len(before) :]
    assert all("status" in write for write in new)
    assert len(new) <= 1
    assert cluster.status["epoch"] >= epoch


@pytest.mark.parametrize("way", [(2, 4), (4, 2), (1, 5, 3, 2), (3, 3)])
def test_scales(way: tuple[int, ...]) -> None:
    """Growing and shrinking end with exactly the workers asked for."""
    cluster = started(way[0])
    for replicas in way[1:]:
        cluster.edit(replicas=replicas)
        cluster.converge()


def test_edit_in_the_middle_of_a_migration() -> None:
    """A newer edit wins over a migration under way, whatever it had moved."""
    cluster = started(2)
    cluster.edit(replicas=5)
    while cluster.log.target["workers"] != [0, 1, 2, 3, 4]:
        cluster.run(1)
    cluster.run(1)
    cluster.edit(replicas=1)
    cluster.converge()


def test_what_cannot_be_scheduled_is_not_waited_for() -> None:
    """Executors without room leave the stream going, are told of in the scheduler's words, and the others are used in time."""
    cluster = started(2)
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
    """A container that is too small for what runs in it is told of, with how much it takes; what runs goes on, and an edit heals."""
    cluster = started()
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
    """The stream goes on without the API server, and nothing is to be done when it is back."""
    cluster = started()
    writes = len(cluster.server.writes)
    cluster.server.down = True
    cluster.run(60)
    assert len(cluster.server.writes) == writes
    cluster.converge()
    assert all("status" in write or "events" in write for write in cluster.server.writes[writes:])


def test_suspend_keeps_the_checkpoint() -> None:
    """Suspended, there is no pod and the log is as it was; resumed with fewer replicas, it goes on from there."""
    cluster = started(4)
    cluster.edit(suspend=True)
    cluster.converge()
    epoch = cluster.log.epoch
    cluster.edit(suspend=False, replicas=2)
    cluster.converge()
    assert cluster.log.epoch > epoch


def test_made_again_goes_on() -> None:
    """A dataflow that is deleted takes everything with it but the checkpoint; one of the same name goes on, and owns the target."""
    cluster = started(3)
    epoch, first = cluster.log.epoch, cluster.dataflow["metadata"]["uid"]
    cluster.server.remove(SDF)
    cluster.start(2)
    cluster.converge()
    assert cluster.dataflow["metadata"]["uid"] != first
    assert cluster.log.target["owner"] == cluster.dataflow["metadata"]["uid"]
    assert cluster.log.epoch > epoch


@pytest.mark.parametrize("kind", ["Secret", "StatefulSet", "ConfigMap"])
def test_foreign_objects_are_left_alone(kind: str) -> None:
    """An object of a child's name that is not ours is not touched, and a person is told."""
    names = {"Secret": f"{NAME}-keys", "StatefulSet": f"{NAME}-executor", "ConfigMap": f"{NAME}-spark"}
    cluster = SimCluster().start()
    theirs = {"kind": kind, "metadata": {"name": names[kind], "namespace": NS}, "spec": {"replicas": 0}, "data": {}}
    cluster.server.put(kind, theirs)
    version = theirs["metadata"]["resourceVersion"]
    cluster.look()
    cluster.look()
    assert cluster.server.objects[(kind, NS, names[kind])]["metadata"]["resourceVersion"] == version
    degraded = next(each for each in cluster.status["conditions"] if each["type"] == "Degraded")
    assert degraded["reason"] == "NameTaken"
    assert names[kind] in degraded["message"]


def test_migration_that_takes_too_long() -> None:
    """After the time-out the migration is cancelled, a person is told, and the next edit starts afresh."""
    cluster = started(2)
    cluster.edit(replicas=4, migration={"timeout": "5s"})
    while cluster.log.target["workers"] != [0, 1, 2, 3]:
        cluster.run(1)
    query = next(iter(cluster.queries.values()))
    query.migration["startedAt"] = "2023-11-14T22:00:00Z"
    cluster.run(2)
    degraded = next(each for each in cluster.status["conditions"] if each["type"] == "Degraded")
    assert degraded["reason"] == "MigrationTimedOut"
    assert query.migration["phase"] == "cancelled"
    cluster.run(5)
    assert not cluster.settled()
    assert len(cluster.pods("executor")) == 4
    cluster.edit(migration={"timeout": "30m"})
    cluster.converge()


class Disturbed(RuleBasedStateMachine):
    """People edit, things fail, the operator crashes; in the end the spec is what is."""

    @initialize(replicas=st.integers(1, 4))
    def begin(self, replicas: int) -> None:
        self.cluster = SimCluster().start(replicas)

    @rule(ticks=st.integers(1, 12))
    def run(self, ticks: int) -> None:
        self.cluster.run(ticks)

    @rule(ticks=st.integers(1, 6))
    def operator_is_away(self, ticks: int) -> None:
        self.cluster.tick(ticks)

    @rule(writes=st.integers(1, 4), ticks=st.integers(1, 6))
    def operator_crashes(self, writes: int, ticks: int) -> None:
        self.cluster.server.crash_after = len(self.cluster.server.writes) + writes
        self.cluster.run(ticks)
        self.cluster.server.crash_after = None

    @rule(replicas=st.integers(1, 5))
    def scale(self, replicas: int) -> None:
        self.cluster.edit(replicas=replicas)

    @rule(suspend=st.booleans())
    def suspend(self, suspend: bool) -> None:
        self.cluster.edit(suspend=suspend)

    @rule(nonce=st.integers(0, 3))
    def restart(self, nonce: int) -> None:
        self.cluster.edit(restartNonce=nonce)

    @rule(slots=st.sets(st.integers(0, 4), max_size=2))
    def room(self, slots: set[int]) -> None:
        self.cluster.no_room = slots

    @rule(why=st.sampled_from(["", "", "KeyError: 'x'"]))
    def program(self, why: str) -> None:
        self.cluster.failing = why

    @rule(silent=st.booleans())
    def control_api(self, silent: bool) -> None:
        self.cluster.silent = silent

    @rule(down=st.booleans())
    def api_server(self, down: bool) -> None:
        self.cluster.server.down = down

    @precondition(lambda self: any(key[0] == "Pod" for key in self.cluster.server.objects))
    @rule(data=st.data(), at_once=st.booleans())
    def pod_goes(self, data: st.DataObject, at_once: bool) -> None:
        pods = sorted(key for key in self.cluster.server.objects if key[0] == "Pod")
        key = data.draw(st.sampled_from(pods))
        self.cluster.server.remove(key, at_once=at_once)
        self.cluster.queries = {u: q for u, q in self.cluster.queries.items() if u in self.uids()}

    @rule(kind=st.sampled_from(["Secret", "Service", "ConfigMap", "NetworkPolicy"]))
    def child_goes(self, kind: str) -> None:
        for key in [key for key in self.cluster.server.objects if key[0] == kind]:
            self.cluster.server.remove(key)

    @rule(name=st.sampled_from(["driver", "executor"]), replicas=st.integers(1, 6))
    def somebody_scales_a_stateful_set(self, name: str, replicas: int) -> None:
        key = ("StatefulSet", NS, f"{NAME}-{name}")
        if key in self.cluster.server.objects and (name == "executor" or replicas == 1):
            more = max(replicas, self.cluster.server.objects[key]["spec"]["replicas"])
            self.cluster.server.edit(*key, {"replicas": more})

    def uids(self) -> set[str]:
        """UIDs of the pods there are."""
        return {found["metadata"]["uid"] for key, found in self.cluster.server.objects.items() if key[0] == "Pod"}

    def teardown(self) -> None:
        """Nothing goes wrong any more."""
        if hasattr(self, "cluster"):
            self.cluster.converge()


TestDisturbed = Disturbed.TestCase
TestDisturbed.settings = settings(
    max_examples=60, stateful_step_count=30, deadline=None, suppress_health_check=list(HealthCheck)
)


ACTS: dict[str, Callable[[SimCluster], object]] = {
    "made": lambda cluster: cluster.start(2),
    "scaled out": lambda cluster: cluster.edit(replicas=4),
    "scaled in": lambda cluster: cluster.edit(replicas=3),
    "another image": lambda cluster: cluster.edit(image="example/clicks:2"),
    "scaled with another image": lambda cluster: cluster.edit(image="example/clicks:3", replicas=4),
    "suspended": lambda cluster: cluster.edit(suspend=True),
    "resumed with fewer": lambda cluster: cluster.edit(suspend=False, replicas=2),
    "without its Secret": lambda cluster: cluster.server.remove(("Secret", NS, f"{NAME}-keys")),
    "without its services": lambda cluster: [
        cluster.server.remove(key) for key in list(cluster.server.objects) if key[0] == "Service"
    ],
}
"""A dataflow's life, with every kind of write there is."""


def end(cluster: SimCluster) -> tuple[object, ...]:
    """What an act came to, but for names and times that are drawn."""
    objects = sorted((kind, name) for kind, _, name in cluster.server.objects if kind != "Event")
    target = cluster.log.target or {}
    return (
        objects,
        sorted(cluster.log.wanted().items()),
        target.get("workers"),
        target.get("generation"),
        cluster.status["phase"],
    )


WRITES_MIN = {
    "made": 17,
    "scaled out": 8,
    "scaled in": 8,
    "another image": 12,
    "suspended": 10,
    "without its Secret": 12,
}
"""An act takes at least so many writes; a test that crashes after fewer would miss some."""


def test_crash_after_every_write() -> None:
    """An operator that ends right after any one of its writes is followed by one that comes to the same end."""
    cluster = SimCluster()
    for name, act in ACTS.items():
        before = cluster.fork()
        act(cluster)
        cluster.server.writes.clear()
        cluster.converge()
        wanted, writes = end(cluster), len(cluster.server.writes)
        assert writes >= WRITES_MIN.get(name, 1), f"{name}: {writes} writes"
        for write in range(1, writes + 1):
            other = before.fork()
            act(other)
            other.server.crash_after = write
            other.converge()
            assert other.server.crash_after is None, f"{name}: there was no write {write}"
            assert end(other) == wanted, f"{name}: after a crash at write {write}"
