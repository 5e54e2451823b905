"""Random queries of several operators: random histories of them, and histories that Hypothesis makes and shrinks.

``BINSHIFT_SEED=17 make oracle`` repeats one of the former.
"""

from __future__ import annotations

import os
import random
from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle_graph_histories import describe, play_graph
from oracle_graphs import graphs, rows_of_leaves

from binshift.strategies import Strategy
from simulator import Effect, Fault, Faults, SimulatedCluster
from simulator.graph import Graph

pytestmark = pytest.mark.oracle

ASKED = os.environ.get("BINSHIFT_SEED")
SEEDS = [int(ASKED)] if ASKED else range(40)


@pytest.mark.usefixtures("quiet")
@pytest.mark.parametrize("seed", SEEDS)
def test_a_history_of_several_operators_ends_as_the_reference(seed: int) -> None:
    """Under any faults, also between the stages of an epoch, output and state of each operator are those of the reference (I5)."""
    play_graph(seed)


@dataclass(frozen=True)
class Step:
    """An epoch, and what happens around it.

    Attributes:
        seed: of its rows.
        most: rows of each leaf, at most.
        move: the strategy and the workers of a request after the epoch; None: none.
        killed: which of the epoch's effects kills its process, counted from 1; 0: none.
        lost: a worker whose disk is lost after the epoch; None: none.
    """

    seed: int
    most: int
    move: tuple[Strategy, frozenset[int]] | None
    killed: int
    lost: int | None


steps = st.builds(
    Step,
    seed=st.integers(0, 999),
    most=st.integers(0, 12),
    move=st.none() | st.tuples(st.sampled_from(Strategy), st.frozensets(st.integers(0, 2), min_size=1)),
    killed=st.just(0) | st.integers(1, 80),
    lost=st.none() | st.integers(0, 2),
)


@settings(max_examples=8)
@given(graph=graphs, history=st.lists(steps, min_size=3, max_size=8))
def test_any_graph_gives_what_the_reference_gives(graph: Graph, history: list[Step]) -> None:
    """Moves by every strategy, killed processes and lost disks change neither output nor state, epoch by epoch (I5)."""
    left = 0

    def plan(effect: Effect) -> Fault | None:
        nonlocal left
        left -= 1
        return Fault.KILL if left == 0 else None

    faults = Faults()
    cluster = SimulatedCluster(graph, bins=8, workers=2, slots=3, faults=faults)
    for number, step in enumerate(history):
        rows = rows_of_leaves(random.Random(step.seed), graph, number, 6, step.most)
        left, faults.plan = step.killed, plan
        try:
            cluster.epoch(rows)
        except AssertionError as error:
            error.add_note(f"operators: {describe(graph)}")
            raise
        faults.plan = lambda effect: None
        if step.move is not None:
            cluster.rescale(sorted(step.move[1]), step.move[0].value, batch_size=2)
        if step.lost is not None:
            cluster.wipe(step.lost)
        cluster.background()
    cluster.settle()
    cluster.epoch()
    cluster.witness.rebuild()
