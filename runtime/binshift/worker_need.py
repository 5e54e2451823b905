"""How many workers a load needs under a policy: DS2's rule (Kalavri et al., OSDI 2018), and room for the latency target. Pure."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from binshift.epoch_costs import EpochCost
from binshift.errors import InvalidSettings
from binshift.load import Load
from binshift.pacing import LATENCY_PER_EPOCH

MEASURED_MIN = 8
"""Epochs before the first decision of a driver."""

LATENCY_TARGET_SECONDS = 1.0
"""What an autoscaler aims at where nothing else is given."""

PRESSURE = 1.1
"""Growing begins at 1.1 times the utilization aimed at: the rate of arriving rows is never quite steady."""

COMFORT = 0.8
"""An epoch is too long from this part on of what the latency target allows; after shrinking it takes less."""

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
    latency_target: float = LATENCY_TARGET_SECONDS
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

    @property
    def epoch_seconds(self) -> float:
        """The longest epoch with which the latency target is kept."""
        return self.latency_target / LATENCY_PER_EPOCH


@dataclass(frozen=True, slots=True)
class Need:
    """What a load needs, and the figures behind it.

    Attributes:
        cost: of an epoch.
        rate: rows per second that arrive.
        utilization: share of a worker's time that can be spent on rows.
        backlog: rows that wait, beyond those of ordinary epochs; None where no source knows.
        of_backlog: workers that work it off in time.
        too_long: the newest epoch took too long, and rows can be the reason.
        behind: rows wait.
        doubled: twice the present workers, where the source does not know how many rows wait; else 0.
        hottest: the share of the rows that one bin gets, of all; None where it is not known.
    """

    cost: EpochCost
    rate: float
    utilization: float
    backlog: int | None
    of_backlog: float
    too_long: bool
    behind: bool
    doubled: int
    hottest: float | None = None

    @property
    def of_load(self) -> float:
        """Workers that the arriving rows keep busy."""
        return self.cost.per_row * self.rate

    @property
    def workers(self) -> int:
        """How many are needed."""
        exact = self.of_load / self.utilization + self.of_backlog
        return max(1, math.ceil(exact - 1e-9), self.doubled)

    @property
    def useful(self) -> float:
        """How many workers can help at most: when one of them has only the hottest bin, others do not relieve it.

        >>> Need(EpochCost(0.1, 1e-5), 0.0, 0.7, None, 0.0, False, False, 0, hottest=0.6).useful
        2
        """
        return math.ceil(1 / self.hottest - 1e-9) if self.hottest else math.inf

    def helpful(self, workers: int) -> int:
        """How many workers are needed, but beyond ``workers`` only as far as more can help."""
        return int(min(self.workers, max(self.useful, workers)))

    def eased(self, relief: float) -> Need:
        """What is needed once a row costs ``relief`` times as much; 1: the same. How far that helps an unknown backlog has to be seen.

        >>> Need(EpochCost(0.1, 1e-4), 40_000.0, 0.7, None, 0.0, False, False, 4).eased(0.5).workers
        3
        """
        if relief == 1.0:
            return self
        cost = replace(self.cost, per_row=relief * self.cost.per_row)
        return replace(self, cost=cost, of_backlog=relief * self.of_backlog, doubled=0)

    def pressing(self, workers: int) -> bool:
        """Whether it shows that so many are too few."""
        busy = self.of_load / workers > PRESSURE * self.utilization
        return self.too_long or self.behind or (self.cost.certain and busy)

    def __str__(self) -> str:
        rows = f"{self.rate:,.0f} rows/s keep {self.of_load:.1f} busy, at {self.utilization:.0%} each"
        if self.doubled:
            return f"{rows}; epochs are at their bound, and the source does not know its backlog"
        return f"{rows}; a backlog of {self.backlog:,} rows needs {self.of_backlog:.1f}" if self.of_backlog else rows


def need_of(load: Load, policy: Policy) -> Need | None:
    """What a load needs; None before its cost and its rate are known."""
    cost, rate, seconds = load.cost, load.rows_per_second, load.epoch_seconds or 0.0
    if cost is None or rate is None or load.measured < MEASURED_MIN:
        return None
    epoch_max = policy.epoch_seconds
    # An epoch takes fixed / (1 - busy): above this share it is longer than the latency target allows.
    utilization = min(policy.utilization, max(1 - cost.fixed / epoch_max, LEAST_SHARE * policy.utilization))
    ordinary = rate * LATENCY_PER_EPOCH * max(seconds, cost.fixed)
    backlog = max(0, int(load.behind - ordinary)) if load.behind is not None else None
    unknown = load.at_bound and load.behind is None
    return Need(
        cost,
        rate,
        utilization,
        backlog,
        of_backlog=cost.per_row * (backlog or 0) / policy.catch_up_seconds,
        too_long=seconds > COMFORT * epoch_max and cost.fixed < epoch_max / 2,
        behind=bool(backlog) or load.at_bound,
        doubled=2 * load.workers if unknown else 0,
        hottest=None if load.hottest is None else load.hottest.share,
    )


def comfortable(need: Need, workers: int, policy: Policy) -> bool:
    """Whether so many workers keep epochs well below what the latency target allows."""
    busy, fixed, most = need.of_load / workers, need.cost.fixed, COMFORT * policy.epoch_seconds
    if busy > policy.utilization:
        return False
    return fixed / (1 - busy) <= most if busy < 1 and fixed < most else busy < 0.5
