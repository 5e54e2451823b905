"""One query of the suite on four warm workers, filled, and moved in several ways, each several times, open loop.

The same workers are active before and after a measured move. Ways take turns, in an order that is reversed each round, because a machine's
speed drifts. The module measures; `spikes` computes.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from latency import Latencies, latencies_of
from measuring import Bench, await_batch

from nexmark.engines import writer
from nexmark.figures.loads import LOADS, Load
from nexmark.figures.spikes import Shot, together
from nexmark.figures.ways import ALL_AT_ONCE, OPTIMIZED, WORKERS, Rebalance, Shift, Way
from nexmark.queries import QUERIES

FILL_SECONDS_MAX = 600.0
WARM_BINS = 64


@dataclass(frozen=True)
class Pace:
    """How often and how long: the same for all experiments.

    Attributes:
        rounds: measured moves of each way.
        settle_epochs: after the state is filled, not measured.
        settle_seconds: between a move that is not measured and the calm time before the measured one.
        calm_seconds: before each measured move, and after it.
        done: called after each measured move, for the progress bar.
    """

    rounds: int = 2
    settle_epochs: int = 60
    settle_seconds: float = 0.5
    calm_seconds: float = 2.5
    done: Callable[[], None] = lambda: None

    def count(self, ways: Sequence[Way]) -> int:
        """Measured moves of one run."""
        return sum(way.measured_in(number) for number in range(self.rounds) for way in ways)


@dataclass(frozen=True)
class Recorded:
    """What a run has shown.

    Attributes:
        found: its latencies.
        shots: its measured moves.
        state_rows: rows in the stores at the end, copies and indexes included.
        state_mib: what they take, roughly.
    """

    found: Latencies
    shots: Sequence[Shot]
    state_rows: int
    state_mib: float

    def rows(self) -> Iterator[dict[str, Any]]:
        """The figures of each way, in the order of its first move."""
        state = {"state_rows": self.state_rows, "state_mib": round(self.state_mib, 1)}
        for name in dict.fromkeys(shot.way for shot in self.shots):
            own = [shot for shot in self.shots if shot.way == name]
            yield {"strategy": name, **state, **together(self.found, own, self.shots)}


@contextmanager
def filled(running: Bench, query: str, load: Load, bins: int, pace: Pace, *, standbys: int = 0) -> Iterator[Any]:
    """The query on all workers, with its state and so many standby copies of each bin, in calm times; stopped at the end."""
    frame = QUERIES[query].build(load.stream(running.spark))
    settings = {"bins": bins, "workers": WORKERS, "standby_replicas": standbys}
    made = writer(frame, QUERIES[query], running.checkpoint(), **settings)
    started = made.format("noop").start()
    try:
        await_batch(started, 1, FILL_SECONDS_MAX)
        await_batch(started, pace.settle_epochs, FILL_SECONDS_MAX)
        yield started
    finally:
        started.stop()


def recorded(
    running: Bench, query: str, load: Load, bins: int, shift: Shift, ways: Sequence[Way], pace: Pace
) -> Recorded:
    """Fill a query, move once unmeasured, and then in all of these ways in turn."""
    with filled(running, query, load, bins, pace) as started:
        shift.prepare(started, OPTIMIZED)
        shift.move(started, OPTIMIZED)
        shots = []
        for number in range(pace.rounds):
            for way in ways if number % 2 == 0 else reversed(ways):
                if way.measured_in(number):
                    shots.append(shot(started, shift, way, pace))
                    pace.done()
        return ended(started, load, shots)


def warm(running: Bench, seconds: float) -> None:
    """Run a small query and move its bins, unmeasured: until the JVMs have compiled, every epoch is slow, and a move shows no spike."""
    if not seconds:
        return
    shift = Rebalance()
    with filled(running, "q3", LOADS["q3"].times(0.05), WARM_BINS, Pace()) as started:
        for way in (OPTIMIZED, ALL_AT_ONCE):
            time.sleep(seconds / 2)
            shift.prepare(started, way)
            shift.move(started, way)


def ended(started: Any, load: Load, shots: Sequence[Shot]) -> Recorded:
    """What the run has shown until now."""
    operators = started.timings[-1].operators
    rows, stored = (sum(getattr(each, name) for each in operators) for name in ("rows_stored", "bytes_stored"))
    found = latencies_of(started.recentProgress, load.prefill, load.rate)
    return Recorded(found, shots, rows, stored / (1 << 20))


def shot(started: Any, shift: Shift, way: Way, pace: Pace) -> Shot:
    """A move that is not measured, calm, the measured move, calm."""
    shift.prepare(started, way)
    time.sleep(pace.settle_seconds)
    calm_from = time.time()
    time.sleep(pace.calm_seconds)
    began = time.time()
    shift.move(started, way)
    moved = time.time()
    time.sleep(pace.calm_seconds)
    return Shot(way.name, calm_from, began, moved, time.time())
