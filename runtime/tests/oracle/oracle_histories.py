"""Histories: everything that may happen to a dataflow, chosen by one seed.

A history is input, movement and misfortune in random order. `play` runs one and returns the cluster after it; the
cluster itself contradicts whatever is wrong. At the end of each the world calms down: then everything under way has to
end, a driver that starts has to reach the newest target, and the log alone has to hold the state.
"""

from __future__ import annotations

import logging
import random
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field

from oracle_flows import flows_for, moody, rows_for
from oracle_tuning import tale, tuning_for

from binshift.errors import Fenced, MigrationRefused, StorageUnavailable
from binshift.log.storage.contract import Storage
from binshift.log.tools.verification import verify
from binshift.model import Worker
from binshift.strategies import Strategy
from binshift.testing import Effect, Fault, Faults, Killed, Meanwhile, Row, SimulatedCluster
from binshift.testing.jobs import Beside
from binshift.testing.machines import NewStore

SLOTS = 4

ROUND_EPOCHS = (0, 0, 0, 1, 2, 3, 4, 6, 8)
"""Epochs that pass while a round of background work runs: none on an idle stream, many where rounds are slow."""


@dataclass
class Misfortune:
    """A plan of faults: each effect has a small chance, until there were enough.

    Attributes:
        rng: decides.
        left: how many more.
        chance: of each effect.
        cluster: where.
        nested: whether this is happening meanwhile; one thing at a time.
        in_round: whether a background round is under way, beside which an epoch may run.
        at_commit: what happens once a record exists and Spark has not committed its epoch; the driver dies with it.
    """

    rng: random.Random
    left: int
    chance: float
    cluster: SimulatedCluster | None = None
    nested: bool = False
    in_round: bool = False
    at_commit: Callable[[], None] | None = None

    def __call__(self, effect: Effect) -> Fault | Meanwhile | None:
        """What goes wrong at this effect."""
        if self.at_commit is not None and effect.what.startswith("Spark's commit"):
            befall, self.at_commit = self.at_commit, None
            befall()
            return Fault.KILL
        if not self.left or self.nested or self.rng.random() > self.chance:
            return None
        self.left -= 1
        kind = self.rng.choice(["kill", "kill", "kill", "refuse", "lose", "wait", "wait"])
        match kind:
            case "kill":
                return Fault.KILL
            case "refuse" if effect.kind != "step":
                return Fault.REFUSE
            case "lose" if effect.kind == "write":
                return Fault.LOSE
            case "wait":
                return self._meanwhile(effect)
            case _:
                return None

    def _meanwhile(self, effect: Effect) -> Meanwhile:
        """What happens while the process stands still: another driver, or what this one does on its other thread."""
        assert self.cluster is not None
        cluster, options = self.cluster, [self._take_over]
        if effect.process.name.startswith("executor"):
            idle = cluster.world.stream.pending is None
            options += ([self._epoch] if idle else []) if self.in_round else [cluster.background]
        act = self.rng.choice(options)

        def meanwhile() -> None:
            self.nested = True
            try:
                act()
            finally:
                self.nested = False

        return meanwhile

    def _epoch(self) -> None:
        assert self.cluster is not None
        self.cluster.epoch(rows_for(self.rng, len(self.cluster.world.stream.batches), 8, 6))

    def _take_over(self) -> None:
        assert self.cluster is not None
        self.cluster.take_over()
        if self.rng.random() < 0.7:
            self.cluster.finish()
        if self.rng.random() < 0.5:
            self.cluster.background()


