"""Random faults of a history: each effect has a small chance of one."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

from oracle_flows import rows_for

from simulator import Effect, Fault, Meanwhile, Row, SimulatedCluster


@dataclass
class Misfortune:
    """A plan of faults: each effect has a small chance of one, up to a maximum number.

    Attributes:
        rng: the source of randomness.
        left: the number of remaining faults.
        chance: of each effect.
        cluster: the cluster.
        nested: whether a suspension is in progress; faults are not nested.
        in_round: whether a background round is running, during which an epoch may run.
        at_commit: what happens after a record and before Spark's commit of its epoch; the driver then dies.
    """

    rng: random.Random
    left: int
    chance: float
    cluster: SimulatedCluster | None = None
    nested: bool = False
    in_round: bool = False
    at_commit: Callable[[], None] | None = None

    def __call__(self, effect: Effect) -> Fault | Meanwhile | None:
        """The fault of this effect."""
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
        """What happens while the process is suspended: another driver, or work on this driver's other thread."""
        assert self.cluster is not None
        cluster, options = self.cluster, list[Callable[[], object]]([self._take_over])
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

    def stop(self) -> None:
        """There are no further faults."""
        self.left = 0

    def epoch_rows(self, number: int) -> list[Row]:
        """The input of an epoch that passes during a suspension."""
        return rows_for(self.rng, number, 8, 6)

    def _epoch(self) -> None:
        assert self.cluster is not None
        self.cluster.epoch(self.epoch_rows(len(self.cluster.world.stream.batches)))

    def _take_over(self) -> None:
        assert self.cluster is not None
        self.cluster.take_over()
        if self.rng.random() < 0.7:
            self.cluster.finish()
        if self.rng.random() < 0.5:
            self.cluster.background()
