"""Liveness: a slow API server is no reason to restart the operator; a worker without progress is."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

import kopf
import pytest
from prometheus_client.registry import CollectorRegistry
from sim_cluster import NAME, NS, SDF, SimCluster
from sim_server import SimServer
from test_main import _free_port

from binshift_operator import main as module
from binshift_operator.actor import Actor
from binshift_operator.controller import PROGRESS_SECONDS_MAX, Controller, Heartbeats
from binshift_operator.errors import Unreachable
from binshift_operator.kube import SECONDS_MAX, Kube
from binshift_operator.memo import Memo
from binshift_operator.metrics import OperatorMetrics
from binshift_operator.model.actions import DeletePod
from binshift_operator.model.specification import Dataflow, parse
from binshift_operator.observe import Observation
from binshift_operator.reconcile import Result
from binshift_operator.work_queue import WorkQueue

REQUEST_SECONDS = sum(SECONDS_MAX)
"""The longest request: another one fails."""


class SlowServer:
    """An API server each of whose responses takes its time, or comes too late.

    Attributes:
        seconds: until a response, or until the client gives up.
        fails: whether the client gives up.
        during: called while a request is under way, after its time has passed.
    """

    def __init__(self, seconds: float = REQUEST_SECONDS) -> None:
        self.now, self.seconds, self.fails = 0.0, seconds, False
        self.during: Callable[[], None] = lambda: None
        self.requests = 0

    def __call__(
        self, method: str, path: str, query: Mapping[str, str], body: Any, content_type: str
    ) -> tuple[int, bytes]:
        """See `Transport`."""
        self.requests += 1
        self.now += self.seconds
        self.during()
        if self.fails:
            raise Unreachable("timed out")
        return 200, b'{"metadata": {}}'


def controller(server: SlowServer, heartbeats: Heartbeats, reconcile: Callable[[Kube], None]) -> Controller:
    """A controller whose reconciliations make requests to this server."""
    kube = Kube(server, on_request_end=heartbeats.beat)

    def reconciled(namespace: str, name: str) -> Result:
        reconcile(kube)
        return Result(60.0)

    queue = WorkQueue(lambda: server.now)
    queue.add((NS, NAME))
    parts = queue, reconciled, kube, OperatorMetrics(CollectorRegistry())
    return Controller(*parts, (), 60.0, 1, heartbeats=heartbeats)


def problems_during(server: SlowServer, reconcile: Callable[[Kube], None]) -> list[str]:
    """What liveness reported in the middle of each request of one reconciliation."""
    heartbeats = Heartbeats(lambda: server.now)
    alive = controller(server, heartbeats, reconcile)
    found: list[str] = []
    server.during = lambda: found.append(alive.liveness_problem())
    heartbeats.watch()
    key = alive.queue.get(0)
    assert key is not None
    alive._process(key)
    return found


def test_many_slow_requests_are_progress() -> None:
    """A reconciliation that replaces a thousand executors lasts for hours if each request takes the longest time, and is alive."""
    server = SlowServer()
    cluster = SimCluster().start(1)
    cluster.converge()
    dataflow, observation = observe(cluster)

    def replace_all(kube: Kube) -> None:
        result = Actor(kube).execute(
            dataflow, observation, [DeletePod(f"{NAME}-executor-{n}", "u", "") for n in range(1000)]
        )
        assert (result.done, result.failure) == (1000, None)

    assert set(problems_during(server, replace_all)) == {""}
    assert (server.requests, server.now > 10 * PROGRESS_SECONDS_MAX) == (1000, True)


def test_failed_requests_are_progress() -> None:
    """An API server from which no response arrives in time is no reason for a restart either, whatever is requested."""
    server = SlowServer()
    server.fails = True

    def read(kube: Kube) -> None:
        for number in range(100):
            with pytest.raises(Unreachable):
                kube.get("Pod", NS, str(number))

    assert set(problems_during(server, read)) == {""}
    assert server.requests == 100


def test_a_request_that_never_ends_is_reported() -> None:
    """A worker whose request outlasts its own time limit is stuck, and the message names it."""
    server = SlowServer(PROGRESS_SECONDS_MAX + 1)

    def read(kube: Kube) -> None:
        kube.get("Pod", NS, NAME)

    (problem,) = problems_during(server, read)
    assert problem == f"threads without progress: {threading.current_thread().name}"


def test_progress_of_other_threads_is_not_counted() -> None:
    """The thread that lists dataflows waits for longer, and makes requests by the same client."""
    now = 0.0
    heartbeats = Heartbeats(lambda: now)
    heartbeats.beat()
    now = 2 * PROGRESS_SECONDS_MAX
    assert heartbeats.stuck() == []


def test_threads_that_ended_are_reported() -> None:
    """A worker that ended although the controller was not stopped is named; threads that run are no problem."""
    server = SimServer(lambda: 0.0)
    queue = WorkQueue(time.monotonic)
    running = Controller(
        queue, lambda *key: Result(60.0), Kube(server), OperatorMetrics(CollectorRegistry()), (), 60.0, 1
    )
    running.start()
    try:
        assert running.liveness_problem() == ""
        queue.shut_down()
        running._threads[0].join(30)
        assert running.liveness_problem() == "threads dead: dataflow-0"
    finally:
        running.stop()


def observe(cluster: SimCluster) -> tuple[Dataflow, Observation]:
    """The dataflow, and everything about it."""
    dataflow = parse(cluster.server.objects[SDF])
    return dataflow, cluster.reconciler.observer.observe(dataflow, Memo(dataflow.key.uid))


def test_the_process_counts_its_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    """The operator's own client reports to the heartbeats by which its liveness is judged."""
    server, made = SimServer(lambda: 0.0), dict[str, Any]()

    def watched(**given: Any) -> None:
        made["alive"] = made["controller"].liveness_problem()

    class Seen(Controller):
        def start(self) -> None:
            made["controller"] = self
            super().start()

    monkeypatch.setattr(module, "ServerConnection", lambda: server)
    monkeypatch.setattr(module, "Controller", Seen)
    monkeypatch.setattr(kopf, "run", watched)
    assert module.main({"BINSHIFT_HTTP_PORT": str(_free_port())}) == 0
    assert made["alive"] == ""
    assert made["controller"].kube._on_request_end == made["controller"].heartbeats.beat
