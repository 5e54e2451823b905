"""How many workers a load needs under a policy: DS2's rule (Kalavri et al., OSDI 2018), and room for the latency target. Pure."""

from __future__ import annotations

import math
from dataclasses import dataclass

from binshift.epoch_costs import EpochCost
from binshift.errors import InvalidSettings
from binshift.load import Load

LATENCY_PER_EPOCH = 2.0
"""A record that is due just after an epoch has begun waits for that one and then for its own."""

PRESSURE = 1.1
"""Growing begins at 1.1 times the utilization aimed at: the rate of arriving rows is never quite steady."""

COMFORT = 0.8
"""After shrinking, an epoch takes at most this part of what it can take, and workers are busy at most this part of what they can be."""

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


@dataclass(frozen=True, slots=True)
class Need:
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
        """How many that are."""
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


def need_of(load: Load, cost: EpochCost, policy: Policy) -> Need:
    """What a load needs with epochs of that cost."""
    rate, seconds = load.rows_per_second or 0.0, load.epoch_seconds or 0.0
    epoch_max = policy.latency_target / LATENCY_PER_EPOCH
    # An epoch takes fixed / (1 - busy): above this share it is longer than the latency target allows.
    utilization = min(policy.utilization, max(1 - cost.fixed / epoch_max, LEAST_SHARE * policy.utilization))
    ordinary = rate * LATENCY_PER_EPOCH * max(seconds, cost.fixed)
    backlog = max(0, int(load.behind - ordinary)) if load.behind is not None else None
    unknown = load.at_bound and load.behind is None
    return Need(
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


def comfortable(cost: EpochCost, rate: float, workers: int, policy: Policy) -> bool:
    """Whether so many workers keep epochs well below what the latency target allows."""
    busy = cost.per_row * rate / workers
    if busy > policy.utilization:
        return False
    epoch_max = policy.latency_target / LATENCY_PER_EPOCH
    return (
        cost.fixed / (1 - busy) <= COMFORT * epoch_max if busy < 1 and cost.fixed < COMFORT * epoch_max else busy < 0.5
    )
