"""A query on a simulated cluster as the control API's service sees it: real protocol, log and stores, no Spark."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

from measured_epochs import Measured

from binshift.control.query_service import QueryService
from binshift.engine.coordinator import Coordinator
from binshift.engine.dataflow import Dataflow
from binshift.engine.migrations import Migration
from binshift.engine.target_controller import TargetController
from binshift.epoch_costs import EpochCosts
from binshift.load import Load, load_of
from binshift.model import Epoch, Worker
from binshift.savepoints.planning import Source
from binshift.savepoints.shelf import Shelf
from binshift.spark.jobs.input_meter import InputMeter
from simulator import Row, SimulatedCluster, Totals
from simulator.faulty import Files

BINS = 8


class SimulatedQuery:
    """The public and the internal interface of a query that runs on a simulated cluster."""

    name, id, runId = "clicks", "query-id", "run-id"  # noqa: N815 (PySpark's names)

    def __init__(self, cluster: SimulatedCluster) -> None:
        self.cluster = cluster
        self.timings: list[Measured] = []
        self.input = InputMeter(None, None)
        self.isActive, self.error = True, None
        self.spark_is_gone = False
        self.stopped = threading.Event()
        stopping = threading.Event()
        ports = SimpleNamespace(executors=SimpleNamespace(alive=self._executors))
        self.epochs = SimpleNamespace(ports=ports, stopping=stopping, progress=None, runs_failed=0)
        self.epochs.timings = self.timings
        self.checkpoint = Files()
        self.checkpoint.put("metadata", b"{}")
        self.savepoints = Shelf(
            Source("/checkpoint", self.checkpoint, cluster.driver.log, cluster.driver.log.format.query)
        )

    def _executors(self) -> dict[Worker, Any]:
        if self.spark_is_gone:
            raise ConnectionError("no answer from the JVM")
        return {worker: SimpleNamespace(id="executor") for worker in self.cluster.world.alive}

    def load(self, now: float) -> Load:
        """Nothing is measured."""
        return load_of([], EpochCosts(), now)

    @property
    def dataflow(self) -> Any:
        parts = (self._targets.log, self._coordinator, self._targets)
        return Dataflow(*parts, self.epochs, None)  # type: ignore[arg-type]

    @property
    def _coordinator(self) -> Coordinator:
        return self.cluster.driver.coordinator

    @property
    def _targets(self) -> TargetController:
        return self.cluster.driver.targets

    @property
    def epoch(self) -> Epoch:
        return self._coordinator.last

    @property
    def route(self) -> Any:
        return self._coordinator.route

    @property
    def migrations(self) -> Sequence[Migration]:
        return tuple(self._coordinator.migrations.history)

    @property
    def target(self) -> Any:
        return self._targets.target

    @property
    def effective_workers(self) -> tuple[Worker, ...]:
        return self._targets.effective

    def exception(self) -> Exception | None:
        if self.spark_is_gone:
            raise ConnectionError("no answer from the JVM")
        return self.error

    def put_target(self, **wanted: Any) -> Migration | None:
        return self._targets.put(**wanted)

    def rebalance(self, **wanted: Any) -> Migration:
        return self._targets.rebalance(**wanted)

    def drain(self, worker: Worker) -> Migration:
        return self._targets.drain(worker)

    def cancel(self, number: int, *, rollback: bool) -> Migration:
        return self._targets.cancel(number, rollback=rollback)

    def stop(self) -> None:
        self.epochs.stopping.set()
        self.isActive = False
        self.stopped.set()


class World:
    """A cluster of two workers with bins and four machines, after three epochs, with its query and its service."""

    def __init__(self) -> None:
        self.now = 1_000.0
        self.cluster = SimulatedCluster({"totals": Totals()}, bins=BINS, workers=2, slots=4)
        self.query = SimulatedQuery(self.cluster)
        self.service = QueryService(self.query, lambda: self.now)
        self.cluster.driver.migrations.clock = SimpleNamespace(time=lambda: self.now)
        for _ in range(3):
            self.epoch()

    def epoch(self) -> None:
        """One epoch of one second, followed by a round of background work."""
        rows: list[Row] = [{"key": f"k{i}", "value": 1, "time": 0} for i in range(40)]
        moving = not self.query._coordinator.migrations.idle
        self.cluster.epoch(rows)
        for folder in ("offsets", "commits"):
            self.query.checkpoint.put(f"{folder}/{self.query.epoch}", b"v1")
        moving = moving or not self.query._coordinator.migrations.idle
        self.cluster.background()
        self.now += 1.0
        seconds = {"total": 0.4}
        measured = Measured(self.query.epoch, committed_at=self.now, seconds=seconds, moving=moving)
        self.query.timings.append(measured)

    def settle(self) -> None:
        """Epochs until nothing moves."""
        for _ in range(100):
            if all(each.ended for each in self.query.migrations):
                return
            self.epoch()
        raise AssertionError("a migration did not end")
