"""One driver's life: what the Spark runner and the mover do, with the real protocol underneath.

A driver opens the log (which takes a term), runs epochs until their record exists, and between them does background
rounds. Tasks are stepped in random order, an output batch at a time. A run is all or nothing, as on Spark: when one
task fails, the others are left where they are (see `World.leave`), and the epoch runs again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial

import pyarrow as pa

from binshift.engine.attendance import go_on_without, hosts, without_idle
from binshift.engine.coordinator import Coordinator
from binshift.engine.epochplan import EpochPlan
from binshift.engine.housekeeping import Housekeeping
from binshift.engine.movement import Movement
from binshift.engine.steering import Steering
from binshift.errors import BinshiftError, EpochFailed, LogDamaged, Retryable
from binshift.log.log import Log
from binshift.model import Worker
from binshift.protocol.background import Budget
from binshift.protocol.spec import BackgroundReport, BackgroundSpec, Summary
from binshift.testing.clock import ManualClock
from binshift.testing.faults import Killed, Process
from binshift.testing.faulty import FaultyStorage
from binshift.testing.flows import shares
from binshift.testing.machines import Machine, Task
from binshift.testing.stream import Batch
from binshift.testing.world import World

Beside = Callable[[], object]
"""Something that happens while a round of background work runs: epochs, mostly."""

LOOKS_PER_PIECE = 3
"""How often a `Budget` looks at its clock for one piece of work."""


class Driver:
    """One driver's term. Raises, while it is made, what `Log.on` does.

    Attributes:
        process: can be killed.
        log: opened by it.
        coordinator: of its epochs.
        movement: of its bins.
        steering: takes requests.
    """

    def __init__(self, world: World) -> None:
        self._world = world
        world.drivers += 1
        self.process = Process(f"driver {world.drivers}")
        tuning = world.tuning
        self.log = Log.on(
            FaultyStorage(world.files, world.faults, self.process),
            world.format,
            who=self.process.name,
            spark_committed=lambda: world.stream.committed,
            grace_seconds=tuning.grace_seconds,
            nonce=self.process.name,
        )
        self.movement = Movement(world.terms, tuple(world.flows), self.log.term, world.clock)
        self.coordinator = Coordinator(self.log, world.bins, tuple(world.flows), self.movement, tuning.undo)
        self._house = Housekeeping(self.log, tuning.manifest_every_epochs, tuning.collect_every_epochs, world.clock)
        self.steering = Steering(self.log, self.coordinator, tuning.defaults)
        self.steering.resume()
        self._seen: dict[Worker, int] = {}
        self._tasks = 0

    def epoch(self, batch: Batch) -> None:
        """Run one batch until its record exists, as `foreachBatch` does.

        Raises:
            Killed: this driver was killed.
            EpochFailed: a worker is away, or every attempt failed.
            GiveUp: what the protocol gives up for.
        """
        coordinator = self.coordinator
        plan = coordinator.plan(batch.epoch, batch.digest, batch.time_ms, batch.watermark_ms, self._world.alive)
        bring_up: frozenset[Worker] = frozenset()
        for run in range(self._world.tuning.attempts_max):
            plan, executors = self._executors(coordinator.again(plan))
            bring_up |= {w for w in plan.needed if self._seen.get(w) != executors[w]}
            try:
                coordinator.commit(plan, self._run(batch, plan, run, bring_up))
            except Retryable:
                bring_up |= frozenset(plan.workers)
            except BinshiftError as error:
                plan = self._gave_up(plan, error)
                bring_up |= frozenset(plan.workers)
            else:
                self._seen.update(executors)
                return
        raise EpochFailed(f"epoch {batch.epoch} failed {self._world.tuning.attempts_max} times")

    def _gave_up(self, plan: EpochPlan, error: BinshiftError) -> EpochPlan:
        """The plan to go on with, if a damaged file was all there was to it."""
        try:
            if isinstance(error, LogDamaged):
                return self.coordinator.do_without(plan, error)
            raise error
        except Retryable:
            return plan
        except BinshiftError:
            self.coordinator.abandoned(plan)
            raise

    def _executors(self, plan: EpochPlan) -> tuple[EpochPlan, dict[Worker, int]]:
        machines, alive = self._world.machines, self._world.alive
        plan = without_idle(plan, alive)
        away = [w for w in plan.needed if w not in alive]
        if away and alive and self._world.tuning.take_over:
            plan = go_on_without(self.coordinator, self.steering.lost, plan, away, alive)
            away = [w for w in plan.needed if w not in alive]
        if away:
            raise EpochFailed(f"no executor for worker {away[0]}")
        return plan, {w: machines[w].executor for w in plan.needed}

    def _run(self, batch: Batch, plan: EpochPlan, run: int, bring_up: frozenset[Worker]) -> list[Summary]:
        """One run: every task to its end, then the sink."""
        world, summaries = self._world, list[Summary]()
        world.faults.step(self.process, f"starting run {run} of epoch {plan.epoch}")
        tasks = list(self._tasks_of(batch, plan, run, bring_up, summaries.append))
        self._to_the_end(tasks)
        world.faults.step(self.process, f"delivering epoch {plan.epoch}")
        outputs = {name: [row for t in tasks if t.spec.operator == name for row in t.rows] for name in world.flows}
        world.stream.deliver(plan.epoch, outputs)
        return summaries

    def _tasks_of(
        self,
        batch: Batch,
        plan: EpochPlan,
        run: int,
        bring_up: frozenset[Worker],
        report: Callable[[Summary], None],
    ) -> Iterator[Task]:
        world = self._world
        rows = {
            name: shares(flow.arranged(batch.rows, world.bins), plan.route.owners, plan.workers)
            for name, flow in world.flows.items()
        }
        on = hosts(plan, world.alive)
        for spec in self.coordinator.specs(plan, run, bring_up):
            self._tasks += 1
            attempt = f"{spec.run_prefix}{self._tasks}"
            pieces = self._cut(rows[spec.operator][spec.worker])
            yield world.machines[on[spec.worker]].run(
                spec, world.flows[spec.operator].operator, pieces, attempt, report
            )

    def _cut(self, rows: pa.RecordBatch) -> list[pa.RecordBatch]:
        step = self._world.rng.randint(1, self._world.tuning.rows_at_once)
        return [rows.slice(start, step) for start in range(0, rows.num_rows, step)]

    def _to_the_end(self, tasks: list[Task]) -> None:
        running = list(tasks)
        while running:
            task = self._world.rng.choice(running)
            try:
                if not task.advance():
                    running.remove(task)
            except BaseException as error:
                self._world.leave(each for each in running if each is not task)
                if isinstance(error, Killed):
                    self._lost(error, f"worker {task.spec.worker}")
                raise

    def _lost(self, death: Killed, who: str) -> None:
        """An executor died: that fails what runs on it. Our own death passes through."""
        self._world.died(death.process)
        if death.process is not self.process:
            raise EpochFailed(f"{who}: {death}") from death

    def round(self, beside: Sequence[Beside] = ()) -> bool:
        """One background round; whether there was anything to do.

        It is ordered before any of ``beside`` happens, and reported after all of it; tasks run at any time between.

        Raises:
            Killed: this driver was killed.
            StorageUnavailable: the log's files did not answer.
            Fenced: a newer driver has taken over.
        """
        alive = frozenset(self._world.alive)
        self.steering.observe({w: str(self._world.machines[w].executor) for w in alive})
        self.movement.seen(alive)
        cold = self.movement.cold() & alive
        specs = self.coordinator.background()
        if cold:
            self._world.faults.step(self.process, f"warming {sorted(cold)}")
            self.movement.warmed(cold)
        for workers in self.movement.troubles.jobs({spec.worker for spec in specs}):
            self._job([spec for spec in specs if spec.worker in workers], beside)
            beside = ()
        self._mixed((), beside)
        self._house.run(tuple(self.movement.snapshots.pending))
        self.coordinator.manifest = self._house.manifest
        return bool(cold or specs)

    def _job(self, specs: Sequence[BackgroundSpec], beside: Sequence[Beside]) -> None:
        """What one of Spark's jobs does: some workers' part of a round. A task that dies takes those with it that have not run."""
        reports, broken = list[BackgroundReport](), list[str]()
        executors = {spec.worker: self._world.machines[spec.worker].executor for spec in specs}

        def task(spec: BackgroundSpec) -> None:
            machine = self._world.machines[spec.worker]
            if machine.executor != executors[spec.worker] or not machine.alive:
                broken.append(f"the executor of worker {spec.worker} went away")
            if broken:
                return
            try:
                reports.append(self._background(spec, machine))
            except Killed as death:
                self._world.died(death.process)
                if death.process is self.process:
                    raise
                broken.append(str(death))

        self._mixed([partial(task, spec) for spec in specs], beside)
        self._world.faults.step(self.process, "taking in a round")
        silent = {spec.worker for spec in specs} - {report.worker for report in reports}
        self.coordinator.reported(reports, sorted(silent), "; ".join(broken))

    def _mixed(self, tasks: Sequence[Beside], beside: Sequence[Beside]) -> None:
        """Do all of it: the tasks in any order, ``beside`` in its own."""
        rng = self._world.rng
        left, ahead = rng.sample(tasks, len(tasks)), list(beside)
        while left or ahead:
            (left if rng.random() * (len(left) + len(ahead)) < len(left) else ahead).pop(0)()

    def _background(self, spec: BackgroundSpec, machine: Machine) -> BackgroundReport:
        """One task; what goes wrong in it is reported, as on Spark."""
        pieces = self._world.rng.randint(1, self._world.tuning.budget_pieces)
        clock = ManualClock(tick_seconds=1.0)
        # Asked once before an order and once before its first piece, a budget must still allow that piece.
        budget = Budget(float((pieces + 2) * LOOKS_PER_PIECE), 1.0, clock, lambda: 0.0, clock.sleep)
        try:
            return machine.background(spec, budget)
        except BinshiftError as error:
            return BackgroundReport(spec.operator, spec.worker, None, failed=f"{type(error).__name__}: {error}")
