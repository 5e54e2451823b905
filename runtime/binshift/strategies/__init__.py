"""Cuts a plan into steps: Megaphone's four strategies (PVLDB 12(9), 2019, section 3.4).

This module decides which bins move together and in which order, never where they go (`binshift.planner`) or when
(`binshift.migration`). A step flips in one epoch, so its largest share on one worker is the peak that users see,
and the number of steps determines how long a migration takes:

| strategy | a step is | peak | steps |
|---|---|---|---|
| AllAtOnce | everything | grows with the state | 1 |
| Fluid | one bin | lowest | as many as bins |
| Batched | n bins, taken from all pairs of workers in turn | n bins on one worker, at worst | bins / n |
| Optimized | a maximum matching: a worker sends n bins to at most one and receives from at most one | n bins | least |

Within a pair of workers the order is by weight, heaviest first, so that bins that share a step have similar sizes.
"""

from __future__ import annotations

from enum import StrEnum
from typing import assert_never

import numpy as np
import numpy.typing as npt

from binshift.errors import MigrationRefused
from binshift.invariants import invariant
from binshift.model import Moves, Plan, Steps
from binshift.strategies.matchings import rounds

__all__ = ["Strategy", "cut"]


class Strategy(StrEnum):
    """How to cut a plan; the values are the names in the resource and in the API."""

    ALL_AT_ONCE = "AllAtOnce"
    FLUID = "Fluid"
    BATCHED = "Batched"
    OPTIMIZED = "Optimized"


def cut(moves: Moves, strategy: Strategy, batch_size: int = 64, weights: npt.NDArray[np.number] | None = None) -> Plan:
    """The plan that makes all of ``moves``, each exactly once.

    ``batch_size`` is the number of bins in a step of Batched, and of bins that a matched pair of workers moves in a step of
    Optimized; the other two ignore it. ``weights`` has one number for each bin of the route. Optimized needs exactly
    as many steps as its busiest worker has batches to send or to receive, ``max(sum(ceil(bins to one peer / n)))``:
    fewer are impossible (Koenig, 1916).

    Raises:
        MigrationRefused: ``batch_size`` is below 1.

    >>> moves = Moves([0, 1, 2, 3], [0, 0, 1, 1], [2, 3, 2, 3])
    >>> [sorted(step.moves.bins.tolist()) for step in cut(moves, Strategy.OPTIMIZED, batch_size=1).steps]
    [[0, 3], [1, 2]]
    """
    if batch_size < 1:
        raise MigrationRefused(f"a batch of {batch_size} bins moves nothing: set the batch size to 1 or more")
    invariant(not (moves.sources == moves.destinations).any(), "a bin moves to its own worker")
    grouped = _grouped(moves, weights)
    if not len(grouped):
        return Plan(Steps(grouped, np.zeros(0, dtype=np.int64)))
    match strategy:
        case Strategy.ALL_AT_ONCE:
            step_of = np.zeros(len(grouped), dtype=np.int64)
        case Strategy.FLUID:
            step_of = _in_turn(grouped)
        case Strategy.BATCHED:
            step_of = _in_turn(grouped) // batch_size
        case Strategy.OPTIMIZED:
            step_of = _matched(grouped, batch_size)
        case _:
            assert_never(strategy)
    order = np.argsort(step_of, kind="stable")
    return Plan(Steps(grouped[order], np.cumsum(np.bincount(step_of))))


def _grouped(moves: Moves, weights: npt.NDArray[np.number] | None) -> Moves:
    """The moves, grouped by (source, destination), the heaviest bin of each pair first."""
    keys = (moves.bins, moves.destinations, moves.sources)
    if weights is None:
        return moves[np.lexsort(keys)]
    return moves[np.lexsort((keys[0], -np.asarray(weights)[moves.bins], *keys[1:]))]


def _pair_starts(grouped: Moves) -> npt.NDArray[np.int64]:
    changes = (np.diff(grouped.sources) != 0) | (np.diff(grouped.destinations) != 0)
    return np.flatnonzero(np.concatenate(([True], changes)))


def _ranks(grouped: Moves, starts: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """The position of each move within its pair."""
    return np.arange(len(grouped)) - np.repeat(starts, np.diff(starts, append=len(grouped)))


def _in_turn(grouped: Moves) -> npt.NDArray[np.int64]:
    """The position of each move when every pair gives one bin in turn."""
    places = np.empty(len(grouped), dtype=np.int64)
    places[np.argsort(_ranks(grouped, _pair_starts(grouped)), kind="stable")] = np.arange(len(grouped))
    return places


def _matched(grouped: Moves, batch_size: int) -> npt.NDArray[np.int64]:
    """The round in which each move is made, by pairs of workers rather than by bins."""
    starts = _pair_starts(grouped)
    batches = -(-np.diff(starts, append=len(grouped)) // batch_size)
    round_of = rounds(grouped.sources[starts], grouped.destinations[starts], batches)
    firsts = np.repeat(np.cumsum(batches) - batches, np.diff(starts, append=len(grouped)))
    return round_of[firsts + _ranks(grouped, starts) // batch_size]
