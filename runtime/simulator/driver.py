"""One driver's lifetime: the production engine on simulated machines.

A driver opens the log (which takes a term), runs each epoch until its record exists, and runs background rounds in between;
both loops are the engine's own.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from binshift.engine.dataflow import Dataflow
from binshift.engine.executor_wait import EpochLimits
from binshift.engine.ports import Ports
from binshift.errors import EpochFailed
from binshift.log.log import Log
from binshift.model import Worker
from simulator.batches import SimulatedBatches
from simulator.faults import Process
from simulator.faulty import FaultyStorage
from simulator.jobs import Call, Interrupted, SimulatedExecutors, SimulatedJobs
from simulator.stream import Batch
from simulator.world import World


class Driver:
    """One driver's term. Its constructor raises the errors of `Log.on`.

    Attributes:
        process: the process, which can be killed.
        log: the log that it opened.
        coordinator: coordinates its epochs.
        migrations: migrates its bins.
        targets: accepts requests.
        jobs: its jobs.
        batches: the stream as seen by its loops.
        dataflow: all of these, with its loops.
    """

    def __init__(self, world: World, new_jobs: type[SimulatedJobs] = SimulatedJobs) -> None:
        world.drivers += 1
        self.process = Process(f"driver {world.drivers}")
        tuning, flows = world.tuning, tuple(world.flows)
        self.log = Log.on(
            FaultyStorage(world.files, world.faults, self.process),
            world.format,
            who=self.process.name,
            spark_committed=lambda: world.stream.committed,
            grace_seconds=tuning.grace_seconds,
            nonce=self.process.name,
        )
        self.batches, self.jobs = SimulatedBatches(world), new_jobs(world, self.process)
        self.dataflow = Dataflow.over(
            Ports(SimulatedExecutors(world), self.jobs, self.batches, world.clock),
            self.log,
            flows,
            world.policy,
            tuning.defaults,
            EpochLimits(tuning.attempts_max, 0.0, tuning.lost_worker_seconds),
            manifest_every_epochs=tuning.manifest_every_epochs,
            collect_every_epochs=tuning.collect_every_epochs,
            wait_seconds=tuning.executor_wait_seconds,
            lost=None if tuning.take_over else _refuse_takeover,
            undo=tuning.undo,
        )
        self.coordinator, self.targets = self.dataflow.coordinator, self.dataflow.targets
        self.migrations = self.coordinator.migrations
        self.dataflow.resume()

    def epoch(self, batch: Batch) -> None:
        """Run one batch until its record exists, as `foreachBatch` does.

        Raises:
            Killed: this driver was killed.
            EpochFailed: a worker is missing, or every attempt failed.
            GiveUp: an error that ends a driver.
        """
        self.dataflow.epochs.run(batch, batch.epoch)

    def round(self, concurrent: Sequence[Call] = ()) -> bool:
        """Run one background round; whether there was work.

        It is ordered before the first call in ``concurrent``, and reported after the last one; its tasks run at any time in between.

        Raises:
            Killed: this driver was killed.
            StorageUnavailable: the log's storage did not respond.
            Fenced: a newer driver has taken over.
        """
        self.jobs.concurrent = concurrent
        try:
            busy = self.dataflow.background.round()
        except Interrupted as end:
            raise end.error from end
        left, self.jobs.concurrent = self.jobs.concurrent, ()
        for each in left:  # there was no job to run them with
            each()
        return busy


def _refuse_takeover(workers: Collection[Worker], alive: Collection[Worker]) -> None:
    raise EpochFailed(f"no executor for worker {min(workers)}")
