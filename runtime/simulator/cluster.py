"""A whole dataflow in one process: the real protocol, log and stores, with simulated workers and without Spark.

For unit tests of a dataflow (is the result the same when it is rescaled while its workers die?) and for binshift's own
oracle. A test passes rows, one call per epoch, and runs rounds of background work in between; it moves bins, and kills and
restarts processes. After every epoch the cluster is compared with the `Reference`, and all invariants are checked
(`Witness`); a difference raises `Contradiction`.

    cluster = SimulatedCluster(Totals(), workers=2)
    cluster.epoch([{"key": "a", "value": 1}])
    cluster.rescale(3)
    cluster.settle()
    cluster.restart_driver()
    cluster.epoch([{"key": "a", "value": 1}])
    assert cluster.state() == {("a",): {"rows": 2, "sum": 2, "least": 1, "greatest": 1}}

It never waits and never depends on the time of day; all randomness comes from ``seed``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Unpack

from binshift.engine.migration_options import MigrationOverrides
from binshift.engine.migrations import Migration
from binshift.errors import BinshiftError, EpochFailed, Fenced, Retryable, StorageUnavailable
from binshift.log.storage.contract import Storage
from binshift.log.storage.layout import term_name
from binshift.model import Bin, BinSet, Epoch, Term, Worker
from binshift.routing import Route
from binshift.store.engine.contract import KeyValueStore
from binshift.store.engine.memory_store import MemoryStore
from simulator.comparing import Contradiction
from simulator.driver import Driver
from simulator.faults import Faults, Killed
from simulator.flows import Flow, Key, Row
from simulator.graph import Graph
from simulator.jobs import Call
from simulator.machines import NewStore
from simulator.witness import Witness
from simulator.world import Tuning, World

SETTLE_EPOCHS_MAX = 400
"""Epochs within which a migration without further faults must end; it needs about two per step."""

OPENING_TRIES_MAX = 200
EPOCH_MS = 1_000
"""Time between two batches, by Spark's batch timestamps."""


