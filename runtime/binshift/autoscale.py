"""How many workers a dataflow should have: one decision, from measured load.

A rescale costs no pause here, so that decisions can be early and small: growing is decided with the first epochs that are too long,
shrinking when fewer workers have been enough for a while. The rule is DS2's (Kalavri et al., OSDI 2018): what a row costs, times the
rows that arrive, is the number of workers that are busy; a backlog adds what works it off in a given time. The caller carries
decisions out and asks again; times are arguments, no clock is read.

| observed | decision |
|---|---|
| the cost of a row is not known yet | none: `MEASURING` |
| more is needed than there is, and it shows (utilization, backlog, a long epoch) | grow at once: `LOAD`, `BACKLOG` |
| the last two growths brought next to nothing | none: `INEFFECTIVE` |
| fewer were enough all through `Policy.stabilization_seconds`, and nothing waits | shrink: `SPARE` |
| none of these | none: `STEADY` |
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass, field
from enum import StrEnum

from binshift.errors import InvalidSettings
from binshift.load import NEWEST, EpochCost, Load

LATENCY_PER_EPOCH = 2.0
"""A record that is due just after an epoch has begun waits for that one and then for its own."""

MEASURED_MIN = 8
"""Epochs before the first decision of a driver."""

UP_SECONDS = 10.0
"""At least so long between two growths, while the new workers start."""

PRESSURE = 1.1
"""Growing begins at 1.1 times the utilization aimed at: the rate of arriving rows is never quite steady."""

RAISE = 1.25
"""Until the new workers are there, a growth is raised if that much more is needed: the backlog grows meanwhile."""

COMFORT = 0.8
"""After shrinking, an epoch takes at most this part of what it can take, and workers are busy at most this part of what they can be."""

EFFECT_MIN = 0.1
EFFECT_TRIES = 2
EFFECT_SECONDS = 1800.0
"""Growing stops for half an hour after two growths that brought less than a tenth of the capacity expected."""

LEAST_SHARE = 0.5
"""Workers are busy half of what the policy allows, at least: against a long fixed part of the epoch more workers help little."""


@dataclass(frozen=True, slots=True)
class Policy:
    """What is aimed at.

    Attributes:
        least: workers, at least.
        most: workers, at most.
        latency_target: record latency to stay under, in seconds.
        utilization: share of a worker's time that can be spent on rows.
        catch_up_seconds: a backlog is worked off in this time.
        stabilization_seconds: fewer workers must have been enough for so long before some are stopped.
        down_share: the largest share of the workers that is stopped at once.

    Raises:
        InvalidSettings: a value is out of range.
    """

    least: int
    most: int
    latency_target: float = 1.0
    utilization: float = 0.7
    catch_up_seconds: float = 120.0
    stabilization_seconds: float = 300.0
    down_share: float = 0.5

    def __post_init__(self) -> None:
        if not 1 <= self.least <= self.most:
            raise InvalidSettings(f"{self.least} to {self.most} workers is no range: use 1 or more, such as 1:8")
        if not 0 < self.utilization <= 1 or not 0 < self.down_share <= 1:
            raise InvalidSettings(f"utilization {self.utilization}, share {self.down_share}: above 0, at most 1")
        if min(self.latency_target, self.catch_up_seconds) <= 0 or self.stabilization_seconds < 0:
            raise InvalidSettings("the latency target, catch-up and stabilization must be positive numbers of seconds")


class Reason(StrEnum):
    """Why a number of workers is wanted; a closed list, usable as a condition's reason."""

    MEASURING = "Measuring"
    STEADY = "Steady"
    LOAD = "Load"
    BACKLOG = "Backlog"
    SPARE = "Spare"
    INEFFECTIVE = "Ineffective"


@dataclass(frozen=True, slots=True)
class Decision:
    """What should be.

    Attributes:
        workers: how many there should be now.
        recommended: how many the load needs, without regard to the past.
        limited: the policy's range does not allow what the load needs.
        reason: why.
        message: the same with the figures, for people.
    """

    workers: int
    recommended: int
    limited: bool
    reason: Reason
    message: str


