"""Drained and lost workers that have returned: once registered, they get their share of the bins at once, in one step."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from threading import Thread
from types import SimpleNamespace
from typing import Any

import pytest
from background_world import BackgroundWorld
from target_world import UID, begun, rows, slots, targets

from binshift.control import read_model
from binshift.engine.dataflow import Dataflow
from binshift.engine.ports import Executor
from binshift.model import Worker
from binshift.spark.frontend.dataflow import StreamingQuery
from binshift.spark.jobs.input_meter import InputMeter
from binshift.spark.session.progress import Reports
from simulator import SimulatedCluster


def query(cluster: SimulatedCluster, executors: dict[Worker, str]) -> StreamingQuery:
    """A query over a simulated cluster, as a program holds it; its background round is still running and notices no worker."""
    alive = SimpleNamespace(alive=lambda: {w: SimpleNamespace(id=name) for w, name in executors.items()})
    parts: Any = (SimpleNamespace(ports=SimpleNamespace(executors=alive)), SimpleNamespace(wake=lambda: None))
    dataflow = Dataflow(targets(cluster).log, cluster.driver.coordinator, targets(cluster), *parts)
    stream: Any = SimpleNamespace(_jsq=None, isActive=True, awaitTermination=lambda: None)
    none: Any = None
    meter = InputMeter(None, None)
    return StreamingQuery(stream, none, dataflow, Reports(deque()), meter, none, lambda: None, lambda: None)


def test_who_has_just_registered_is_told() -> None:
    """Before the first round of background work, and while a long one lasts."""
    assert set(read_model.registered(query(begun(), {Worker(0): "0", Worker(2): "8"}).dataflow)) == {0, 2}


def test_a_target_takes_notice_of_who_is_there() -> None:
    """Workers that were drained, and have returned since the last round, get bins by the target that includes them."""
    cluster = begun()
    executors = {Worker(w): str(w) for w in range(4)}
    running = query(cluster, executors)
    running.put_target(owner=UID, generation=1, workers=slots(0, 1, 2))
    cluster.settle()
    running.drain(Worker(2))
    running.put_target(owner=UID, generation=2, workers=slots(0, 1))
    cluster.settle()
    executors[Worker(2)] = "12"
    begun_by_target = running.put_target(owner=UID, generation=3, workers=slots(0, 1, 2))
    assert begun_by_target is not None
    assert begun_by_target.request.workers == (0, 1, 2)


@pytest.mark.parametrize("noticed", [{}, {Worker(1): "an earlier one"}], ids=["no executor", "an earlier executor"])
def test_a_drain_is_of_the_executor_that_is_there(noticed: dict[Worker, str]) -> None:
    """A later round does not treat that executor as a returned one."""
    cluster = begun()
    targets(cluster).observe(noticed)
    executors = {Worker(w): str(w) for w in range(4)}
    query(cluster, executors).drain(Worker(1))
    targets(cluster).observe(executors)
    assert targets(cluster).effective == (0,)


def test_a_target_for_noticed_workers_is_one_migration() -> None:
    """Drained workers whose next executors were noticed are all part of the migration that a target begins."""
    cluster = begun()
    executors = {Worker(w): str(w) for w in range(4)}
    targets(cluster).put(UID, 1, slots(0, 1, 2, 3))
    cluster.settle()
    targets(cluster).drain(Worker(2))
    targets(cluster).drain(Worker(3))
    targets(cluster).put(UID, 2, slots(0, 1))
    cluster.settle()
    assert targets(cluster).effective == (0, 1)
    targets(cluster).observe(executors | {Worker(2): "12", Worker(3): "13"})
    begun_by_target = targets(cluster).put(UID, 3, slots(0, 1, 2, 3))
    assert begun_by_target is not None
    assert begun_by_target.request.workers == (0, 1, 2, 3)


def test_numbers_of_migrations_go_on_after_a_restart() -> None:
    """A restarted driver numbers its migrations above those of the previous driver."""
    cluster = begun()
    first = targets(cluster).put(UID, 1, slots(0, 1, 2))
    assert first is not None
    cluster.settle()
    cluster.restart_driver()
    cluster.epoch(rows(4))
    second = targets(cluster).put(UID, 2, slots(0, 1))
    assert second is not None
    assert second.id > first.id


def test_executors_are_read_and_observed_at_once() -> None:
    """While they are read, the epoch reports no loss, which the older reading would undo: the worker would not get its bins back."""
    world = BackgroundWorld()
    free: list[bool] = []
    lock, alive = world.coordinator.lock, world.alive

    def watched() -> Mapping[Worker, Executor]:
        other = Thread(target=lambda: free.append(lock.acquire(blocking=False)))
        other.start()
        other.join()
        return alive()

    world.alive = watched  # type: ignore[method-assign]
    world.round()
    assert free == [False]
