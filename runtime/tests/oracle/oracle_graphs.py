"""Random queries of several operators: graphs of one to four operators over one to three leaves, and their input.

`graph_for` makes all choices by a `random.Random`; `graphs` is the same as a strategy of Hypothesis, which shrinks what it finds. Each
operator reads what came before it: leaves, unions, the two sides of a join, or an operator that another one reads as well.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from hypothesis import strategies as st
from oracle_flows import chain, rows_for

from binshift.operators.aggregate import OutputMode
from binshift.operators.join import JoinType
from simulator import Flow, Row, Totals
from simulator.graph import LEAF, Convert, Graph, Mark, Node, Read
from simulator.joinflow import Pairs
from simulator.rowflows import Distinct, First
from simulator.sessionflow import SessionTotals

OPERATORS_MAX = 4
LEAVES_MAX = 3
DELAYS_MS = (0, 400, 1_000)
WINDOW_MS = 1_400


@dataclass(frozen=True)
class Source:
    """What an operator may read.

    Attributes:
        read: the rows, with the columns key, value and time.
        timed: whether the time is set.
        ends: whether the time is the exclusive end of a window or a session.
    """

    read: Read
    timed: bool = True
    ends: bool = False


def graph_for(rng: random.Random, kinds: str = "awdsjflc", operators_max: int = OPERATORS_MAX) -> Graph:
    """A random graph, with operators of the given kinds (see `KINDS`)."""
    leaves = rng.randint(1, LEAVES_MAX)
    marks = tuple(Mark("time", rng.choice(DELAYS_MS), leaf) for leaf in range(leaves))
    sources = [Source(Read(leaf)) for leaf in range(leaves)]
    nodes: dict[str, Node] = {}
    for number in range(rng.randint(1, operators_max)):
        kind = rng.choice([kind for kind in kinds if KINDS[kind].fits(sources)])
        node, source = KINDS[kind].build(rng, f"{number}.{kind}", sources)
        nodes[node.flow.name] = node
        if source is not None:  # twice, so that operators in a row are as likely as operators side by side
            sources += [source, source]
    return Graph(nodes, marks)


graphs: st.SearchStrategy[Graph] = st.randoms(use_true_random=False).map(graph_for)
"""Random graphs."""


def rows_of_leaves(rng: random.Random, graph: Graph, epoch: int, keys: int, most: int) -> list[Row]:
    """One epoch's input: rows of each leaf, some of which are late, in random order. A leaf may have none."""
    rows = [
        {**row, LEAF: leaf}
        for leaf in range(len(graph.marks))
        if rng.random() < 0.9
        for row in rows_for(rng, epoch, keys, most)
    ]
    return rng.sample(rows, len(rows))


# ------------------------------------------------------------------------------------------------------------ operators

Built = tuple[Node, Source | None]
"""An operator in its place, and what others may read of it."""


def _some(rng: random.Random, sources: list[Source], *, timed: bool = True) -> tuple[tuple[Read, ...], Source]:
    """A source, or a union of two that are alike."""
    possible = [each for each in sources if each.timed or not timed]
    chosen = rng.choice(possible)
    alike = [each for each in possible if (each.timed, each.ends) == (chosen.timed, chosen.ends)]
    return (chosen.read, *([rng.choice(alike).read] if rng.random() < 0.15 else [])), chosen


def _inside(read: Read) -> Read:
    """The ends of windows as times within them."""
    return replace(read, convert=_then(read.convert, lambda row: {**row, "time": row["time"] - 1}))


def _then(first: Convert | None, second: Callable[[Row], Row]) -> Convert:
    def both(row: Row) -> Row | None:
        found = row if first is None else first(row)
        return None if found is None else second(found)

    return both


def _totals(rng: random.Random, name: str, sources: list[Source]) -> Built:
    """Groups by key alone, which never end: nothing can read them."""
    reads, _ = _some(rng, sources, timed=False)
    return Node(Totals(name, mode=rng.choice([OutputMode.UPDATE, OutputMode.COMPLETE])), reads), None


