"""The engine's ports on simulated machines: executors, jobs and batches, with real tasks and stores.

The tasks of an epoch are in `stages`. Epochs may pass while a background job runs: the calls in ``concurrent`` run between
its tasks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

from binshift.engine.epoch_plan import EpochPlan
from binshift.engine.ports import Executor, Placement
from binshift.errors import BinshiftError, EpochFailed, InvalidSettings
from binshift.model import Epoch, Worker
from binshift.worker.background_task import Budget, Duty
from binshift.worker.messages import BackgroundReport, BackgroundSpec, EpochSpec, Summary
from simulator.clock import ManualClock
from simulator.faults import Killed, Process
from simulator.machines import Machine
from simulator.stages import EpochRun
from simulator.stream import Batch
from simulator.world import World

Call = Callable[[], object]
"""Something that happens while a round of background work runs: usually an epoch."""

LOOKS_PER_PIECE = 3
"""How often a `Budget` reads its clock for one piece of work."""


class Interrupted(BaseException):  # like `Killed`: no loop may treat it as its own error
    """An error of the simulation itself, or of a call that runs during a job; it ends the call of the driver.

    Attributes:
        error: the error raised.
    """

    def __init__(self, error: Exception) -> None:
        super().__init__(str(error))
        self.error = error


@contextmanager
def _jobs_errors_alone() -> Iterator[None]:
    try:
        yield
    except BinshiftError:
        raise
    except Exception as error:
        raise Interrupted(error) from error


@dataclass(frozen=True)
class SimulatedExecutors:
    """The executors of a world's machines; see `binshift.engine.ports.Executors`."""

    world: World

    def alive(self) -> Mapping[Worker, Executor]:
        """See `Executors`."""
        return {slot: self.world.machines[slot].registered for slot in self.world.alive}


class SimulatedJobs:
    """The jobs of one driver; see `binshift.engine.ports.Jobs`.

    Args:
        world: the owner of the machines.
        process: the driver's process.

    Attributes:
        concurrent: calls that run during the next background job.
    """

    def __init__(self, world: World, process: Process) -> None:
        self._world = world
        self._process = process
        self._tasks = 0
        self.concurrent: Sequence[Call] = ()

    def publish(self, epoch: Epoch) -> None:
        """See `Jobs`; the sink shows its rows at once."""

    def working(self) -> bool:
        """See `Jobs`; never called while a job runs."""
        return False

    # ---------------------------------------------------------------------------------------------------------- epochs

    def epoch(
        self, batch: Batch, plan: EpochPlan, specs: Sequence[EpochSpec], on: Placement, ready: Callable[[], None]
    ) -> Sequence[Summary]:
        """See `Jobs`: every task to its end, then the sink."""
        world, summaries = self._world, list[Summary]()
        world.faults.step(self._process, f"starting run {specs[0].fence.run} of epoch {plan.epoch}")
        ready()
        run = EpochRun(world, self._process, batch, plan, specs, on.parts, self._attempt, summaries.append)
        try:
            outputs = run.outputs()
        except Killed as death:
            self._world.died(death.process)
            if death.process is not self._process:
                raise EpochFailed(str(death)) from death
            raise
        world.faults.step(self._process, f"delivering epoch {plan.epoch}")
        world.stream.deliver(plan.epoch, outputs)
        world.clock.sleep(world.tuning.epoch_seconds + len(plan.moves) * world.tuning.flip_seconds)
        return summaries

    def _attempt(self, spec: EpochSpec) -> str:
        self._tasks += 1
        return f"{spec.run_prefix}{self._tasks}"

    # ------------------------------------------------------------------------------------------------------ background

    def rehearse(self, on: Mapping[Worker, Executor]) -> None:
        """See `Jobs`."""
        with _jobs_errors_alone():
            self._world.faults.step(self._process, f"warming {sorted(on)}")
            for executor in on.values():
                if unfit := self._world.machine(executor).unfit:
                    raise InvalidSettings(unfit)

    def background(
        self,
        specs: Sequence[BackgroundSpec],
        on: Mapping[Worker, Executor],
        report: Callable[[BackgroundReport], None],
    ) -> None:
        """See `Jobs`. A task that dies prevents the remaining ones from running."""
        broken, concurrent = list[str](), self.concurrent
        self.concurrent = ()

        def task(spec: BackgroundSpec) -> None:
            machine = self._world.machine(on[spec.worker])
            if machine.registered != on[spec.worker] or not machine.alive:
                broken.append(f"the executor of worker {spec.worker} was lost")
            if broken:
                return
            try:
                report(self._round(spec, machine))
            except Killed as death:
                self._world.died(death.process)
                if death.process is self._process:
                    raise
                broken.append(str(death))

        with _jobs_errors_alone():
            self._mixed([partial(task, spec) for spec in specs], concurrent)
            self._world.faults.step(self._process, "receiving a round")
        if broken:
            raise EpochFailed("; ".join(broken))

    def _mixed(self, tasks: Sequence[Call], concurrent: Sequence[Call]) -> None:
        """Run everything: the tasks in any order, ``concurrent`` in its own order."""
        rng = self._world.rng
        left, ahead = rng.sample(tasks, len(tasks)), list(concurrent)
        while left or ahead:
            if rng.random() * (len(left) + len(ahead)) < len(left):
                left.pop(0)()
            else:
                _aside(ahead.pop(0))

    def _round(self, spec: BackgroundSpec, machine: Machine) -> BackgroundReport:
        """One task; its errors are reported, as on Spark."""
        pieces = self._world.rng.randint(1, self._world.tuning.budget_pieces)
        clock = ManualClock(tick_seconds=1.0)
        # A budget that is checked once before an order and once before its first piece must still allow that piece.
        budget = Budget(float((pieces + 2) * LOOKS_PER_PIECE), Duty(1.0), clock, lambda: 0.0, clock.sleep)
        try:
            return machine.background(spec, budget)
        except BinshiftError as error:
            return BackgroundReport(spec.operator, spec.worker, None, failed=f"{type(error).__name__}: {error}")


def _aside(act: Call) -> None:
    try:
        act()
    except Exception as error:
        raise Interrupted(error) from error
