"""One run of an epoch: the tasks of all operators, in an order that chance decides, as far as the graph allows.

The tasks of an operator start when all tasks of the operators that it reads have ended: their stores are then committed, and their
output goes through the exchange by the epoch's route. An executor that was lost by then fails the run, as it does on Spark. A run is
all or nothing: when one task fails, the others stop where they are (see `World.leave`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from binshift.engine.epoch_plan import EpochPlan
from binshift.engine.ports import Executor
from binshift.errors import EpochFailed
from binshift.model import Worker
from binshift.routing import Route
from binshift.worker.messages import EpochSpec, Summary
from simulator.faults import Process
from simulator.flows import Row, shares
from simulator.machines import Task
from simulator.stream import Batch
from simulator.world import World


@dataclass
class EpochRun:
    """See the module.

    Attributes:
        world: the machines.
        driver: the process that starts the tasks.
        batch: the input.
        plan: the epoch's.
        specs: the orders of its tasks.
        on: the executor of each worker.
        attempt: names the attempt of a task.
        report: takes the summaries.
    """

    world: World
    driver: Process
    batch: Batch
    plan: EpochPlan
    specs: Sequence[EpochSpec]
    on: Mapping[Worker, Executor]
    attempt: Callable[[EpochSpec], str]
    report: Callable[[Summary], None]
    _started: dict[str, list[Task]] = field(default_factory=dict)
    _ended: dict[str, list[Row]] = field(default_factory=dict)

    def outputs(self) -> dict[str, list[Row]]:
        """Run all tasks to their end; the output of each operator.

        Raises:
            Killed: a process died; it may be the driver.
            EpochFailed: an executor was lost, or a task failed.
        """
        running: list[Task] = []
        task: Task | None = None
        try:
            self._start(running)
            while running:
                task = self.world.rng.choice(running)
                if not task.advance() or task.answered:
                    running.remove(task)
                    self._answered(task)
                    self._end(task.spec.operator, running)
                    task = None
                    self._start(running)
        except BaseException:
            self.world.leave(each for each in running if each is not task)
            raise
        return {name: self._ended[name] for name in self.world.graph.nodes}

    def _answered(self, task: Task) -> None:
        """A task that has answered commits now, or when another one has to wait for it."""
        if task.answered:
            machine = self.world.machine(self.on[task.spec.worker])
            machine.committing.append(task)
            if self.world.rng.random() < self.world.tuning.commits_at_once:
                machine.commit()

    def _end(self, name: str, running: Sequence[Task]) -> None:
        """The output of an operator is complete if none of its tasks is running."""
        if not any(task.spec.operator == name for task in running):
            self._ended[name] = [row for task in self._started[name] for row in task.rows]

    def _start(self, running: list[Task]) -> None:
        """Start the tasks of all operators whose input is complete."""
        ready = [
            name
            for name, node in self.world.graph.nodes.items()
            if name not in self._started and node.behind <= self._ended.keys()
        ]
        for name in ready:
            if self.world.graph.nodes[name].behind:
                self.world.faults.step(self.driver, f"starting {name} of epoch {self.plan.epoch}")
            self._started[name] = self._tasks_of(name)
            running += self._started[name]

    def _tasks_of(self, name: str) -> list[Task]:
        world, graph = self.world, self.world.graph
        inputs = self._inputs(name)
        rows = shares(graph.nodes[name].flow.arranged(inputs, world.bins), self._route(name).owners, self.plan.workers)
        operator, tasks = graph.operator(name), list[Task]()
        for spec in self.specs:
            if spec.operator == name:
                executor, attempt = self.on[spec.worker], self.attempt(spec)
                machine, pieces = world.machine(executor), self._cut(rows[spec.worker])
                if not machine.alive or machine.registered != executor:
                    raise EpochFailed(f"the executor of worker {spec.worker} was lost")
                early = not spec.scratch and world.rng.random() < world.tuning.standing
                tasks.append(machine.run(spec, operator, pieces, attempt, self.report, early=early))
        return tasks

    def _route(self, name: str) -> Route:
        """By which the rows for an operator are exchanged: for all of them the epoch's."""
        return self.plan.route

    def _inputs(self, name: str) -> list[list[Row]]:
        """The rows of each input of an operator."""
        return self.world.graph.inputs(name, self.batch.rows, self._ended)

    def _cut(self, rows: pa.RecordBatch) -> list[pa.RecordBatch]:
        step = self.world.rng.randint(1, self.world.tuning.rows_at_once)
        return [rows.slice(start, step) for start in range(0, rows.num_rows, step)]