@dataclass
class History:
    """One history under way."""

    seed: int
    faulty: bool = True
    moody: bool = False
    files: Storage | None = None
    new_store: NewStore | None = None
    script: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.rng = rng = random.Random(self.seed)
        self.keys, self.rows_max = rng.choice([(4, 6), (12, 16), (40, 24)])
        self.round_epochs = random.Random(f"rounds of {self.seed}").choice(ROUND_EPOCHS)
        self.epochs = rng.randint(6, 12) + 3 * self.round_epochs
        self.misfortune = Misfortune(random.Random(self.seed + 1), rng.randint(0, 5), rng.choice([0.003, 0.01, 0.03]))
        flows, tuning = flows_for(rng), tuning_for(rng)
        if self.moody:
            flows = {"moody": moody()}
        self.cluster = SimulatedCluster(
            flows,
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
        """Input of the next epoch; the same for every history of this seed."""
        number = len(self.cluster.world.stream.batches)
        return rows_for(random.Random(f"{self.seed} {number}"), number, self.keys, self.rows_max)

    @property
    def beside(self) -> list[Beside]:
        """What happens beside a round."""
        return [lambda: self.cluster.epoch(self.next_rows())] * self.round_epochs

    def play(self) -> SimulatedCluster:
        """All of it."""
        actions: list[tuple[int, Callable[[], object]]] = [
            (10, self.background),
            (2, self.rescale),
            (1, self.move),
            (1, self.cancel),
            (1, self.lose),
            (1, self.be_away),
            (1, self.drain),
            (1, self.break_or_mend),
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
        """One action; a request may fail like any other call, and is then not repeated."""
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
            self.cluster.background(self.beside)
        finally:
            self.misfortune.in_round = False

    def rescale(self) -> None:
        """To some of the workers, in some way."""
        slots = self.rng.sample(range(SLOTS), self.rng.randint(1, SLOTS))
        strategy, size = self.rng.choice(list(Strategy)).value, self.rng.choice([1, 2, 8])
        pre_copy = self.rng.random() < 0.7
        self.script.append(f"to {sorted(slots)}, {strategy} by {size}, {'ahead' if pre_copy else 'at once'}")
        self.cluster.rescale(slots, strategy, batch_size=size, pre_copy=pre_copy)

    def move(self) -> None:
        """A few bins to a few workers."""
        bins = self.rng.sample(range(self.cluster.world.bins), self.rng.randint(1, 3))
        self.cluster.move({b: self.rng.randrange(SLOTS) for b in bins}, pre_copy=self.rng.random() < 0.7)

    def cancel(self) -> None:
        """The newest migration."""
        for migration in self.cluster.driver.migrations.history[-1:]:
            migration.cancel()

    def lose(self) -> None:
        """An executor, its disk, or its stores without anybody knowing."""
        slot = self.rng.randrange(SLOTS)
        self.rng.choice([self.cluster.kill, self.cluster.wipe, self.cluster.forget])(slot)

    def be_away(self) -> None:
        """A worker is away for a round or two; where others take over, for an epoch or two as well.

        It may go at the worst moment: when the driver dies between a record and Spark's commit.
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
        """A worker is to go; perhaps it comes back."""
        slot = self.rng.randrange(SLOTS)
        self.cluster.driver.targets.drain(Worker(slot))
        if self.rng.random() < 0.5:
            self.cluster.kill(slot)

    def break_or_mend(self) -> None:
        """A worker can do no background work, or can again."""
        machine = self.cluster.world.machines[Worker(self.rng.randrange(SLOTS))]
        machine.broken = "" if machine.broken else self.rng.choice(["its disk is gone", "killed"])

    def calm_down(self) -> None:
        """No more faults: what is under way ends, what was asked for is reached, what was promised holds."""
        self.misfortune.left = 0
        cluster = self.cluster
        for machine in cluster.world.machines.values():
            machine.broken = ""
        cluster.finish()
        cluster.wake_zombies()
        cluster.settle(self.beside)
        cluster.epoch(self.next_rows())
        cluster.restart_driver()
        cluster.epoch(self.next_rows())
        cluster.settle()
        newest = cluster.driver.log.targets.newest().target
        if newest is not None:
            assert cluster.route is not None
            shares = {worker: len(cluster.route.bins_of(worker)) for worker in cluster.route.workers}
            wanted = sorted(newest.workers)[: cluster.world.bins]
            assert len(shares) == len(wanted), f"the newest target is {newest.workers}; bins are {shares}"
            assert max(shares.values()) - min(shares.values()) <= 1, f"bins are {shares}"
            assert shares.keys() <= set(newest.workers), f"the newest target is {newest.workers}; bins are {shares}"
        for _ in range(3):
            cluster.epoch(self.next_rows())
            cluster.background()
        cluster.witness.rebuild()
        assert cluster.leftovers() == {}, "nobody needs these copies"
        assert verify(cluster.world.files) == []


def play(seed: int, **options: object) -> SimulatedCluster:
    """The history of a seed; an error names the seed and tells what happened."""
    history = History(seed, **options)  # type: ignore[arg-type]
    try:
        return history.play()
    except BaseException as error:
        error.add_note(tale(history.seed, history.script, history.cluster.world.faults))
        raise


def fate(seed: int, moody: bool) -> str:
    """How the history of a seed ended: empty if well, otherwise the whole traceback, as text that any process can read."""
    logging.disable(logging.CRITICAL)
    try:
        play(seed, moody=moody)
    except BaseException:
        # Also what is no error: a history must end by itself, and nobody else is waiting for it here.
        return traceback.format_exc()
    return ""
