"""Between the operators of an epoch: one has committed its stores, and the next has not begun.

The fixed history runs a query of four operators over two leaves, two of which read the same one. At each point a process dies, or a
worker loses what it has. The stores of the operators that have committed go back by their undo, one epoch deep.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
from oracle_fixed import STAND_STILL, fixed, place
from oracle_graphs import rows_of_leaves

from binshift.model import Worker
from binshift.operators.aggregate import OutputMode
from binshift.operators.join import JoinType
from simulator import Fault, Plan, Row, SimulatedCluster, Totals
from simulator.graph import Graph, Mark, Node, Read
from simulator.joinflow import Pairs
from simulator.rowflows import Distinct
from simulator.sessionflow import SessionTotals

pytestmark = pytest.mark.oracle

CALM, FLIP = 4, 5
"""Epochs of the fixed history: one without moves, and the first with moves."""


def _pair(row: Row) -> Row:
    return {"key": row["lkey"], "value": row["rvalue"], "time": row["ltime"]}


GRAPH = Graph(
    {
        "0.distinct": Node(Distinct(("key", "value"), within_ms=2_000, name="0.distinct"), (Read(0),)),
        "1.pairs": Node(Pairs(JoinType.LEFT_OUTER, 900, 1_100, "1.pairs"), (Read("0.distinct"), Read(1))),
        "2.windows": Node(
            Totals("2.windows", window_ms=500, delay_ms=0, mode=OutputMode.APPEND), (Read("1.pairs", _pair),)
        ),
        "3.sessions": Node(SessionTotals(300, name="3.sessions"), (Read("0.distinct"),)),
    },
    (Mark("time", 400, 0), Mark("time", 0, 1)),
)
"""A join behind a deduplication that sessions read as well, and windows behind the join."""


def staged(plan: Plan | None = None, meanwhile: Callable[[SimulatedCluster], None] | None = None) -> SimulatedCluster:
    """The fixed history of `GRAPH`."""
    return fixed(plan, GRAPH, meanwhile, rows=lambda rng, number: rows_of_leaves(rng, GRAPH, number, 4, 8))


def test_every_operator_returns_rows() -> None:
    """The history proves something about each operator: it returns rows, and in the end it has state."""
    cluster = staged()
    for name in GRAPH.nodes:
        assert sum(len(outputs[name]) for outputs in cluster.outputs.values()) > 3, name
        assert any(cluster.witness.image(name, cluster.last).values()), name


LATER = [name for name, node in GRAPH.nodes.items() if node.behind]
DRIVER = [(f"Spark's commit of epoch {epoch}", 1) for epoch in (CALM, FLIP)]
DRIVER += [(f"starting {name} of epoch {epoch}", 1) for name in LATER for epoch in (CALM, FLIP)]
DRIVER += [(f"delivering epoch {epoch}", 1) for epoch in (CALM, FLIP)]
DRIVER += [(f"create records/{epoch:020d}", 1) for epoch in (CALM, FLIP)]
EXECUTOR = [(f"sending its summary of epoch {CALM}", number) for number in (1, 2, 3, 5, 7, 8)]


@pytest.mark.parametrize(("what", "occurrence"), DRIVER)
def test_a_driver_dies_between_two_operators(what: str, occurrence: int) -> None:
    """Its successor runs the whole epoch again, or finds its record."""
    cluster = staged(place("driver", what, occurrence, Fault.KILL))
    assert len(cluster.world.faults.struck) == 1


@pytest.mark.parametrize(("what", "occurrence"), EXECUTOR)
def test_an_executor_dies_in_the_middle_of_a_stage(what: str, occurrence: int) -> None:
    """Whether the task that dies is of the first or of the last operator, the epoch runs again as a whole."""
    cluster = staged(place("executor", what, occurrence, Fault.KILL))
    assert len(cluster.world.faults.struck) == 1


LOSSES: dict[str, Callable[[SimulatedCluster], None]] = {
    "its executor": lambda cluster: cluster.kill(0),
    "its disk": lambda cluster: cluster.wipe(0),
    "its stores": lambda cluster: cluster.forget(0),
    "a summary": lambda cluster: cluster.world.machines[Worker(0)].summaries_lost.add("2.windows"),
}


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("what", [f"starting 1.pairs of epoch {CALM}", f"starting 2.windows of epoch {FLIP}"])
def test_a_worker_loses_what_it_has_between_two_operators(what: str, loss: str) -> None:
    """The run fails, or the loss is noticed by the next epoch; the result is the same."""
    cluster = staged(place("driver", what, 1, STAND_STILL), LOSSES[loss])
    assert len(cluster.world.faults.struck) == 1
