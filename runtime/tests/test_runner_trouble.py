"""An epoch whose runs fail says so while it fails: its failed runs are counted, and its trouble can be read."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from binshift.engine.underway import UnderWay
from binshift.errors import DiskFull, EpochFailed
from binshift.model import Epoch, Worker
from binshift.spark.offsets import BatchOffsets
from binshift.spark.runner import Runner

FAILURES = 3


class Failing(Runner):
    """A runner whose runs fail at first; it notes what an onlooker would see as each begins."""

    seen: list[tuple[int, str, int]]

    def _run(self, *arguments: Any) -> Any:
        assert self.under_way is not None
        self.seen.append((self.under_way.runs, self.under_way.trouble, self.runs_failed))
        if len(self.seen) <= FAILURES:
            raise DiskFull(f"no room, {len(self.seen)}")
        raise RuntimeError("enough")


class Coordinating:
    """A coordinator of one worker, all of whose epochs can be run again."""

    moving = False

    def plan(self, *arguments: Any) -> Any:
        return SimpleNamespace(epoch=Epoch(7), workers=(Worker(0),), needed=(Worker(0),), replay=None, moves=())

    def again(self, plan: Any) -> Any:
        return plan

    def abandoned(self, plan: Any) -> None:
        """Nothing to undo."""


def runner(offsets: Any = lambda epoch: BatchOffsets(0, 0, "digest")) -> Failing:
    """One with an executor for its worker, and no Spark."""
    spark: Any = SimpleNamespace(sparkContext=SimpleNamespace(setLocalProperty=lambda key, value: None))
    executors = {Worker(0): "executor 1"}
    view: Any = SimpleNamespace(executors=lambda: executors)
    attendance: Any = SimpleNamespace(of=lambda plan, go_on: (plan, executors))
    environment: Any = SimpleNamespace(query="a query")
    nothing: Any = None
    coordinator: Any = Coordinating()
    made = Failing(
        spark,
        coordinator,
        nothing,
        view,
        nothing,
        environment,
        offsets,
        nothing,
        nothing,
        attendance,
        nothing,
        attempts_max=3,
    )
    made.seen = []
    return made


def batch() -> Any:
    """One whose session takes any conf."""
    return SimpleNamespace(sparkSession=SimpleNamespace(conf=SimpleNamespace(set=lambda key, value: None)))


def test_failed_runs_show_while_the_epoch_lasts() -> None:
    """Each run is seen with the reason of the one before, and every failure counts at once."""
    failing = runner()
    failing.attempts_max = 20
    with pytest.raises(RuntimeError, match="enough"):
        failing.epoch(batch(), 7)
    assert failing.seen == [(1, "", 0), (2, "no room, 1", 1), (3, "no room, 2", 2), (4, "no room, 3", 3)]
    assert failing.under_way is None


def test_an_epoch_that_cannot_begin_is_in_trouble_too() -> None:
    """Its offsets cannot be read: that counts as runs that failed, and has its reason."""
    seen: list[UnderWay | None] = []

    def unreadable(epoch: Epoch) -> BatchOffsets:
        seen.append(failing.under_way)
        raise DiskFull("no room for a look")

    failing = runner(unreadable)
    with pytest.raises(EpochFailed, match="could not begin"):
        failing.epoch(batch(), 7)
    assert [(each.runs, each.trouble) for each in seen if each is not None] == [
        (1, ""),
        (2, "no room for a look"),
        (3, "no room for a look"),
    ]
    assert failing.runs_failed == 3
