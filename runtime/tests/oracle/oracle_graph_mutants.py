"""Broken variants of queries with several operators: each is wrong for one of them only, or between two.

Some break the engine and its tasks, others the simulated jobs, which stand for the ones on Spark.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import pyarrow as pa
import pytest
import test_oracle_stages as stages
from oracle_graph_histories import play_graph

from binshift.engine import coordinator
from binshift.engine.epoch_tasks import EpochTasks
from binshift.log.index import continuity
from binshift.model import Stamp
from binshift.operators.delayed import Delayed
from binshift.store.bins.binstore import BinStore
from binshift.worker.base_state import BaseState
from binshift.worker.messages import EpochSpec, Summary
from simulator import Row
from simulator.joinflow import Pairs
from simulator.stages import EpochRun

Patch = pytest.MonkeyPatch


def output_of_the_failed_run_read(patch: Patch) -> None:
    """An operator reads what another one returned in the epoch's previous run, which failed (I3)."""
    outputs, inputs, failed = EpochRun.outputs, EpochRun._inputs, dict[tuple[int, str], list[Row]]()

    def remembered(self: EpochRun) -> dict[str, list[Row]]:
        try:
            return outputs(self)
        except BaseException:
            for name, tasks in self._started.items():
                failed[self.plan.epoch, name] = [row for task in tasks for row in task.rows]
            raise

    def earlier(self: EpochRun, name: str) -> list[list[Row]]:
        now = self._ended
        self._ended = {each: failed.get((self.plan.epoch, each), rows) for each, rows in now.items()}
        try:
            return inputs(self, name)
        finally:
            self._ended = now

    patch.setattr(EpochRun, "outputs", remembered)
    patch.setattr(EpochRun, "_inputs", earlier)


def output_read_before_its_end(patch: Patch) -> None:
    """An operator starts when the first task of the one before has ended."""

    def early(self: EpochRun, name: str, running: Sequence[Any]) -> None:
        self._ended.setdefault(name, [row for task in self._started[name] for row in task.rows])

    patch.setattr(EpochRun, "_end", early)


def shared_output_computed_twice(patch: Patch) -> None:
    """The second reader of an operator runs it again, in the same run of the epoch."""
    inputs, read = EpochRun._inputs, set[tuple[int, str]]()

    def again(self: EpochRun, name: str) -> list[list[Row]]:
        for origin in self.world.graph.nodes[name].behind:
            if (id(self), origin) in read:
                tasks = self._tasks_of(origin)
                for task in tasks:
                    while task.advance():
                        pass
                self._ended[origin] = [row for task in tasks for row in task.rows]
            read.add((id(self), origin))
        return inputs(self, name)

    patch.setattr(EpochRun, "_inputs", again)


def flip_for_one_operator(patch: Patch) -> None:
    """A flip takes effect for the first operator only; the others keep their bins (I1)."""
    spec = EpochTasks._spec

    def partly(self: EpochTasks, plan: Any, *how: Any) -> EpochSpec:
        each = spec(self, plan, *how)
        whole = plan.before is None or each.operator == self.operators[0]
        return each if whole else replace(each, owned=each.owned_before)

    patch.setattr(EpochTasks, "_spec", partly)


def rows_by_the_route_before(patch: Patch) -> None:
    """In the epoch of a flip, the rows between two operators go to the owners of the epoch before (I1)."""
    route = EpochRun._route

    def earlier(self: EpochRun, name: str) -> Any:
        later = self.world.graph.nodes[name].behind and self.plan.before is not None
        return self.plan.before if later else route(self, name)

    patch.setattr(EpochRun, "_route", earlier)


def summary_of_one_operator_missing(patch: Patch) -> None:
    """A record is written although the summary of an operator is missing (I3)."""

    def some(plan: Any, operators: Sequence[str], summaries: Sequence[Summary]) -> list[Summary]:
        return sorted(summaries, key=lambda each: (operators.index(each.operator), each.worker))

    patch.setattr(coordinator, "one_each", some)
    patch.setattr(continuity, "check_parts", lambda index, record, route: None)


def store_of_one_operator_not_undone(patch: Patch) -> None:
    """The store of the first operator keeps the changes of a failed run (I2)."""
    reach = BaseState.reach

    def forgetful(self: BaseState) -> tuple[Stamp, int]:
        with Patch.context() as inner:
            if self.spec.operator.startswith("0."):
                inner.setattr(
                    BaseState, "_is_reached", lambda self, status: bool(status.owned or not self.spec.owned_before)
                )
                inner.setattr(BinStore, "undo", lambda self, fence, to: False)
            return reach(self)

    patch.setattr(BaseState, "reach", forgetful)


def sides_swapped_in_a_replay(patch: Patch) -> None:
    """When a recorded epoch runs again, the sides of a join are swapped (I3)."""
    inputs = EpochRun._inputs

    def swapped(self: EpochRun, name: str) -> list[list[Row]]:
        found = inputs(self, name)
        joins = isinstance(self.world.graph.nodes[name].flow, Pairs)
        return found[::-1] if joins and self.plan.replay is not None else found

    patch.setattr(EpochRun, "_inputs", swapped)


def watermark_not_delayed(patch: Patch) -> None:
    """An operator behind a join does not wait for the rows that the join holds back."""

    def undelayed(self: Delayed, batches: Iterator[pa.RecordBatch], state: Any, context: Any) -> Iterator[Any]:
        yield from self.operator.run(batches, state, context)

    patch.setattr(Delayed, "run", undelayed)


GRAPH_MUTANTS: tuple[Callable[[Patch], None], ...] = (
    output_of_the_failed_run_read,
    output_read_before_its_end,
    shared_output_computed_twice,
    flip_for_one_operator,
    rows_by_the_route_before,
    summary_of_one_operator_missing,
    store_of_one_operator_not_undone,
    sides_swapped_in_a_replay,
    watermark_not_delayed,
)

GRAPH_STORIES: tuple[Callable[[], object], ...] = (
    stages.test_every_operator_returns_rows,
    partial(stages.test_a_worker_loses_what_it_has_between_two_operators, "starting 1.pairs of epoch 4", "a summary"),
    *(partial(stages.test_a_driver_dies_between_two_operators, *at) for at in stages.DRIVER[:2]),
    *(partial(stages.test_an_executor_dies_in_the_middle_of_a_stage, *at) for at in stages.EXECUTOR),
    *(partial(play_graph, seed) for seed in range(20)),
)
"""What these variants are tried on: the fixed history of several operators, then random ones."""