def _windows(rng: random.Random, name: str, sources: list[Source]) -> Built:
    reads, source = _some(rng, sources)
    mode = rng.choice([OutputMode.APPEND, OutputMode.APPEND, OutputMode.UPDATE])
    size = rng.choice([WINDOW_MS, 2 * WINDOW_MS])
    node = Node(
        Totals(name, window_ms=size, delay_ms=0, mode=mode), tuple(map(_inside, reads)) if source.ends else reads
    )

    def converted(row: Row) -> Row:
        return {"key": row["key"], "value": row["sum"], "time": row["window"] + size}

    return node, Source(Read(name, converted), ends=True) if mode is OutputMode.APPEND else None


def _distinct(rng: random.Random, name: str, sources: list[Source]) -> Built:
    reads, source = _some(rng, sources, timed=False)
    keys = rng.choice([("key",), ("key", "value"), ("key", "time")])
    within = rng.choice([None, 700, 2_000]) if source.timed and "time" not in keys else None
    flow = Distinct(keys, timed=source.timed, within_ms=within, name=name)
    return Node(flow, reads), replace(source, read=Read(name))


def _first(rng: random.Random, name: str, sources: list[Source]) -> Built:
    reads, source = _some(rng, sources, timed=False)
    return Node(First(rng.choice([3, 20, 500]), name), reads), replace(source, read=Read(name))


def _sessions(rng: random.Random, name: str, sources: list[Source]) -> Built:
    reads, _ = _some(rng, sources)
    mode = rng.choice([OutputMode.APPEND, OutputMode.APPEND, OutputMode.COMPLETE])

    def converted(row: Row) -> Row:
        return {"key": row["key"], "value": row["sum"], "time": row["__session_end_us"] // 1000}

    node = Node(SessionTotals(rng.choice([100, 600]), mode, name), reads)
    return node, Source(Read(name, converted), ends=True) if mode is OutputMode.APPEND else None


def _pairs(rng: random.Random, name: str, sources: list[Source], type: JoinType | None = None) -> Built:
    timed = [each for each in sources if each.timed]
    left, right = rng.choice(timed), rng.choice(timed)
    before, after = rng.choice([(0, 0), (900, 0), (300, 1_500), (1_500, 300)])
    flow = Pairs(type or rng.choice(list(JoinType)), before, after, name)

    def converted(row: Row) -> Row:
        """The pair as an event, at the time of its left row."""
        if row["lkey"] is None:
            return {"key": row["rkey"], "value": row["rvalue"], "time": row["rtime"]}
        values = [each for each in (row["lvalue"], row.get("rvalue")) if each is not None]
        return {"key": row["lkey"], "value": sum(values) if values else None, "time": row["ltime"]}

    return Node(flow, (left.read, right.read)), Source(Read(name, converted), ends=left.ends or right.ends)


def _all_pairs(rng: random.Random, name: str, sources: list[Source]) -> Built:
    """A join that keeps all rows; its output has no time that a watermark could reach."""
    node, source = _pairs(rng, name, sources, JoinType.INNER)
    assert source is not None
    return Node(Pairs(JoinType.INNER, name=name), node.inputs), replace(source, timed=False)


def _chain(rng: random.Random, name: str, sources: list[Source]) -> Built:
    reads, _ = _some(rng, sources, timed=False)

    def converted(row: Row) -> Row:
        return {"key": row["key"], "value": row["length"], "time": None}

    return Node(chain(name), reads), Source(Read(name, converted), timed=False)


@dataclass(frozen=True)
class Kind:
    """A kind of operator.

    Attributes:
        build: chooses one, and what it reads.
        timed: whether it needs event times.
    """

    build: Callable[[random.Random, str, list[Source]], Any]
    timed: bool = True

    def fits(self, sources: list[Source]) -> bool:
        """Whether it can read one of these."""
        return not self.timed or any(each.timed for each in sources)


KINDS = {
    "a": Kind(_totals, timed=False),
    "w": Kind(_windows),
    "d": Kind(_distinct, timed=False),
    "s": Kind(_sessions),
    "j": Kind(_pairs),
    "f": Kind(_all_pairs),
    "l": Kind(_first, timed=False),
    "c": Kind(_chain, timed=False),
}
"""Groups, windows, distinct rows, sessions, joins by key and time, joins by key, first rows, functions with a state."""


def flow_kinds(graph: Graph) -> dict[str, type[Flow]]:
    """The operators of a graph by name, for reports."""
    return {name: type(node.flow) for name, node in graph.nodes.items()}