class SimulatedCluster:
    """See the module.

    Args:
        flow: the stateful operator; several by name, each of which receives all rows; or a graph of them.
        bins: the number of bins; a power of two.
        workers: the number of workers at the start: slots 0 to workers-1.
        slots: the number of machines; by default two more than ``workers``.
        tuning: settings, with short cycles by default.
        files: where the log is; by default in memory. Any `binshift.log.storage.opening.open_storage` will do.
        new_store: makes a worker's local store; by default in memory.
        faults: what goes wrong; by default nothing.
        seed: of all chance.
        deterministic: whether the flow gives the same answer for the same rows. If not, only the log's truth is
            checked, not the reference's.

    Attributes:
        world: everything that outlives a driver.
        witness: makes the comparisons.
        ends: the errors that stopped drivers, other than being killed.
    """

    def __init__(
        self,
        flow: Flow | Mapping[str, Flow] | Graph,
        *,
        bins: int = 16,
        workers: int = 2,
        slots: int | None = None,
        tuning: Tuning | None = None,
        files: Storage | None = None,
        new_store: NewStore | None = None,
        faults: Faults | None = None,
        seed: int = 0,
        deterministic: bool = True,
    ) -> None:
        graph, tuning = Graph.of(flow), tuning or Tuning()

        def in_memory(operator: str, worker: Worker) -> KeyValueStore:
            return MemoryStore(tuning.stores)

        slots = workers + 2 if slots is None else slots
        self.world = World(graph, bins, workers, slots, tuning, files, new_store or in_memory, faults or Faults(), seed)
        self.witness = Witness(self.world, deterministic)
        self.ends: list[BinshiftError] = []
        self._driver: Driver | None = None

    # ------------------------------------------------------------------------------------------- actions of a program

    @property
    def driver(self) -> Driver:
        """The current driver; one is started if none is running."""
        for _ in range(OPENING_TRIES_MAX):
            if self._driver is not None:
                return self._driver
            try:
                started = Driver(self.world)
            except (Killed, StorageUnavailable):
                continue  # a supervisor would start another driver
            # Another driver may have been started while this one was suspended: the newer one counts.
            if self._driver is None or self._driver.log.term < started.log.term:
                self._driver = started
        raise EpochFailed(f"no driver started in {OPENING_TRIES_MAX} attempts")

    def epoch(self, rows: Sequence[Row] = (), time_ms: int | None = None) -> Mapping[str, Sequence[Row]]:
        """Process one micro-batch, of a time if given; returns its output by flow. An earlier one without Spark's commit comes first.

        Raises:
            Contradiction: the cluster is in a wrong state.
            EpochFailed: a required worker is missing.
        """
        self.finish()
        batch = self.world.stream.offer(rows, EPOCH_MS * len(self.world.stream.batches) if time_ms is None else time_ms)
        self.witness.expect(batch)
        self.finish()
        return self.world.stream.outputs[batch.epoch]

    def finish(self) -> None:
        """Run the batch that has offsets and no commit, if any, until it is committed."""
        stream = self.world.stream
        while (batch := stream.pending) is not None:
            driver = self.driver
            try:
                driver.epoch(batch)
                self.world.faults.step(driver.process, f"Spark's commit of epoch {batch.epoch}")
                stream.commit(batch.epoch)
            except Killed as death:
                self._ended(driver, death)
            except BinshiftError as error:
                self._stopped(driver, error)
            else:
                self.witness.check_epoch(batch.epoch, driver.log.index)

    def background(self, concurrent: Sequence[Call] = ()) -> bool:
        """One round of work on every worker; whether there was work. The calls in ``concurrent`` run, in order, during the round."""
        self.world.clock.sleep(self.world.tuning.round_seconds)
        driver = self.driver
        busy = True
        try:
            busy = driver.round(concurrent)
        except Killed as death:
            self._ended(driver, death)
        except Retryable:
            pass  # unfinished work is planned again, as in production
        except BinshiftError as error:
            self._stopped(driver, error)
        self.witness.check_stores()
        return busy

    def settle(self, concurrent: Sequence[Call] = ()) -> None:
        """Run rounds, and epochs without input where one is wanted, until no migration is in progress; see `background`.

        Raises:
            Contradiction: a migration does not end.
        """
        for _ in range(SETTLE_EPOCHS_MAX):
            self.background(concurrent)
            if all(migration.ended for migration in self.driver.migrations.history):
                return
            if self.driver.batches.woken:
                self.epoch()
        raise Contradiction(f"migrations do not end: {self.driver.migrations.history}")

    def rescale(self, workers: int | Sequence[int], strategy: str | None = None, **given: Any) -> Migration:
        """Request that slots 0 to ``workers``-1, or the given slots, share all bins.

        Raises:
            Killed: the driver was killed meanwhile; it is unknown whether the request was accepted.
            StorageUnavailable: as `TargetController.rescale`.
        """
        slots = range(workers) if isinstance(workers, int) else workers
        driver = self.driver
        try:
            wanted = tuple(Worker(w) for w in slots)
            return driver.targets.rescale(wanted, strategy=strategy, **given)
        except Killed as death:
            self._ended(driver, death)
            raise

    def move(self, moves: Mapping[int, int], **given: Unpack[MigrationOverrides]) -> Migration:
        """Request that single bins move to certain workers."""
        return self.driver.targets.move({Bin(b): Worker(w) for b, w in moves.items()}, **given)

    # ------------------------------------------------------------------------------------------------------- faults

    def restart_driver(self) -> None:
        """Kill the driver; the next call that needs one starts it."""
        self.world.calm = False
        if self._driver is not None:
            self._driver.process.dead = True
            self._driver = None

    def take_over(self) -> None:
        """Start another driver while the current one believes that it is the only one."""
        self.world.calm = False
        self._driver = None
        _ = self.driver

    def kill(self, worker: int) -> None:
        """Kill a worker's executor; another one starts in its place, with the same disk."""
        self.world.calm = False
        self.world.machines[Worker(worker)].restart()

    def wipe(self, worker: int) -> None:
        """Replace a worker's machine by an empty one."""
        self.world.calm = False
        self.world.machines[Worker(worker)].wipe()

    def forget(self, worker: int) -> None:
        """Discard a worker's stores, as after damage, without a report."""
        self.world.calm = False
        self.world.machines[Worker(worker)].forget()

    def away(self, worker: int) -> None:
        """Remove a worker."""
        self.world.calm = False
        self.world.machines[Worker(worker)].leave()

    def back(self, worker: int) -> None:
        """Return a removed worker, with its disk."""
        machine = self.world.machines[Worker(worker)]
        if not machine.alive:
            machine.restart()

    def wake_zombies(self) -> None:
        """Suspended tasks of failed runs continue to their end, whatever it is; nothing that counts may change."""
        zombies, self.world.zombies = self.world.zombies, []
        for zombie in zombies:
            try:
                while zombie.advance():
                    pass
            except Killed as death:
                self.world.died(death.process)
            except BinshiftError:
                pass  # it is expected to be stopped
        self.witness.check_stores()

    def _ended(self, driver: Driver, death: Killed) -> None:
        if death.process is not driver.process:
            raise Contradiction(f"{death} took a driver with it") from death
        if driver is self._driver:
            self._driver = None

    def _stopped(self, driver: Driver, error: BinshiftError) -> None:
        """A driver gave up. One that was replaced must; if its successor died meanwhile, another one starts."""
        self.ends.append(error)
        replaced = driver is not self._driver
        if not replaced:
            self._driver = None
        newer = self.world.files.exists(term_name(Term(driver.log.term + 1)))
        if isinstance(error, Fenced) and not newer:
            raise Contradiction(f"I8: the newest driver is fenced: {error}") from error
        if not replaced and not isinstance(error, Fenced):
            raise error

    @property
    def route(self) -> Route | None:
        """The owner of each bin; None before the first epoch."""
        return self.driver.coordinator.route

    @property
    def last(self) -> Epoch:
        """The newest recorded epoch."""
        return self.driver.coordinator.last

    @property
    def outputs(self) -> Mapping[Epoch, Mapping[str, Sequence[Row]]]:
        """The contents of the sink: by epoch and flow."""
        return self.world.stream.outputs

    def state(self, flow: str | None = None) -> Mapping[Key, Row]:
        """Each key's state. It has been compared with the workers' stores, byte by byte."""
        self.witness.check_epoch(self.last)
        return self.witness.references[flow or next(iter(self.world.flows))].state

    def leftovers(self) -> Mapping[Worker, BinSet]:
        """Bins that workers hold copies of, or own without being the owner in the route."""
        found = {}
        for worker, machine in self.world.machines.items():
            for name in self.world.flows:
                status = machine.open_unfaulted(name).status()
                owned = self.route.bins_of(worker) if self.route is not None else BinSet()
                if extra := BinSet(status.copies) | (status.owned - owned):
                    found[worker] = extra
        return found
