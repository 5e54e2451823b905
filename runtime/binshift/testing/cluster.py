"""A whole dataflow in one process: the real protocol, log and stores, with simulated workers and without Spark.

For unit tests of a dataflow (does it give the same answer when it is rescaled while its workers die?) and for our own
oracle. A test feeds rows, one call an epoch, and lets rounds of background work happen between; it moves bins, kills
and restarts what it likes. After every epoch the cluster is compared with the `Reference`, and all invariants are
checked (`Witness`); a difference raises `Contradiction`.

    cluster = SimulatedCluster(Totals(), workers=2)
    cluster.epoch([{"key": "a", "value": 1}])
    cluster.rescale(3)
    cluster.settle()
    cluster.restart_driver()
    cluster.epoch([{"key": "a", "value": 1}])
    assert cluster.state() == {("a",): {"rows": 2, "sum": 2, "least": 1, "greatest": 1}}

Nothing in it waits, and nothing depends on the time of day; all chance comes from ``seed``.
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
from binshift.store.engine.memory import MemoryStore
from binshift.testing.driver import Driver
from binshift.testing.faults import Faults, Killed
from binshift.testing.flows import Flow, Key, Row
from binshift.testing.jobs import Beside
from binshift.testing.machines import NewStore
from binshift.testing.witness import Contradiction, Witness
from binshift.testing.world import Tuning, World

SETTLE_EPOCHS_MAX = 400
"""Epochs within which a migration without further faults has to end; it needs about two a step."""

OPENING_TRIES_MAX = 200
EPOCH_MS = 1_000
"""Time between two batches, by Spark's batch timestamps."""


