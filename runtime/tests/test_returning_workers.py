"""Workers that were drained and are back: one that is reported as registered gets its share of the bins at once, not in a second step."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from steering_world import UID, begun, rows, slots, steering

from binshift.control.inside import QueryInside
from binshift.model import Worker


def inside(executors: dict[Worker, str], observed: dict[Worker, str]) -> QueryInside:
    """The parts of a query with these executors, of which its background has noticed those."""
    found = {worker: SimpleNamespace(id=name) for worker, name in executors.items()}
    dataflow: Any = SimpleNamespace(
        coordinator=None,
        log=None,
        epochs=SimpleNamespace(executors=SimpleNamespace(alive=lambda: found)),
        background=SimpleNamespace(observed=observed),
    )
    return QueryInside(dataflow)


def test_only_noticed_executors_count_as_registered() -> None:
    """An executor that is newer than what was last noticed of its worker is not reported yet."""
    there = {Worker(0): "0", Worker(1): "7", Worker(2): "8"}
    assert inside(there, {Worker(0): "0", Worker(1): "1"}).registered() == {0}
    assert inside(there, there).registered() == {0, 1, 2}


def test_a_target_for_noticed_workers_is_one_migration() -> None:
    """Workers that were drained, and whose next executors have been noticed, are all in the migration that a target begins."""
    cluster = begun()
    executors = {Worker(w): str(w) for w in range(4)}
    steering(cluster).put(UID, 1, slots(0, 1, 2, 3))
    cluster.settle()
    steering(cluster).drain(Worker(2))
    steering(cluster).drain(Worker(3))
    steering(cluster).put(UID, 2, slots(0, 1))
    cluster.settle()
    assert steering(cluster).effective == (0, 1)
    steering(cluster).observe(executors | {Worker(2): "12", Worker(3): "13"})
    begun_by_target = steering(cluster).put(UID, 3, slots(0, 1, 2, 3))
    assert begun_by_target is not None
    assert begun_by_target.request.workers == (0, 1, 2, 3)


def test_numbers_of_migrations_go_on_after_a_restart() -> None:
    """A driver that starts again numbers its migrations above those of the driver before it."""
    cluster = begun()
    first = steering(cluster).put(UID, 1, slots(0, 1, 2))
    assert first is not None
    cluster.settle()
    cluster.restart_driver()
    cluster.epoch(rows(4))
    second = steering(cluster).put(UID, 2, slots(0, 1))
    assert second is not None
    assert second.id > first.id
