"""How even the stream was, from the times its epochs were committed at: what a record waited, and which epochs fell out.

The rate source makes rows by the clock, whether or not they are read, and an epoch is due every second. An epoch that takes
several seconds of the source at once shows that others were missed. How latency is counted is `openloop`'s. Pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from openloop import Span, longest_gap, percentile

ROWS_A_SECOND = 100
"""How many of a second's rows are measured."""


@dataclass(frozen=True)
class Commit:
    """One committed epoch.

    Attributes:
        epoch: its number.
        second: of the source, that it ends at.
        at: when it was committed, in seconds since 1970.
    """

    epoch: int
    second: int
    at: float


@dataclass(frozen=True)
class Pace:
    """A stretch of time.

    Attributes:
        p99: 99 % of the records committed in it had waited at most so many seconds; not a number if there were none.
        lost: epochs that were due and whose records went into a later one.
        pause: the longest time without a commit, in seconds.
    """

    p99: float
    lost: int
    pause: float


def pace(commits: Sequence[Commit], created: float, begin: float, end: float) -> Pace:
    """The pace between two points in time.

    Args:
        commits: all of them, ascending.
        created: when the source's second 0 began.
        begin: seconds since 1970.
        end: likewise.

    >>> steady = [Commit(n, n, 100.0 + n + 0.5) for n in range(10)]
    >>> pace(steady, 100.0, 102.0, 108.0).lost
    0
    >>> round(pace(steady, 100.0, 102.0, 108.0).p99, 1)
    1.5
    """
    chosen = [(before.second, commit) for before, commit in pairwise(commits) if begin <= commit.at <= end]
    waited = [np.empty(0)]
    for before, commit in chosen:
        rows = Span(created + before, created + commit.second, commit.at).due((commit.second - before) * ROWS_A_SECOND)
        waited.append(commit.at - rows)
    lost = sum(max(commit.second - before - 1, 0) for before, commit in chosen)
    times = [begin, *(commit.at for commit in commits if begin <= commit.at <= end), end]
    return Pace(percentile(np.concatenate(waited), 99), lost, longest_gap(times))
