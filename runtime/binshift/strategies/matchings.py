"""Which pairs of workers exchange bins in which round: an optimal edge colouring by repeated maximum matchings.

Sources and destinations are the two sides of a bipartite graph, and a pair with u batches to move is an edge that must be
in u rounds. No round may use a worker twice on the same side, so no schedule is shorter than the busiest worker's
number of batches. Koenig's theorem states that this many rounds suffice; one rule reaches them: *every round is a
matching that covers all busiest workers*. Such a matching exists (Hall), can be a maximum one (an alternating path never
uncovers a worker that it has covered, except on purpose), and leaves the busiest with one batch less.

A round is derived from the previous one. The same matching is used until one of its pairs has nothing left or an idle worker
becomes one of the busiest; then one search, from the worker concerned, repairs it: removing one pair can open at most one
augmenting path, which begins or ends there. So the work grows with the number of pairs of workers that exchange bins, not
with the number of bins. Sets of workers are Python integers used as bit sets.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from binshift.invariants import invariant

Ints = npt.NDArray[np.int64]

NOBODY = -1


def rounds(sources: npt.NDArray[np.integer], destinations: npt.NDArray[np.integer], batches: Ints) -> Ints:
    """For each batch its round, from 0; batches of a pair are adjacent, in the order of the pairs.

    Pair ``i`` moves ``batches[i] >= 1`` batches from ``sources[i]`` to ``destinations[i]``. Pairs are distinct and sorted.
    In each round a worker sends to at most one other and receives from at most one other, and no pair could be added (it is a
    maximum matching of the remaining batches). The number of rounds is the least possible.

    >>> rounds(np.array([0, 0, 1]), np.array([2, 3, 2]), np.array([2, 1, 1])).tolist()
    [1, 2, 0, 0]
    """
    names = [np.unique(side, return_inverse=True) for side in (sources, destinations)]
    left, right = (codes.astype(np.int64) for _, codes in names)
    keys = left * names[1][0].size + right
    invariant(bool((np.diff(keys) > 0).all()), "pairs of workers are not sorted or not distinct")
    invariant(bool((batches > 0).all()), "a pair of workers has nothing to move")
    pairs, starts, counts = _schedule(left, right, keys, batches.copy())
    order = np.argsort(pairs, kind="stable")
    starts, counts = starts[order], counts[order]
    within = np.arange(int(counts.sum())) - np.repeat(np.cumsum(counts) - counts, counts)
    return np.repeat(starts, counts) + within


def _schedule(left: Ints, right: Ints, keys: Ints, batches: Ints) -> tuple[Ints, Ints, Ints]:
    """Runs of equal rounds: pair, first round, number of rounds. ``batches`` is used up."""
    degrees = [np.bincount(side, batches).astype(np.int64) for side in (left, right)]
    matching = _Matching(left, right)
    runs: list[tuple[Ints, int, int]] = []
    done, busiest = 0, int(max(degrees[0].max(), degrees[1].max()))
    while busiest:
        mates = _cover_busiest(matching, degrees, busiest)
        idle = [degree[mate == NOBODY] for degree, mate in zip(degrees, mates, strict=True)]
        senders = np.flatnonzero(mates[0] != NOBODY)
        used = np.searchsorted(keys, senders * degrees[1].size + mates[0][senders])
        count = int(min(batches[used].min(), *(busiest - most.max() for most in idle if most.size), busiest))
        runs.append((used, done, count))
        batches[used] -= count
        for degree, mate in zip(degrees, mates, strict=True):
            degree[mate != NOBODY] -= count
        done, busiest = done + count, busiest - count
        for pair in used[batches[used] == 0].tolist():
            matching.remove(int(left[pair]), int(right[pair]))
    sizes = [used.size for used, _, _ in runs]
    starts = np.repeat([first for _, first, _ in runs], sizes)
    return np.concatenate([used for used, _, _ in runs]), starts, np.repeat([count for _, _, count in runs], sizes)


def _cover_busiest(matching: _Matching, degrees: list[Ints], busiest: int) -> list[Ints]:
    """Make the matching cover every worker with ``busiest`` batches left; return it as arrays, one for each side."""
    for side in (0, 1):
        idle = np.array(matching.mate[side]) == NOBODY
        for vertex in np.flatnonzero(idle & (degrees[side] == busiest)).tolist():
            covered = matching.cover(side, vertex, spare=degrees[side] < busiest)
            invariant(covered, "no matching covers the busiest workers")
    return [np.array(mate) for mate in matching.mate]


class _Matching:
    """A maximum matching, kept maximum while pairs are removed. Side 0 sends, side 1 receives."""

    def __init__(self, left: Ints, right: Ints) -> None:
        self.near = (_neighbours(left, right), _neighbours(right, left))
        self.mate = tuple([NOBODY] * len(near) for near in self.near)
        self.idle = [(1 << len(near)) - 1 for near in self.near]
        for vertex in range(len(self.near[0])):
            self.cover(0, vertex)

    def cover(self, side: int, start: int, spare: npt.NDArray[np.bool_] | None = None) -> bool:
        """Match the idle ``start`` along an alternating path to an idle worker of the other side.

        With ``spare``, a worker of its own side for which it is true may become idle instead.
        """
        near, partner = self.near[side], self.mate[1 - side]
        path, seen = [start], 0
        while path:
            if found := near[path[-1]] & self.idle[1 - side]:
                last = (found & -found).bit_length() - 1
                self.idle[1 - side] &= ~(1 << last)
            else:
                unseen = near[path[-1]] & ~seen
                if not unseen:
                    path.pop()
                    continue
                seen |= unseen & -unseen
                last = (unseen & -unseen).bit_length() - 1
                if spare is None or not spare[partner[last]]:
                    path.append(partner[last])
                    continue
                self.mate[side][partner[last]] = NOBODY
                self.idle[side] |= 1 << partner[last]
            self.idle[side] &= ~(1 << start)
            self._turn(side, path, last)
            return True
        return False

    def _turn(self, side: int, path: list[int], last: int) -> None:
        """Give each worker on the path its successor's mate, and the one at its end ``last``."""
        mine, other = self.mate[side], self.mate[1 - side]
        for vertex in reversed(path):
            mine[vertex], other[last], last = last, vertex, mine[vertex]

    def remove(self, source: int, destination: int) -> None:
        """Remove a pair that has nothing left; at most one search finds a replacement."""
        ends = (source, destination)
        for side in (0, 1):
            self.near[side][ends[side]] &= ~(1 << ends[1 - side])
        if self.mate[0][source] != destination:
            return
        for side in (0, 1):
            self.mate[side][ends[side]] = NOBODY
            self.idle[side] |= 1 << ends[side]
        _ = self.cover(0, source) or self.cover(1, destination)


def _neighbours(these: Ints, others: Ints) -> list[int]:
    """For each worker of one side, the workers of the other side that it exchanges bins with, as a bit set."""
    order = np.argsort(these, kind="stable")
    bounds = np.searchsorted(these[order], np.arange(int(these.max()) + 2))
    sets = []
    for first, last in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True):
        row = np.zeros(int(others.max()) + 1, dtype=np.uint8)
        row[others[order[first:last]]] = 1
        sets.append(int.from_bytes(np.packbits(row, bitorder="little").tobytes(), "little"))
    return sets
