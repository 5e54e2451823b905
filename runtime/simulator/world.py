"""The environment of drivers: settings, files, machines, Spark's checkpoint, faults, randomness and time.

Everything here outlives a driver. One seed determines all randomness: the order in which tasks run, and how rows are cut into
batches.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import dataclass, field

from binshift.engine.migration_options import MigrationOptions
from binshift.engine.migrations import MigrationPolicy
from binshift.engine.ports import Executor
from binshift.log.records.formats import LogFormat, OperatorFormat
from binshift.log.storage.contract import Storage
from binshift.migration import Limits
from binshift.model import Worker
from binshift.store.engine.contract import StoreLimits
from simulator.clock import ManualClock
from simulator.faults import Faults, Process
from simulator.faulty import Files
from simulator.graph import Graph
from simulator.machines import Machine, NewStore, Task
from simulator.stream import Stream

QUERY = "simulated"


@dataclass(frozen=True)
class Tuning:
    """The settings of a simulated query; cycles are short, so that rare events happen.

    Attributes:
        snapshot_cycle_epochs: epochs in which every bin is snapshotted once.
        manifest_every_epochs: epochs between two manifests.
        collect_every_epochs: epochs between two collections of garbage.
        epochs_per_second: the most that count for these; None: all.
        grace_seconds: how long garbage is kept; a round takes `round_seconds`.
        round_seconds: the duration of a background round by the simulated clock.
        budget_pieces: pieces of work (a group of bins, a delta) in one round on one worker.
        attempts_max: runs of one epoch before the query fails.
        rows_at_once: rows in a batch of a task's input.
        undo: whether epochs write undo records.
        epoch_seconds: the duration of a run of an epoch, and
        flip_seconds: the additional time for each bin that flips in it.
        executor_wait_seconds: how long a migration waits for the executors of its workers.
        lost_worker_seconds: how long an epoch waits for a worker.
        take_over: whether an epoch then gives the bins of a missing worker to others instead of failing.
        standby_replicas: standby copies of each bin.
        standing: the share of tasks that answer before they commit, and
        commits_at_once: the share of these that commit before anything else happens.
        limits: of migrations.
        stores: of local stores.
        defaults: of requests.
    """

    snapshot_cycle_epochs: int = 4
    manifest_every_epochs: int = 3
    collect_every_epochs: int = 2
    epochs_per_second: float | None = None
    grace_seconds: float = 2.0
    round_seconds: float = 1.0
    budget_pieces: int = 50
    attempts_max: int = 20
    rows_at_once: int = 4
    undo: bool = True
    epoch_seconds: float = 0.0
    flip_seconds: float = 0.0
    executor_wait_seconds: float = 60.0
    lost_worker_seconds: float = 0.0
    take_over: bool = False
    standby_replicas: int = 0
    standing: float = 0.5
    commits_at_once: float = 0.5
    limits: Limits = field(default_factory=Limits)
    stores: StoreLimits = field(default_factory=lambda: StoreLimits(background_rows_max=24, lock_seconds_max=0.1))
    defaults: MigrationOptions = field(default_factory=lambda: MigrationOptions(batch_size=2))


class World:
    """See the module. ``zombies`` are suspended tasks of failed runs; ``zombie_share`` is the share of tasks that become zombies.
    ``calm`` is whether every process and disk so far still exists.

    Args:
        graph: the stateful operators, and what each of them reads.
        bins: the number of bins.
        workers: the number of workers of a new query.
        slots: the number of machines.
        tuning: settings.
        files: the log's storage.
        new_store: creates local stores.
        faults: the faults to inject.
        seed: the seed of all randomness.
    """

    def __init__(
        self,
        graph: Graph,
        bins: int,
        workers: int,
        slots: int,
        tuning: Tuning,
        files: Storage | None,
        new_store: NewStore,
        faults: Faults,
        seed: int,
    ) -> None:
        self.graph = graph
        self.flows = graph.flows
        self.bins = bins
        self.workers = workers
        self.tuning = tuning
        self.files: Storage = files if files is not None else Files()
        self.faults = faults
        self.rng = random.Random(seed)
        self.clock = ManualClock()
        self.stream = Stream(graph.marks)
        self.machines = {
            Worker(slot): Machine(Worker(slot), bins, self.files, new_store, tuning.stores, faults)
            for slot in range(slots)
        }
        self.drivers = 0
        self.calm = True
        self.zombies: list[Task] = []
        self.zombie_share = 0.0

    def leave(self, tasks: Iterable[Task]) -> None:
        """The run of these tasks has failed: they are cancelled, or suspended until they are resumed."""
        for task in tasks:
            if self.rng.random() < self.zombie_share:
                self.zombies.append(task)
            else:
                task.steps.close()

    def died(self, process: Process) -> None:
        """A process was killed: if it was an executor, another one replaces it."""
        for machine in self.machines.values():
            if machine.process is process and machine.alive:
                machine.restart()

    def machine(self, executor: Executor) -> Machine:
        """The machine that this executor runs on, or ran on."""
        return self.machines[Worker(int(executor.host))]

    @property
    def alive(self) -> tuple[Worker, ...]:
        """The slots that have an executor."""
        return tuple(slot for slot, machine in self.machines.items() if machine.alive)

    @property
    def format(self) -> LogFormat:
        """The format of the log."""
        return LogFormat(
            bins=self.bins, query=QUERY, operators=tuple(OperatorFormat(name, "simulated") for name in self.flows)
        )

    @property
    def policy(self) -> MigrationPolicy:
        """The policy by which bins move."""
        tuning = self.tuning
        return MigrationPolicy(
            self.bins,
            self.workers,
            tuning.limits,
            duty=1.0,
            snapshot_cycle_epochs=tuning.snapshot_cycle_epochs,
            epochs_per_second=tuning.epochs_per_second,
            standby_replicas=tuning.standby_replicas,
        )
