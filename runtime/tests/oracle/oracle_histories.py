"""Histories: random events in the life of a dataflow, chosen by one seed.

A history is input, moves and faults in random order. `play` runs one and returns the cluster after it; the cluster itself
raises on any contradiction. At the end of each history the faults stop: then all running migrations must end, a restarted
driver must reach the newest target, and the log alone must have the state.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from oracle_flows import flows_for, moody, rows_for
from oracle_misfortune import Misfortune
from oracle_tuning import tale, tuning_for, with_standbys

from binshift.engine.standbys import by_worker
from binshift.errors import Fenced, MigrationRefused, StorageUnavailable
from binshift.log.storage.contract import Storage
from binshift.log.tools.verification import verify
from binshift.model import Worker
from binshift.replicas import standby_workers
from binshift.strategies import Strategy
from simulator import Faults, Flow, Killed, Row, SimulatedCluster
from simulator.graph import Graph
from simulator.jobs import Call
from simulator.machines import NewStore

SLOTS = 4
COPY_ROUNDS_MAX = 200

ROUND_EPOCHS = (0, 0, 0, 1, 2, 3, 4, 6, 8)
"""Epochs that pass while a round of background work runs: none on an idle stream, many if rounds are slow."""


@dataclass
class History:
    """One history in progress."""

    seed: int
    faulty: bool = True
    moody: bool = False
    files: Storage | None = None
    new_store: NewStore | None = None
    script: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.rng = rng = random.Random(self.seed)
        self.keys, self.rows_max = rng.choice([(4, 6), (12, 16), (40, 24)])
        self.round_epochs = self.make_round_epochs()
        self.epochs = rng.randint(6, 12) + 3 * self.round_epochs
        most, chance = rng.randint(0, 5), rng.choice([0.003, 0.01, 0.03])
        self.misfortune = self.make_misfortune(random.Random(self.seed + 1), most, chance)
        flows, tuning = self.make_flows(rng), with_standbys(tuning_for(rng), self.seed)
        self.cluster = SimulatedCluster(
            {"moody": moody()} if self.moody else flows,
            bins=rng.choices([4, 8, 16, 64], [4, 6, 4, 1])[0],
            workers=rng.randint(1, 3),
            slots=SLOTS,
            tuning=tuning,
            files=self.files,
            new_store=self.new_store,
            faults=Faults(self.misfortune) if self.faulty else None,
            seed=self.seed,
            deterministic=not self.moody,
        )
        self.misfortune.cluster = self.cluster
        self.cluster.world.zombie_share = rng.choice([0.0, 0.5])

    def next_rows(self) -> list[Row]:
        """The input of the next epoch; the same for every history of this seed."""
        number = len(self.cluster.world.stream.batches)
        return self.rows_at(random.Random(f"{self.seed} {number}"), number)

    def make_flows(self, rng: random.Random) -> Mapping[str, Flow] | Graph:
        """The operators."""
        return flows_for(rng)

    def make_misfortune(self, rng: random.Random, most: int, chance: float) -> Misfortune:
        """The faults: at most so many, with this chance at each effect."""
        return Misfortune(rng, most, chance)

    def make_round_epochs(self) -> int:
        """How many epochs pass during a round."""
        return random.Random(f"rounds of {self.seed}").choice(ROUND_EPOCHS)

    def rows_at(self, rng: random.Random, number: int) -> list[Row]:
        """The input of one epoch."""
        return rows_for(rng, number, self.keys, self.rows_max)

    @property
    def concurrent(self) -> list[Call]:
        """The calls that run during a round."""
        return [lambda: self.cluster.epoch(self.next_rows())] * self.round_epochs

    def play(self) -> SimulatedCluster:
        """Run the whole history."""
        actions: list[tuple[int, Callable[[], object]]] = [
            (10, self.background),
            (2, self.rescale),
            (1, self.move),
            (1, self.cancel),
            (1, self.lose),
            (1, self.be_away),
            (1, self.drain),
            (1, self.break_or_repair),
            (1, self.cluster.restart_driver),
            (1, self.cluster.take_over),
            (1, self.cluster.wake_zombies),
        ]
        weights = [weight for weight, _ in actions]
        while len(self.cluster.world.stream.batches) < self.epochs:
            self.act("epoch", lambda: self.cluster.epoch(self.next_rows()))
            for _ in range(self.rng.randint(0, 4)):
                _, action = self.rng.choices(actions, weights)[0]
                self.act(getattr(action, "__name__", "?"), action)
        self.calm_down()
        return self.cluster

    def act(self, name: str, action: Callable[[], object]) -> None:
        """Run one action; a request may fail like any other call, and is then not repeated."""
        self.script.append(name)
        try:
            action()
        except (Fenced, Killed, StorageUnavailable, MigrationRefused) as end:
            if name not in ("rescale", "move", "cancel", "drain"):
                raise
            self.script.append(f"({end})")

    def background(self) -> None:
        """A round."""
        self.misfortune.in_round = True
        try:
            self.cluster.background(self.concurrent)
        finally:
            self.misfortune.in_round = False

    def rescale(self) -> None:
        """Rescale to some of the workers, with random settings."""
        slots = self.rng.sample(range(SLOTS), self.rng.randint(1, SLOTS))
        strategy, size = self.rng.choice(list(Strategy)).value, self.rng.choice([1, 2, 8])
        pre_copy = self.rng.random() < 0.7
        self.script.append(f"to {sorted(slots)}, {strategy} by {size}, {'ahead' if pre_copy else 'at once'}")
        self.cluster.rescale(slots, strategy, batch_size=size, pre_copy=pre_copy)

    def move(self) -> None:
        """Move a few bins to a few workers."""
        bins = self.rng.sample(range(self.cluster.world.bins), self.rng.randint(1, 3))
        self.cluster.move({b: self.rng.randrange(SLOTS) for b in bins}, pre_copy=self.rng.random() < 0.7)

    def cancel(self) -> None:
        """Cancel the newest migration."""
        for migration in self.cluster.driver.migrations.history[-1:]:
            migration.cancel()

    def lose(self) -> None:
        """Lose an executor, its disk, or its stores without a report."""
        slot = self.rng.randrange(SLOTS)
        self.rng.choice([self.cluster.kill, self.cluster.wipe, self.cluster.forget])(slot)

    def be_away(self) -> None:
        """Remove a worker for a round or two; if others take over, for an epoch or two as well.

        It may be removed at the worst moment: when the driver dies between a record and Spark's commit.
        """
        slot, takes_over = self.rng.randrange(SLOTS), self.cluster.world.tuning.take_over
        if self.faulty and takes_over and self.rng.random() < 0.5:
            self.misfortune.at_commit = lambda: self.cluster.away(slot)
            self.cluster.epoch(self.next_rows())
        self.cluster.away(slot)
        for _ in range(self.rng.randint(1, 2)):
            self.background()
            if takes_over and self.rng.random() < 0.6:
                self.cluster.epoch(self.next_rows())
        self.cluster.back(slot)

    def drain(self) -> None:
        """Drain a worker; it may return."""
        slot = self.rng.randrange(SLOTS)
        self.cluster.driver.targets.drain(Worker(slot))
        if self.rng.random() < 0.5:
            self.cluster.kill(slot)

    def break_or_repair(self) -> None:
        """Make a worker unable to do background work, or able again."""
        machine = self.cluster.world.machines[Worker(self.rng.randrange(SLOTS))]
        machine.broken = "" if machine.broken else self.rng.choice(["its disk is gone", "killed"])

    def calm_down(self) -> None:
        """Without further faults, running migrations end, the target is reached, and all guarantees hold."""
        self.misfortune.stop()
        cluster = self.cluster
        for machine in cluster.world.machines.values():
            machine.broken = ""
        cluster.finish()
        cluster.wake_zombies()
        cluster.settle(self.concurrent)
        cluster.epoch(self.next_rows())
        cluster.restart_driver()
        cluster.epoch(self.next_rows())
        cluster.settle()
        newest = cluster.driver.log.targets.newest().target
        if newest is not None:
            assert cluster.route is not None
            shares = {worker: len(cluster.route.bins_of(worker)) for worker in cluster.route.workers}
            assert shares.keys() <= set(newest.workers), f"the newest target is {newest.workers}; bins are {shares}"
            self.check_balance(shares, [Worker(worker) for worker in newest.workers])
        for _ in range(3):
            cluster.epoch(self.next_rows())
            cluster.background()
        cluster.witness.rebuild()
        self.check_copies()
        assert verify(cluster.world.files) == []

    def check_copies(self) -> None:
        """Check that the copies left are the standbys of the newest route, all of them."""
        cluster = self.cluster
        for _ in range(COPY_ROUNDS_MAX):
            if not cluster.background():
                break
        assert cluster.route is not None
        standing = cluster.world.tuning.standby_replicas
        wanted = by_worker(standby_workers(cluster.route)) if standing else {}
        assert cluster.leftovers() == wanted, "the copies left are not the standbys of the route"

    def check_balance(self, shares: Mapping[Worker, int], wanted: Sequence[int]) -> None:
        """Check the number of bins of each worker: all bins are about the same load."""
        assert len(shares) == min(len(wanted), self.cluster.world.bins), f"the target is {wanted}; bins are {shares}"
        assert max(shares.values()) - min(shares.values()) <= 1, f"bins are {shares}"


def play(seed: int, **options: object) -> SimulatedCluster:
    """Run the history of a seed; an error has the seed and the events."""
    history = History(seed, **options)  # type: ignore[arg-type]
    try:
        return history.play()
    except BaseException as error:
        error.add_note(tale(history.seed, history.script, history.cluster.world.faults))
        raise
