"""The vocabulary: bins, workers, epochs, routes, moves, plans, stamps and fences.

This module owns the types that every other module uses. All values are immutable; sets of bins and of moves are NumPy arrays,
since a plan may move a million bins. Nothing here reads a clock, does I/O or logs.

The model is Megaphone's (Hoffmann et al., PVLDB 12(9), 2019, section 3): a configuration is a function
(time, bin) -> worker, and a change to it is a control update (time, bin, worker). binshift's time is the epoch: one Spark
micro-batch.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple, NewType

import numpy as np
import numpy.typing as npt

from binshift.binset import BINS_MAX, Bin, BinSet, IntArray
from binshift.invariants import invariant

__all__ = [
    "BEFORE_FIRST",
    "BINS_MAX",
    "GENESIS",
    "Bin",
    "BinSet",
    "Epoch",
    "Fence",
    "IntArray",
    "Move",
    "Moves",
    "Plan",
    "Stamp",
    "Step",
    "Steps",
    "Term",
    "Worker",
]

Worker = NewType("Worker", int)
"""A stable slot ``0 .. W-1``: one executor (on Kubernetes: the pod's ordinal)."""

Epoch = NewType("Epoch", int)
"""Logical time: the id of one micro-batch, counted from 0."""

Term = NewType("Term", int)
"""The number of drivers that opened a log before this one, plus one."""

BEFORE_FIRST = Epoch(-1)
"""The epoch of the empty state, before any batch."""


class Stamp(NamedTuple):
    """The identity of a state: its epoch, and the attempt that produced it.

    Two tasks that run the same epoch produce two different states; only the one that a commit record names counts.
    An attempt id is never used again.
    """

    epoch: Epoch
    attempt: str


GENESIS = Stamp(BEFORE_FIRST, "genesis")
"""The stamp of an empty store."""


class Fence(NamedTuple):
    """A lease on a store, ordered: a task with a lower fence than the store has seen must not change anything."""

    term: Term
    epoch: Epoch
    run: int


class Move(NamedTuple):
    """One bin changes owner."""

    bin: Bin
    source: Worker
    destination: Worker


class Moves:
    """Many moves as three equally long arrays; their users check that no bin occurs twice.

    >>> moves = Moves([3, 1], [0, 0], [2, 3])
    >>> list(moves)[0]
    Move(bin=3, source=0, destination=2)
    >>> moves.bins_to(Worker(3))
    BinSet(1)
    """

    __slots__ = ("bins", "destinations", "sources")
    bins: IntArray
    sources: IntArray
    destinations: IntArray

    def __init__(self, bins: npt.ArrayLike, sources: npt.ArrayLike, destinations: npt.ArrayLike) -> None:
        for name, values in (("bins", bins), ("sources", sources), ("destinations", destinations)):
            column = np.array(values, dtype=np.int32)
            column.setflags(write=False)
            object.__setattr__(self, name, column)
        invariant(len(self.bins) == len(self.sources) == len(self.destinations), "moves need equal columns")

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"Moves is immutable: cannot set {name!r}")

    def __reduce__(self) -> tuple[type[Moves], tuple[IntArray, IntArray, IntArray]]:
        return Moves, (self.bins, self.sources, self.destinations)

    @classmethod
    def of(cls, moves: Iterable[Move]) -> Moves:
        """The same moves, from single ones."""
        rows = np.array(list(moves), dtype=np.int64).reshape(-1, 3)
        return cls(rows[:, 0], rows[:, 1], rows[:, 2])

    def __len__(self) -> int:
        return int(self.bins.size)

    def __iter__(self) -> Iterator[Move]:
        columns = (self.bins.tolist(), self.sources.tolist(), self.destinations.tolist())
        return (Move(Bin(b), Worker(s), Worker(d)) for b, s, d in zip(*columns, strict=True))

    def __getitem__(self, index: slice | npt.NDArray[np.intp] | npt.NDArray[np.bool_]) -> Moves:
        return Moves(self.bins[index], self.sources[index], self.destinations[index])

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Moves) and all(
            np.array_equal(getattr(self, name), getattr(other, name)) for name in Moves.__slots__
        )

    def __hash__(self) -> int:
        return hash(tuple(getattr(self, name).tobytes() for name in Moves.__slots__))

    def __repr__(self) -> str:
        return f"Moves({self.bins.tolist()}, {self.sources.tolist()}, {self.destinations.tolist()})"

    def bin_set(self) -> BinSet:
        """Every bin that moves."""
        return BinSet(self.bins)

    def bins_to(self, worker: Worker) -> BinSet:
        """The bins that ``worker`` receives."""
        return BinSet(self.bins[self.destinations == worker])


@dataclass(frozen=True, slots=True)
class Step:
    """The moves that take effect together in one epoch."""

    moves: Moves


@dataclass(frozen=True, slots=True, eq=False)
class Steps:
    """The steps of a plan, each cut out of one `Moves` on access: a fluid plan may have a million of them.

    Step ``i`` is ``moves[ends[i - 1]:ends[i]]``; none is empty.
    """

    moves: Moves
    ends: npt.NDArray[np.int64]

    def __post_init__(self) -> None:
        ends = np.array(self.ends, dtype=np.int64)
        ends.setflags(write=False)
        object.__setattr__(self, "ends", ends)
        invariant(bool((np.diff(self.ends, prepend=0) > 0).all()), "a step is empty")
        invariant(len(self.moves) == self.ends[-1:].sum(), "steps do not cover their moves")

    def __len__(self) -> int:
        return int(self.ends.size)

    def __getitem__(self, index: int) -> Step:
        at = range(len(self))[index]
        return Step(self.moves[int(self.ends[at - 1]) if at else 0 : int(self.ends[at])])

    def __iter__(self) -> Iterator[Step]:
        return (self[at] for at in range(len(self)))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Steps) and self.moves == other.moves and np.array_equal(self.ends, other.ends)

    def __hash__(self) -> int:
        return hash((self.moves, self.ends.tobytes()))


@dataclass(frozen=True, slots=True)
class Plan:
    """The ordered steps that lead from one route to another; no bin moves twice.

    >>> plan = Plan.of([Step(Moves([3], [0], [1])), Step(Moves([1, 2], [0, 0], [1, 2]))])
    >>> len(plan.steps), plan.bins_total, plan.steps[1].moves.bin_set()
    (2, 3, BinSet(1, 2))
    """

    steps: Steps

    def __post_init__(self) -> None:
        invariant(np.bincount(self.steps.moves.bins, minlength=1).max() <= 1, "a bin moves twice in one plan")

    @classmethod
    def of(cls, steps: Iterable[Step]) -> Plan:
        """The plan of the given steps, in that order."""
        moves = [step.moves for step in steps]
        columns = ([getattr(m, name) for m in moves] for name in ("bins", "sources", "destinations"))
        joined = Moves(*(np.concatenate(column) if column else () for column in columns))
        return cls(Steps(joined, np.cumsum([len(m) for m in moves])))

    @property
    def moves(self) -> Moves:
        """The moves of all steps, in the order of the steps."""
        return self.steps.moves

    @property
    def bins_total(self) -> int:
        """The number of bins that move in all steps."""
        return len(self.steps.moves)
