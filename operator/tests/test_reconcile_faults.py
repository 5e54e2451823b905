"""The operator disturbed: by everything that can happen at any time, and by its own end after every single write."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule
from sim_cluster import NAME, NS, SimCluster
from test_drift_contested import stubborn

from binshift_operator.model.names import Child
from binshift_operator.model.observed import REVISIONS, ChildState


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

    @rule(nonce=st.integers(0, 3), surge=st.integers(0, 1))
    def roll(self, nonce: int, surge: int) -> None:
        self.cluster.edit(executor={"restartNonce": nonce, "maxSurge": surge})

    @rule(slots=st.sets(st.integers(0, 5), max_size=2))
    def room(self, slots: set[int]) -> None:
        self.cluster.no_room = slots

    @rule(slots=st.sets(st.integers(0, 5), max_size=2))
    def pods_do_not_start(self, slots: set[int]) -> None:
        self.cluster.stuck = slots

    @rule(why=st.sampled_from(["", "", "KeyError: 'x'"]))
    def program(self, why: str) -> None:
        self.cluster.failing = why

    @rule(silent=st.booleans())
    def control_api(self, silent: bool) -> None:
        self.cluster.silent = silent

    @rule(small=st.booleans())
    def wrong_spec(self, small: bool) -> None:
        self.cluster.edit(executor={"resources": {"limits": {"memory": "600Mi"}}} if small else {})

    @rule(odd=st.booleans())
    def unreadable_spec(self, odd: bool) -> None:
        self.cluster.edit(migration={"timeout": "soon"} if odd else {})

    @rule(ending=st.booleans())
    def program_ends(self, ending: bool) -> None:
        self.cluster.ending = ending

    @rule(on=st.booleans())
    def webhook(self, on: bool) -> None:
        self.cluster.server.webhook = stubborn if on else lambda kind, found: None

    @rule(part=st.sampled_from(["", "services", "statefulsets", "configmaps"]))
    def writes_are_refused(self, part: str) -> None:
        self.cluster.server.refusing = {part: (500, "a webhook fails")} if part else {}

    @rule(why=st.sampled_from(["", "exceeded quota"]))
    def quota(self, why: str) -> None:
        self.cluster.no_pods = why

    @rule(deaf=st.booleans())
    def events_get_lost(self, deaf: bool) -> None:
        self.cluster.deaf = deaf

    @rule()
    def an_event_comes_twice(self) -> None:
        self.cluster.reconciler.invalidate(NS, NAME)

    @rule(child=st.sampled_from(Child), found=st.sampled_from(ChildState), replicas=st.integers(0, 6))
    def what_is_remembered_is_wrong(self, child: Child, found: ChildState, replicas: int) -> None:
        memo = self.cluster.reconciler._memos.get((NS, NAME))
        if memo is not None and memo.cached is not None:
            seen = memo.cached.observed
            false = replace(seen.children[child], state=found, replicas=replicas)
            observed = replace(seen, children={**seen.children, child: false})
            memo.cached = replace(memo.cached, observed=observed)

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
    def user_scales_a_stateful_set(self, name: str, replicas: int) -> None:
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
            self.cluster.ending = False
            self.cluster.edit(executor={}, migration={}, restartNonce=4)
            self.cluster.converge()


TestDisturbed = Disturbed.TestCase
TestDisturbed.settings = settings(
    max_examples=60, stateful_step_count=30, deadline=None, suppress_health_check=list(HealthCheck)
)


def remove_secret(cluster: SimCluster) -> None:
    """Delete the Secret."""
    cluster.server.remove(("Secret", NS, f"{NAME}-keys"))


def remove_services(cluster: SimCluster) -> None:
    """Delete the Services."""
    for key in [key for key in cluster.server.objects if key[0] == "Service"]:
        cluster.server.remove(key)


ACTS: dict[str, Callable[[SimCluster], object]] = {
    "made": lambda cluster: cluster.start(2),
    "scaled out": lambda cluster: cluster.edit(replicas=4),
    "scaled in": lambda cluster: cluster.edit(replicas=3),
    "another image": lambda cluster: cluster.edit(image="example/clicks:2"),
    "scaled with another image": lambda cluster: cluster.edit(image="example/clicks:3", replicas=4),
    "rolled": lambda cluster: cluster.edit(executor={"restartNonce": 1}),
    "rolled with fewer": lambda cluster: cluster.edit(executor={"restartNonce": 2}, replicas=3),
    "suspended": lambda cluster: cluster.edit(suspend=True),
    "resumed with fewer": lambda cluster: cluster.edit(suspend=False, replicas=2),
    "without its Secret": remove_secret,
    "without its services": remove_services,
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
        target.get("generation", 0) // REVISIONS,
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
        cluster.restart_operator()
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