class SimulatedCluster:
    """See the module.

    Args:
        flow: the stateful operator; or several by name, each of which gets all rows.
        bins: how many bins; a power of two.
        workers: how many the query starts with: slots 0 to workers-1.
        slots: how many machines there are; by default two more than ``workers``.
        tuning: settings, with short cycles by default.
        files: where the log is; by default in memory. Any `binshift.log.storage.opening.open_storage` will do.
        new_store: makes a worker's local store; by default in memory.
        faults: what goes wrong; by default nothing.
        seed: of all chance.
        deterministic: whether the flow gives the same answer for the same rows. If not, only the log's truth is
            checked, not the reference's.

    Attributes:
        world: everything that outlives a driver.
        witness: what is compared.
        ends: what made drivers stop, other than being killed.
    """

    def __init__(
        self,
        flow: Flow | Mapping[str, Flow],
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
        flows = flow if isinstance(flow, Mapping) else {flow.name: flow}
        tuning = tuning or Tuning()

        def in_memory(operator: str, worker: Worker) -> KeyValueStore:
            return MemoryStore(tuning.stores)

        slots = workers + 2 if slots is None else slots
        self.world = World(flows, bins, workers, slots, tuning, files, new_store or in_memory, faults or Faults(), seed)
        self.witness = Witness(self.world, deterministic)
        self.ends: list[BinshiftError] = []
        self._driver: Driver | None = None

    # --------------------------------------------------------------------------------------- what a program does

    @property
    def driver(self) -> Driver:
        """The driver that is there; one is started if none is."""
        for _ in range(OPENING_TRIES_MAX):
            if self._driver is not None:
                return self._driver
            try:
                started = Driver(self.world)
            except (Killed, StorageUnavailable):
                continue  # whoever starts drivers starts another one
            # Another one may have been started while this one stood still: the younger one counts.
            if self._driver is None or self._driver.log.term < started.log.term:
                self._driver = started
        raise EpochFailed(f"no driver came up in {OPENING_TRIES_MAX} tries")

    def epoch(self, rows: Sequence[Row] = ()) -> Mapping[str, Sequence[Row]]:
        """Process one micro-batch, whatever it takes; returns its output by flow.

        A batch that an earlier call left without Spark's commit is finished first.

        Raises:
            Contradiction: the cluster is not as it should be.
            EpochFailed: a worker that is needed is away.
        """
        self.finish()
        batch = self.world.stream.offer(rows, EPOCH_MS * len(self.world.stream.batches))
        self.witness.expect(batch)
        self.finish()
        return self.world.stream.outputs[batch.epoch]

    def finish(self) -> None:
        """Run the batch that has offsets and no commit, if there is one, until it has."""
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

    def background(self, beside: Sequence[Beside] = ()) -> bool:
        """One round of work on every worker; whether there was anything to do. ``beside`` happens, in order, while it runs."""
        self.world.clock.sleep(self.world.tuning.round_seconds)
        driver = self.driver
        busy = True
        try:
            busy = driver.round(beside)
        except Killed as death:
            self._ended(driver, death)
        except Retryable:
            pass  # what was not done is planned again, as in production
        except BinshiftError as error:
            self._stopped(driver, error)
        self.witness.check_stores()
        return busy

    def settle(self, beside: Sequence[Beside] = ()) -> None:
        """Rounds, and epochs without input where one is wanted, until no migration is under way; see `background`.

        Raises:
            Contradiction: a migration does not end.
        """
        for _ in range(SETTLE_EPOCHS_MAX):
            self.background(beside)
            if all(migration.ended for migration in self.driver.migrations.history):
                return
            if self.driver.batches.woken:
                self.epoch()
        raise Contradiction(f"migrations do not end: {self.driver.migrations.history}")

    def rescale(self, workers: int | Sequence[int], strategy: str | None = None, **given: Any) -> Migration:
        """Ask for all bins to be shared by slots 0 to ``workers``-1, or by these slots.

        Raises:
            Killed: the driver was killed meanwhile; it is not known whether the request counts.
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
        """Ask for single bins to be on certain workers."""
        return self.driver.targets.move({Bin(b): Worker(w) for b, w in moves.items()}, **given)

    # --------------------------------------------------------------------------------------- what befalls it

    def restart_driver(self) -> None:
        """Kill the driver; the next call that needs one starts it."""
        self.world.calm = False
        if self._driver is not None:
            self._driver.process.dead = True
            self._driver = None

    def take_over(self) -> None:
        """Start another driver while the one that is there believes to be alone."""
        self.world.calm = False
        self._driver = None
        _ = self.driver

    def kill(self, worker: int) -> None:
        """Kill a worker's executor; another one starts in its place, on the same disk."""
        self.world.calm = False
        self.world.machines[Worker(worker)].restart()

    def wipe(self, worker: int) -> None:
        """Replace a worker's machine by an empty one."""
        self.world.calm = False
        self.world.machines[Worker(worker)].wipe()

    def forget(self, worker: int) -> None:
        """A worker's stores are found damaged and thrown away, and nobody is told."""
        self.world.calm = False
        self.world.machines[Worker(worker)].forget()

    def away(self, worker: int) -> None:
        """A worker goes away."""
        self.world.calm = False
        self.world.machines[Worker(worker)].leave()

    def back(self, worker: int) -> None:
        """A worker that was away comes back, with its disk."""
        machine = self.world.machines[Worker(worker)]
        if not machine.alive:
            machine.restart()

    def wake_zombies(self) -> None:
        """Tasks of failed runs that stood still go on to their end, whatever that is; nothing that counts may change."""
        zombies, self.world.zombies = self.world.zombies, []
        for zombie in zombies:
            try:
                while zombie.advance():
                    pass
            except Killed as death:
                self.world.died(death.process)
            except BinshiftError:
                pass  # being stopped is what is expected of it
        self.witness.check_stores()

    def _ended(self, driver: Driver, death: Killed) -> None:
        if death.process is not driver.process:
            raise Contradiction(f"{death} took a driver with it") from death
        if driver is self._driver:
            self._driver = None

    def _stopped(self, driver: Driver, error: BinshiftError) -> None:
        """A driver gave up. One that has been replaced should; if its successor died meanwhile, another one comes."""
        self.ends.append(error)
        replaced = driver is not self._driver
        if not replaced:
            self._driver = None
        newer = self.world.files.exists(term_name(Term(driver.log.term + 1)))
        if isinstance(error, Fenced) and not newer:
            raise Contradiction(f"I8: the newest driver is shut out: {error}") from error
        if not replaced and not isinstance(error, Fenced):
            raise error

    @property
    def route(self) -> Route | None:
        """Who owns which bin; None before the first epoch."""
        return self.driver.coordinator.route

    @property
    def last(self) -> Epoch:
        """The newest recorded epoch."""
        return self.driver.coordinator.last

    @property
    def outputs(self) -> Mapping[Epoch, Mapping[str, Sequence[Row]]]:
        """What the sink holds: by epoch and flow."""
        return self.world.stream.outputs

    def state(self, flow: str | None = None) -> Mapping[Key, Row]:
        """Each key's state. It has been compared with what the workers hold, byte by byte."""
        self.witness.check_epoch(self.last)
        return self.witness.references[flow or next(iter(self.world.flows))].state

    def leftovers(self) -> Mapping[Worker, BinSet]:
        """Bins that workers hold copies of, or own without having a right to."""
        found = {}
        for worker, machine in self.world.machines.items():
            for name in self.world.flows:
                status = machine.look(name).status()
                owned = self.route.bins_of(worker) if self.route is not None else BinSet()
                if extra := BinSet(status.copies) | (status.owned - owned):
                    found[worker] = extra
        return found
