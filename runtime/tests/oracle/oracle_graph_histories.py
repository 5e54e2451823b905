"""Random histories of queries with several operators: the same events, and faults between the stages of an epoch.

Between the commit of one operator's stores and the first task of the next, and between the last commit and the record, a driver may
die, and an executor may die, lose its disk or its stores, or be missing.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from oracle_graphs import graph_for, rows_of_leaves
from oracle_histories import SLOTS, History
from oracle_misfortune import Misfortune
from oracle_tuning import tale

from binshift.model import Worker
from simulator import Effect, Fault, Meanwhile, Row, SimulatedCluster
from simulator.graph import Graph

BETWEEN_CHANCE = 0.12
"""Of a fault between two stages."""


@dataclass
class StageMisfortune(Misfortune):
    """Faults of single effects, and others between stages.

    Attributes:
        between: the number of remaining faults between stages.
        absent: the worker that is away until an epoch is committed.
    """

    between: int = 3
    absent: int | None = None

    def __call__(self, effect: Effect) -> Fault | Meanwhile | None:
        """The fault of this effect."""
        if self.absent is not None and effect.what.startswith("Spark's commit"):
            self._return()
        if self.between and not self.nested and is_between_stages(effect) and self.rng.random() < BETWEEN_CHANCE:
            self.between -= 1
            return self._between()
        return super().__call__(effect)

    def stop(self) -> None:
        """There are no further faults."""
        super().stop()
        self.between = 0
        self._return()

    def epoch_rows(self, number: int) -> list[Row]:
        """See `Misfortune`."""
        assert self.cluster is not None
        return rows_of_leaves(self.rng, self.cluster.world.graph, number, 8, 4)

    def _between(self) -> Fault | Meanwhile:
        assert self.cluster is not None
        cluster, slot = self.cluster, self.rng.randrange(SLOTS)
        acts: list[Callable[[int], None]] = [cluster.kill, cluster.wipe, cluster.forget, self._lose_summary]
        if cluster.world.tuning.take_over and self.absent is None:
            acts.append(self._leave)
        act = self.rng.choice([None, *acts])
        return Fault.KILL if act is None else lambda: act(slot)

    def _lose_summary(self, slot: int) -> None:
        """The summary of some operator on this worker will be lost on its way."""
        assert self.cluster is not None
        world = self.cluster.world
        world.machines[Worker(slot)].summaries_lost.add(self.rng.choice(list(world.flows)))

    def _leave(self, slot: int) -> None:
        assert self.cluster is not None
        self.absent = slot
        self.cluster.away(slot)

    def _return(self) -> None:
        if self.absent is not None and self.cluster is not None:
            self.cluster.back(self.absent)
        self.absent = None


def is_between_stages(effect: Effect) -> bool:
    """Whether an operator has committed its stores, and the next one, or the record, has not begun."""
    begins = effect.what.startswith("starting ") and not effect.what.startswith("starting run")
    return effect.kind == "step" and (begins or effect.what.startswith("delivering"))


@dataclass
class GraphHistory(History):
    """A history of a graph; by default a random one of the seed."""

    graph: Graph | None = None
    kinds: str = field(default="awdsjflc")

    def make_flows(self, rng: random.Random) -> Graph:
        """See `History`."""
        return self.graph if self.graph is not None else graph_for(rng, self.kinds)

    def make_misfortune(self, rng: random.Random, most: int, chance: float) -> Misfortune:
        """See `History`."""
        return StageMisfortune(rng, most, chance)

    def rows_at(self, rng: random.Random, number: int) -> list[Row]:
        """See `History`."""
        return rows_of_leaves(rng, self.cluster.world.graph, number, self.keys, self.rows_max // 2)

    def check_balance(self, shares: Mapping[Worker, int], wanted: Sequence[int]) -> None:
        """See `History`. A limit has all of its load in one bin, so that the numbers of bins differ."""
        assert shares, f"the target is {wanted}; no worker has a bin"

    def make_round_epochs(self) -> int:
        """Short rounds: long ones are the same for one operator and for several."""
        return random.Random(f"rounds of {self.seed}").choice([0, 0, 1, 2])


def play_graph(seed: int, graph: Graph | None = None, kinds: str = "awdsjflc") -> SimulatedCluster:
    """Run the history of a seed; an error has the seed, the graph and the events."""
    history = GraphHistory(seed, graph=graph, kinds=kinds)
    try:
        return history.play()
    except BaseException as error:
        error.add_note(f"operators: {describe(history.cluster.world.graph)}")
        error.add_note(tale(history.seed, history.script, history.cluster.world.faults))
        raise


def describe(graph: Graph) -> str:
    """The operators and what each reads."""
    nodes = (
        f"{name} = {node.flow} of {', '.join(str(read.origin) for read in node.inputs)}"
        for name, node in graph.nodes.items()
    )
    return "; ".join(nodes)
