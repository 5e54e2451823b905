"""The Lease: one process of the operator is active at a time, whatever happens to the others, and a takeover is not delayed."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from prometheus_client.registry import CollectorRegistry
from sim_cluster import NAME, NS, SimCluster
from sim_server import SimServer
from test_status_degraded import start_cluster

from binshift_operator.actor import Actor
from binshift_operator.configuration import Configuration
from binshift_operator.controller import Controller
from binshift_operator.driver_client import DriverClient
from binshift_operator.errors import NotLeading
from binshift_operator.kube import Kube
from binshift_operator.leader_election import (
    LEASE_DURATION_SECONDS,
    RENEW_DEADLINE_SECONDS,
    RETRY_PERIOD_SECONDS,
    AlwaysLeader,
    LeaderElector,
)
from binshift_operator.main import leadership_handler, make_elector
from binshift_operator.metrics import OperatorMetrics
from binshift_operator.reconcile import Result
from binshift_operator.work_queue import WorkQueue

LEASE = ("Lease", "system", "operator")


@dataclass
class Candidates:
    """Processes that want one Lease; each has a clock of its own, that began at another time.

    Attributes:
        lost: pods that cannot reach the API server.
        changes: the calls of each process's callback.
    """

    count: int
    now: float = 0.0
    lost: set[int] = field(default_factory=set)
    changes: list[list[bool]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.server = SimServer(lambda: self.now)
        self.all = [self.another(number) for number in range(self.count)]

    def another(self, number: int) -> LeaderElector:
        """A process."""

        def requests(
            method: str, path: str, query: Mapping[str, str], body: dict[str, Any] | None, content_type: str
        ) -> tuple[int, bytes]:
            from binshift_operator.errors import Unreachable

            if number in self.lost:
                raise Unreachable("the network is gone")
            return self.server(method, path, query, body, content_type)

        self.changes.append([])
        on_change = self.changes[number].append
        clock, today = lambda: self.now + 1000.0 * number, lambda: 1.7e9 + self.now
        return LeaderElector(Kube(requests), "system", "operator", f"pod-{number}", clock, today, on_change)

    @property
    def leading(self) -> list[int]:
        """The active processes."""
        return [number for number, each in enumerate(self.all) if each.is_leader()]

    def run(self, seconds: float) -> None:
        """Time passes; each tries as often as it does."""
        until = self.now + seconds
        while self.now < until:
            for each in self.all:
                each.try_acquire_or_renew()
                assert len(self.leading) <= 1
            for _ in range(int(RETRY_PERIOD_SECONDS)):
                self.now += 1.0
                assert len(self.leading) <= 1


def test_one_of_them_acts() -> None:
    """The first process holds the Lease, and keeps it."""
    found = Candidates(3)
    found.run(120)
    assert found.leading == [0]
    assert found.changes == [[True], [], []]
    lease = found.server.objects[LEASE]["spec"]
    assert (lease["holderIdentity"], lease["leaseTransitions"]) == ("pod-0", 0)
    assert lease["acquireTime"] == "2023-11-14T22:13:20.000000Z" < lease["renewTime"]


def test_one_that_is_cut_off_stops_before_another_begins() -> None:
    """A holder that cannot renew acts no more, and only then another one does; if it comes back, it waits for its turn."""
    found = Candidates(2)
    found.run(30)
    found.lost = {0}
    found.run(RENEW_DEADLINE_SECONDS)
    assert found.leading == []
    found.run(LEASE_DURATION_SECONDS + RETRY_PERIOD_SECONDS - RENEW_DEADLINE_SECONDS + RETRY_PERIOD_SECONDS)
    assert found.leading == [1]
    found.lost = set()
    found.run(60)
    assert found.leading == [1]
    assert found.changes == [[True, False], [True]]


def test_stopped_leader_releases_the_lease() -> None:
    """A process that ends in order gives the Lease back: the next one takes it at its next try."""
    found = Candidates(2)
    found.run(30)
    found.all[0].stop()
    assert found.leading == []
    found.all[1].try_acquire_or_renew()
    assert found.leading == [1]


def test_a_container_that_starts_again_goes_on() -> None:
    """The same pod need not wait for its own Lease."""
    found = Candidates(2)
    found.run(30)
    found.all[0] = found.another(0)
    found.all[0].try_acquire_or_renew()
    assert found.leading == [0]


@pytest.mark.parametrize("seed", range(20))
def test_never_two_at_a_time(seed: int) -> None:
    """When processes are cut off, end or return at any moment, two are never active at one time; without faults, one soon is."""
    chance, found = random.Random(seed), Candidates(3)
    for _ in range(60):
        found.lost = {number for number in range(3) if chance.random() < 0.3}
        for number in chance.sample(range(3), chance.randint(1, 3)):
            found.all[number].try_acquire_or_renew()
            assert len(found.leading) <= 1
        for _ in range(chance.randint(1, 12)):
            found.now += 1.0
            assert len(found.leading) <= 1
    found.lost = set()
    found.run(LEASE_DURATION_SECONDS + 2 * RETRY_PERIOD_SECONDS)
    assert len(found.leading) == 1


def test_the_api_server_away_is_no_reason_to_act() -> None:
    """While no process can renew, none is active; afterwards one is at once."""
    found = Candidates(2)
    found.run(30)
    found.server.down = True
    found.run(120)
    assert found.leading == []
    found.server.down = False
    found.run(RETRY_PERIOD_SECONDS)
    assert len(found.leading) == 1


def test_without_the_lease_nothing_is_written() -> None:
    """A process that has lost its Lease during a reconciliation changes nothing: neither objects nor the runtime."""
    cluster = start_cluster()
    reconciler = cluster.reconciler
    kube = Kube(cluster.server, is_leader=lambda: False)
    reconciler.kube, reconciler.actor = kube, Actor(kube)
    reconciler.observer = replace(reconciler.observer, kube=kube)
    cluster.edit(replicas=4)
    before, target = len(cluster.server.writes), dict(cluster.log.target or {})
    with pytest.raises(NotLeading):
        reconciler.reconcile(NS, NAME)
    assert len(cluster.server.writes) == before
    assert cluster.log.target == target


def test_what_was_seen_is_forgotten_with_the_lease() -> None:
    """A process that does not act any more shows no dataflow as if it still served it."""
    cluster = SimCluster().start()
    registry = CollectorRegistry()
    metrics = OperatorMetrics(registry)
    cluster.reconciler.metrics = metrics
    cluster.converge()
    on_change = leadership_handler(cluster.reconciler, metrics)
    running = {"phase": "Running"}
    on_change(True)
    assert registry.get_sample_value("binshift_operator_leading") == 1.0
    assert registry.get_sample_value("binshift_operator_phases", running) == 1.0
    on_change(False)
    assert registry.get_sample_value("binshift_operator_leading") == 0.0
    assert registry.get_sample_value("binshift_operator_phases", running) == 0.0


def test_running_reconciliation_shows_nothing_after_the_lease_is_lost() -> None:
    """The result of a reconciliation that ends after the Lease was lost is not shown; once it is held again, new results are."""
    cluster = SimCluster().start()
    registry = CollectorRegistry()
    metrics = cluster.reconciler.metrics = OperatorMetrics(registry)
    cluster.converge()
    on_change, observer = leadership_handler(cluster.reconciler, metrics), cluster.reconciler.observer
    on_change(True)

    def connect(address: str, token: str) -> DriverClient:
        on_change(False)
        return observer.connect(address, token)

    cluster.reconciler.observer = replace(observer, connect=connect)
    cluster.reconcile()
    assert registry.get_sample_value("binshift_operator_phases", {"phase": "Running"}) == 0.0
    cluster.reconciler.observer = observer
    on_change(True)
    cluster.reconcile()
    assert registry.get_sample_value("binshift_operator_phases", {"phase": "Running"}) == 1.0


def test_without_a_lease_it_always_acts() -> None:
    """Without a configured Lease, the installation ensures that there is only one process."""
    kube = Kube(SimServer(lambda: 0.0))
    assert isinstance(make_elector(Configuration(), kube), AlwaysLeader)
    named = Configuration.from_environment({"BINSHIFT_LEASE": "x", "BINSHIFT_NAMESPACE": "a", "BINSHIFT_POD": "p"})
    found = make_elector(named, kube)
    assert isinstance(found, LeaderElector)
    assert (found.namespace, found.name, found.identity) == ("a", "x", "p")


def test_standby_reconciles_nothing() -> None:
    """While another process acts, what is due stays due; it is reconciled as soon as this one acts."""
    reconciled, polls, acts = threading.Event(), threading.Semaphore(0), threading.Event()

    def reconcile(*key: str) -> Result:
        reconciled.set()
        return Result(60.0)

    def leading() -> bool:
        polls.release()
        return acts.is_set()

    queue = WorkQueue(time.monotonic)
    queue.add((NS, NAME))
    server = SimServer(lambda: 0.0)
    controller = Controller(
        queue, reconcile, Kube(server), OperatorMetrics(CollectorRegistry()), (), 60.0, 1, "", leading
    )
    controller.start()
    try:
        for _ in range(2):
            assert polls.acquire(timeout=30)
        assert not reconciled.is_set()
        assert controller.liveness_problem() == ""
        acts.set()
        assert reconciled.wait(30)
    finally:
        controller.stop()