@dataclass
class Autoscaler:
    """Decides for one dataflow, and remembers what it needs for that.

    Attributes:
        policy: can be replaced at any time.
    """

    policy: Policy
    _needed: deque[tuple[float, int]] = field(default_factory=deque)
    _up_at: float = -math.inf
    _down_at: float = -math.inf
    _growth: tuple[int, float] | None = None
    _settled_at: int | None = None
    _without_effect: int = 0
    _ineffective_at: float = -math.inf

    def decide(self, load: Load, workers: int, *, settled: bool) -> Decision:
        """The number of workers from now on.

        Args:
            load: as measured now.
            workers: how many are wanted so far.
            settled: they all own bins, and nothing moves.
        """
        if load.cost is None or load.rows_per_second is None or load.measured < MEASURED_MIN:
            kept = self._within(workers)
            return Decision(kept, kept, False, Reason.MEASURING, f"{load.measured} epochs have been measured")
        need = _need(load, load.cost, self.policy)
        wanted = self._within(need.workers)
        self._note(load, wanted, workers, settled=settled)
        limited = wanted != need.workers
        unmeasured = settled and self._growth is not None
        if (
            not unmeasured
            and wanted > (workers if settled else RAISE * workers)
            and need.pressing(workers)
            and load.at - self._up_at >= UP_SECONDS
        ):
            if load.at - self._ineffective_at < EFFECT_SECONDS:
                return Decision(workers, wanted, limited, Reason.INEFFECTIVE, _no_effect(workers, need))
            self._up_at, self._growth = load.at, self._growth or (workers, load.cost.per_row)
            reason = Reason.BACKLOG if need.of_backlog > need.of_load else Reason.LOAD
            return Decision(wanted, wanted, limited, reason, f"{workers} to {wanted} workers: {need}")
        fewer = self._fewer(load, load.cost, workers, settled=settled)
        if fewer is not None:
            self._down_at, self._growth = load.at, None
            return Decision(fewer, wanted, limited, Reason.SPARE, f"{workers} to {fewer} workers: {need}")
        kept = self._within(workers)
        return Decision(kept, wanted, limited, Reason.STEADY, str(need))

    def _within(self, workers: int) -> int:
        return min(max(workers, self.policy.least), self.policy.most)

    def _note(self, load: Load, wanted: int, workers: int, *, settled: bool) -> None:
        self._needed.append((load.at, wanted))
        while self._needed[0][0] < load.at - self.policy.stabilization_seconds:
            self._needed.popleft()
        self._settled_at = None if not settled else load.measured if self._settled_at is None else self._settled_at
        if self._growth is None or self._settled_at is None or load.measured < self._settled_at + NEWEST:
            return
        assert load.cost is not None
        (before, per_row), self._growth = self._growth, None
        expected = workers / before - 1
        achieved = (workers * per_row) / (before * load.cost.per_row) - 1 if load.cost.per_row else expected
        self._without_effect = self._without_effect + 1 if achieved < EFFECT_MIN * expected else 0
        if self._without_effect >= EFFECT_TRIES:
            self._without_effect, self._ineffective_at = EFFECT_TRIES - 1, load.at

    def _fewer(self, load: Load, cost: EpochCost, workers: int, *, settled: bool) -> int | None:
        """How many workers are enough; None if no fewer, or if that is not certain yet."""
        policy = self.policy
        since = max(self._up_at, self._down_at, load.at - policy.stabilization_seconds)
        if (
            not settled
            or load.at_bound
            or self._needed[0][0] > since + UP_SECONDS
            or since > load.at - policy.stabilization_seconds
        ):
            return None
        enough = max(needed for _, needed in self._needed)
        fewer = max(enough, workers - max(1, int(workers * policy.down_share)), policy.least)
        rate = load.rows_per_second or 0.0
        while fewer < workers and not _comfortable(cost, rate, fewer, policy):
            fewer += 1
        return fewer if fewer < workers else None


@dataclass(frozen=True, slots=True)
class _Need:
    """What the load needs: workers' worth of arriving rows and of backlog, and the figures behind it."""

    rate: float
    of_load: float
    of_backlog: float
    utilization: float
    backlog: int | None
    too_long: bool
    behind: bool
    doubled: int
    certain: bool

    @property
    def workers(self) -> int:
        exact = self.of_load / self.utilization + self.of_backlog
        return max(1, math.ceil(exact - 1e-9), self.doubled)

    def pressing(self, workers: int) -> bool:
        """Whether it shows that so many are too few."""
        return self.too_long or self.behind or (self.certain and self.of_load / workers > PRESSURE * self.utilization)

    def __str__(self) -> str:
        rows = f"{self.rate:,.0f} rows/s keep {self.of_load:.1f} busy, at {self.utilization:.0%} each"
        if self.doubled:
            return f"{rows}; epochs are at their bound, and the source does not know its backlog"
        return f"{rows}; a backlog of {self.backlog:,} rows needs {self.of_backlog:.1f}" if self.of_backlog else rows


def _need(load: Load, cost: EpochCost, policy: Policy) -> _Need:
    rate, seconds = load.rows_per_second or 0.0, load.epoch_seconds or 0.0
    epoch_max = policy.latency_target / LATENCY_PER_EPOCH
    # An epoch takes fixed / (1 - busy): above this share it is longer than the latency target allows.
    utilization = min(policy.utilization, max(1 - cost.fixed / epoch_max, LEAST_SHARE * policy.utilization))
    ordinary = rate * LATENCY_PER_EPOCH * max(seconds, cost.fixed)
    backlog = max(0, int(load.behind - ordinary)) if load.behind is not None else None
    unknown = load.at_bound and load.behind is None
    return _Need(
        rate,
        cost.per_row * rate,
        cost.per_row * (backlog or 0) / policy.catch_up_seconds,
        utilization,
        backlog,
        too_long=seconds > COMFORT * epoch_max and cost.fixed < epoch_max / 2,
        behind=bool(backlog) or load.at_bound,
        doubled=2 * load.workers if unknown else 0,
        certain=cost.certain,
    )


def _comfortable(cost: EpochCost, rate: float, workers: int, policy: Policy) -> bool:
    """Whether so many workers keep epochs well below what the latency target allows."""
    busy = cost.per_row * rate / workers
    if busy > policy.utilization:
        return False
    epoch_max = policy.latency_target / LATENCY_PER_EPOCH
    return (
        cost.fixed / (1 - busy) <= COMFORT * epoch_max if busy < 1 and cost.fixed < COMFORT * epoch_max else busy < 0.5
    )


def _no_effect(workers: int, need: _Need) -> str:
    return (
        f"{workers} workers stay: {need}, but the last growths brought less than {EFFECT_MIN:.0%} of the capacity expected. "
        "The source, the sink or one hot key is the limit"
    )
