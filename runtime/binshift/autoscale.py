"""How many workers a dataflow should have: one decision, from measured load.

A rescale costs no pause here, so that decisions can be early and small: growing is decided with the first epochs that are too long,
shrinking when fewer workers have been enough for a while. The rule is DS2's (Kalavri et al., OSDI 2018): what a row costs, times the
rows that arrive, is the number of workers that are busy; a backlog adds what works it off in a given time. The caller carries
decisions out and asks again; times are arguments, no clock is read.

| observed | decision |
|---|---|
| the cost of a row is not known yet | none: `MEASURING` |
| more is needed than there is, and it shows (utilization, backlog, a long epoch) | grow at once: `LOAD`, `BACKLOG` |
| the same, but the present workers are enough once they share the bins by load (`binshift.skew`) | rebalance first: `REBALANCE` |
| the last two growths brought next to nothing | none: `INEFFECTIVE` |
| there are as many workers as the hottest bin allows (`Need.useful`) | none: `INEFFECTIVE` |
| fewer were enough all through `Policy.stabilization_seconds`, and nothing waits | shrink: `SPARE` |
| none of these | none: `STEADY` |
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass, field, replace
from enum import StrEnum

from binshift.epoch_costs import NEWEST, EpochCost
from binshift.load import Load
from binshift.worker_need import LATENCY_TARGET_SECONDS, Need, Policy, comfortable, need_of

UP_SECONDS = 10.0
"""At least so long between two growths, while the new workers start."""

RAISE = 1.25
"""Until the new workers run, a growth is raised if that much more is needed: the backlog grows meanwhile."""

EFFECT_MIN = 0.1
EFFECT_TRIES = 2
EFFECT_SECONDS = 1800.0
"""Growing stops for half an hour after two growths that brought less than a tenth of the capacity expected."""

REBALANCE_SECONDS = 300.0
"""At least so long between two rebalances: where one has not helped, or not for long, workers are added."""

HOT_SECONDS = 300.0
"""So long after it was the limit, the hottest bin is still given as the reason: a load near the limit would have another one each second."""


def recommended_workers(load: Load, latency_target: float | None) -> int | None:
    """How many workers a load needs, without a range and without regard to the past, for an autoscaler that has rules of its own.

    None before it is known. As long as nothing shows that the present number is too small, it is not more than that.
    """
    need = need_of(load, Policy(1, 1, latency_target or LATENCY_TARGET_SECONDS))
    if need is None:
        return None
    return need.helpful(load.workers) if need.pressing(load.workers) else min(need.workers, load.workers)


class Reason(StrEnum):
    """Why a number of workers is wanted; a closed list, usable as a condition's reason."""

    MEASURING = "Measuring"
    STEADY = "Steady"
    LOAD = "Load"
    BACKLOG = "Backlog"
    REBALANCE = "Rebalance"
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
        rebalance: the workers should share the bins by load now.
    """

    workers: int
    recommended: int
    limited: bool
    reason: Reason
    message: str
    rebalance: bool = False


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
    _hot_at: float = -math.inf
    _rebalanced_at: float = -math.inf
    _relief: float = 1.0
    """What a row will cost after the last decision, as a part of what it did, until that is measured."""

    def decide(self, load: Load, workers: int, *, settled: bool) -> Decision:
        """The number of workers from now on.

        Args:
            load: as measured now.
            workers: how many are wanted so far.
            settled: they all own bins, and nothing moves.
        """
        kept, need = self._within(workers), need_of(load, self.policy)
        if need is None:
            return Decision(kept, kept, False, Reason.MEASURING, f"{load.measured} epochs have been measured")
        wanted = self._within(need.helpful(workers))
        self._remember(load.at, wanted)
        self._measure_growth(load, need.cost, workers, settled=settled)
        limited = self._within(need.workers) != need.workers
        if need.useful < need.workers and need.pressing(workers):
            self._hot_at = load.at
        more = self._more(load, need, workers, settled=settled)
        if more is not None:
            return more
        fewer = self._fewer(load, need, workers, settled=settled)
        if fewer is not None:
            self._down_at, self._growth = load.at, None
            return Decision(fewer, wanted, limited, Reason.SPARE, f"{workers} to {fewer} workers: {need}")
        if need.useful <= kept and load.at - self._hot_at < HOT_SECONDS:
            message = f"{kept} workers stay: {need}, but {_hottest(need)}"
            return Decision(kept, wanted, limited, Reason.INEFFECTIVE, message)
        return Decision(kept, wanted, limited, Reason.STEADY, str(need))

    def _more(self, load: Load, need: Need, workers: int, *, settled: bool) -> Decision | None:
        """More workers, or another distribution of the bins; None if neither is due."""
        unmeasured = settled and self._growth is not None
        present = workers if settled else RAISE * workers
        if unmeasured or need.workers <= present or workers > self.policy.most or not need.pressing(workers):
            return None
        wanted, limited = self._within(need.helpful(workers)), self._within(need.workers) != need.workers
        awaited = self._relief < 1.0
        relief = self._relief if awaited else self._possible_relief(load, settled=settled)
        eased = need.eased(relief)
        enough = self._within(eased.helpful(workers))
        if relief < 1.0 and self._growth is None and enough <= (RAISE * workers if awaited else workers):
            return self._rebalanced(load, need, eased, Decision(workers, wanted, limited, Reason.REBALANCE, ""))
        if enough <= present or load.at - self._up_at < UP_SECONDS:
            return None
        if load.at - self._ineffective_at < EFFECT_SECONDS:
            return Decision(workers, wanted, limited, Reason.INEFFECTIVE, _no_effect(workers, need))
        self._up_at, self._growth, self._relief = load.at, self._growth or (workers, need.cost.per_row), relief
        reason = Reason.BACKLOG if need.of_backlog > need.of_load else Reason.LOAD
        hot = f"; {_hottest(need)}" if need.useful < need.workers else ""
        message = f"{workers} to {enough} workers: {need}{_eased(load, eased, relief)}{hot}"
        return Decision(enough, enough, limited, reason, message)

    def _possible_relief(self, load: Load, *, settled: bool) -> float:
        """What a row will cost once the bins are shared by load, as a part of what it does; 1 if that is not to be tried now."""
        if load.skew is None or not settled or load.at - self._rebalanced_at < REBALANCE_SECONDS:
            return 1.0
        return load.skew.relief

    def _rebalanced(self, load: Load, need: Need, eased: Need, found: Decision) -> Decision:
        """The decision to rebalance, or to wait for the effect of the last one."""
        if self._relief < 1.0:
            return replace(
                found, message=f"{found.workers} workers stay: {need}; the effect of a rebalance is measured"
            )
        assert load.skew is not None
        self._rebalanced_at, self._settled_at, self._relief = load.at, None, load.skew.relief
        message = f"{found.workers} workers share the bins by load: {need}{_eased(load, eased, self._relief)}"
        return replace(found, message=message, rebalance=True)

    def _within(self, workers: int) -> int:
        return min(max(workers, self.policy.least), self.policy.most)

    def _remember(self, now: float, wanted: int) -> None:
        self._needed.append((now, wanted))
        while self._needed[0][0] < now - self.policy.stabilization_seconds:
            self._needed.popleft()

    def _measure_growth(self, load: Load, cost: EpochCost, workers: int, *, settled: bool) -> None:
        """What the last decision has brought, once enough epochs with all its workers were measured."""
        if not settled:
            self._settled_at = None
        elif self._settled_at is None or load.measured < self._settled_at:  # a new driver has measured less
            self._settled_at = load.measured
        if self._settled_at is None or load.measured < self._settled_at + NEWEST:
            return
        self._relief = 1.0
        if self._growth is None:
            return
        (before, per_row), self._growth = self._growth, None
        expected = workers / before - 1
        achieved = (workers * per_row) / (before * cost.per_row) - 1 if cost.per_row else expected
        self._without_effect = self._without_effect + 1 if achieved < EFFECT_MIN * expected else 0
        if self._without_effect >= EFFECT_TRIES:
            self._without_effect, self._ineffective_at = EFFECT_TRIES - 1, load.at

    def _fewer(self, load: Load, need: Need, workers: int, *, settled: bool) -> int | None:
        """How many workers are enough; None if no fewer, or if that is not certain yet."""
        policy = self.policy
        since = load.at - policy.stabilization_seconds
        changed, unknown = max(self._up_at, self._down_at) > since, self._needed[0][0] > since + UP_SECONDS
        if not settled or load.at_bound or changed or unknown:
            return None
        enough = max(needed for _, needed in self._needed)
        fewer = max(enough, workers - max(1, int(workers * policy.down_share)), policy.least)
        while fewer < workers and not comfortable(need, fewer, policy):
            fewer += 1
        return fewer if fewer < workers else None


def _eased(load: Load, eased: Need, relief: float) -> str:
    """What a rebalance changes; empty if nothing."""
    if load.skew is None or relief == 1.0:
        return ""
    now, then = f"{load.skew.now:.2g}", f"{load.skew.balanced:.2g}"
    return f"; the busiest has {now} times its share of the rows, {then} times after a rebalance, and then {eased.of_load:.1f} are busy"


def _hottest(need: Need) -> str:
    return f"one bin has {100 * (need.hottest or 0):.2g}% of the rows: more workers than {need.useful} do not help"


def _no_effect(workers: int, need: Need) -> str:
    return (
        f"{workers} workers stay: {need}, but the last growths brought less than {EFFECT_MIN:.0%} of the capacity expected. "
        "The source, the sink or one hot key is the limit"
    )
