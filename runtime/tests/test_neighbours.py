"""Several stateful queries of one application: shared slots are counted, and no query is started twice."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pytest

from binshift.engine.ports import Executor
from binshift.errors import InvalidQuery, InvalidSettings
from binshift.model import Worker
from binshift.spark.frontend.neighbours import Neighbours, of
from binshift.spark.jobs.batches import with_nudge_source
from binshift.spark.session import jvm

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass
class Query:
    """A query that runs until it is stopped."""

    isActive: bool = True  # noqa: N815 (PySpark's name)


def executors(cores: int) -> dict[Worker, Executor]:
    """Two workers, one of which has this many slots."""
    return {Worker(0): Executor("0", "127.0.0.2", 16), Worker(1): Executor("1", "127.0.0.3", cores)}


def test_a_query_needs_two_slots_on_every_worker() -> None:
    """One slot is for its epoch, one for background work; the error has the numbers, and an ended query needs none."""
    held = Neighbours()
    first = held.enter("a", None, "/a")
    held.check_slots(executors(2))
    held.enter("b", None, "/b")
    held.check_slots(executors(4))
    with pytest.raises(
        InvalidSettings, match=r"worker 1 has 3 task slots; 2 .* need 4, 2 each: set spark.executor.cores to 4"
    ):
        held.check_slots(executors(3))
    with pytest.raises(InvalidSettings, match=r"worker 1 has 3 task slots; .* set spark.executor.cores to 8"):
        replace(held, cpus_per_task=2).check_slots(executors(7))
    first.running = Query(isActive=False)
    held.check_slots(executors(2))


def test_a_query_that_runs_is_not_started_again() -> None:
    """Neither its checkpoint nor its name can be used again until it has ended or failed to start."""
    held = Neighbours()
    first = held.enter("a", "clicks", "/a")
    first.running = query = Query()
    with pytest.raises(InvalidQuery, match="/a is already running in this application"):
        held.enter("a", "others", "/a")
    with pytest.raises(InvalidQuery, match="a query named 'clicks'"):
        held.enter("b", "clicks", "/b")
    held.enter("b", None, "/b")
    held.enter("c", None, "/c")
    query.isActive = False
    again = held.enter("a", "clicks", "/a")
    held.leave(first)
    with pytest.raises(InvalidQuery):
        held.enter("a", "clicks", "/a")
    held.leave(again)
    held.enter("a", "clicks", "/a")


def in_a_thread(act: Callable[[], Any]) -> Any:
    """The result or error of ``act`` in a separate thread."""
    found: list[Any] = []

    def run() -> None:
        try:
            found.append(act())
        except Exception as error:  # any error: it is raised again below
            found.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    if isinstance(found[0], Exception):
        raise found[0]
    return found[0]


def test_any_thread_finds_the_classes(spark: SparkSession) -> None:
    """Another thread than the first may start a query, and several threads may do so at once."""
    stream = spark.readStream.format("rate").load()
    java = jvm.install(spark)

    def plan() -> list[str]:
        assert jvm.install(spark) is java
        return with_nudge_source(stream, spark, "threads").columns

    assert in_a_thread(plan) == stream.columns
    assert of(spark.sparkContext) is in_a_thread(lambda: of(spark.sparkContext))


def test_nothing_is_kept_of_a_query_that_has_ended(spark: SparkSession) -> None:
    """Nothing may be left, because a driver may start queries for years."""
    java = jvm.install(spark)
    for required in (False, True):
        java.wake_up("over", require_final_epoch=required)
    java.wake_up_at("over", 1 << 60)
    kind = java._class(jvm.NUDGE_FORMAT)
    fields = [field for field in kind.getDeclaredFields() if field.getName() in ("DUE", "OFFSETS", "REQUIRED")]
    for field in fields:
        field.setAccessible(True)
    assert [field.get(None).containsKey("over") for field in fields] == [True] * 3
    java.forget("over")
    assert [field.get(None).containsKey("over") for field in fields] == [False] * 3
