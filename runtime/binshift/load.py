"""How loaded a dataflow is: what arrives, what waits, and what the workers can take. Pure: epochs are arguments, no clock is read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from binshift.epoch_costs import EpochCost, EpochCosts, EpochLoad
from binshift.skew import Skew

RATE_SECONDS = (0.0, 2.0, 10.0)
"""Windows over which arriving rows are counted, the first one the newest epoch alone; the largest rate counts, so that a rise shows soon."""

RATE_SECONDS_MIN = 0.3
"""Shorter windows show mostly noise."""

KEY_CHARACTERS_MAX = 128
"""Of a key in an answer."""

IDLE_SECONDS = 2.0
"""A stream without an epoch for so long has no input."""

AT_BOUND = 0.9
AT_BOUND_EPOCHS = 2
"""An epoch is at its bound with nine tenths of its rows (files are not divided); one such epoch can be chance."""


@dataclass(frozen=True, slots=True)
class Hottest:
    """The bin that gets most rows: more workers than 1 / ``share`` cannot help. A bin is on one worker.

    Attributes:
        share: of all rows behind the exchange, above 0.
        key: the hot key that is the reason; empty if none is known. It is users' data.
    """

    share: float
    key: str = ""


@dataclass(frozen=True, slots=True)
class Load:
    """How loaded a dataflow is.

    Attributes:
        at: when, in seconds since 1970.
        cost: of its epochs; None before it is known.
        measured: epochs behind that.
        rows_per_second: that arrive at the sources; None before two epochs.
        behind: rows that the sources have beyond those taken; None where no source knows.
        bound: rows that the newest epoch was allowed to take; None: no bound.
        at_bound: whether the newest epochs took as much as they were allowed to.
        epoch_seconds: of the newest epoch; None before one.
        workers: that own bins.
        hottest: the bin with most rows; None before enough were counted.
        skew: of the workers' rows; likewise.
    """

    at: float
    cost: EpochCost | None
    measured: int
    rows_per_second: float | None
    behind: int | None
    bound: int | None
    at_bound: bool
    epoch_seconds: float | None
    workers: int
    hottest: Hottest | None = None
    skew: Skew | None = None

    @property
    def capacity(self) -> float | None:
        """Rows per second with all workers busy all the time; None before the cost is known."""
        return self.workers / self.cost.per_row if self.cost and self.cost.per_row > 0 else None


def load_of(epochs: Sequence[EpochLoad], costs: EpochCosts, now: float) -> Load:
    """The load as the newest epochs show it; ``now``: seconds since 1970."""
    if not epochs:
        return Load(now, costs.cost, costs.measured, None, None, None, at_bound=False, epoch_seconds=None, workers=1)
    newest = epochs[-1]
    rates = [rate for seconds in RATE_SECONDS if (rate := _arriving(epochs, now - seconds, now)) is not None]
    recent = epochs[-AT_BOUND_EPOCHS:]
    at_bound = all(each.bound is not None and each.total >= AT_BOUND * each.bound for each in recent)
    rate = max(rates, default=None)
    figures = (costs.cost, costs.measured, rate, newest.behind, newest.bound, at_bound, newest.seconds)
    return Load(now, *figures, newest.workers)


def together(loads: Sequence[Load]) -> Load | None:
    """The load of several queries on the same workers, as that of one; None if none is measured.

    Its rows are those of all queries, at their mean cost, so that they need as many workers as the rows of each query together. A query
    that has not been measured yet adds nothing.

    >>> cheap, dear = (Load(1.0, EpochCost(0.1, cost, True), 9, 100.0, 0, None, False, 0.2, 2) for cost in (0.001, 0.003))
    >>> both = together([cheap, dear])
    >>> both.rows_per_second, round(both.cost.per_row * both.rows_per_second, 3)
    (200.0, 0.4)
    """
    known = [(each, each.cost) for each in loads if each.cost is not None]
    if not known:
        return next(iter(loads), None)
    rates = [each.rows_per_second or 0.0 for each, _ in known]
    works = [cost.per_row * rate for (_, cost), rate in zip(known, rates, strict=True)]
    rate, work = sum(rates), sum(works)
    per_row = work / rate if rate else sum(cost.per_row for _, cost in known) / len(known)
    behind = [each.behind * cost.per_row for each, cost in known if each.behind is not None]
    bounds = [each.bound for each, _ in known if each.bound is not None]
    hottest = [
        Hottest(each.hottest.share * part / work, each.hottest.key)
        for (each, _), part in zip(known, works, strict=True)
        if each.hottest is not None and part
    ]
    return Load(
        at=max(each.at for each, _ in known),
        cost=EpochCost(max(cost.fixed for _, cost in known), per_row, all(cost.certain for _, cost in known)),
        measured=min(each.measured for each, _ in known),
        rows_per_second=None if all(each.rows_per_second is None for each, _ in known) else rate,
        behind=round(sum(behind) / per_row) if behind and per_row else 0 if behind else None,
        bound=sum(bounds) if bounds else None,
        at_bound=any(each.at_bound for each, _ in known),
        epoch_seconds=max((each.epoch_seconds for each, _ in known if each.epoch_seconds is not None), default=None),
        workers=max(each.workers for each, _ in known),
        hottest=max(hottest, key=lambda each: each.share, default=None),
        skew=_skew_together([(each.skew, part) for (each, _), part in zip(known, works, strict=True)]),
    )


def _skew_together(parts: Sequence[tuple[Skew | None, float]]) -> Skew | None:
    """That of several queries, by what each keeps busy, as if the same worker were the busiest of all."""
    work = sum(part for _, part in parts)
    if not work or all(skew is None for skew, _ in parts):
        return None
    found = [(skew or Skew(1.0, 1.0), part / work) for skew, part in parts]
    return Skew(sum(skew.now * part for skew, part in found), sum(skew.balanced * part for skew, part in found))


def load_of_answer(answer: Mapping[str, Any]) -> Load:
    """The load in an answer of the control API, by the names in its JSON.

    Raises:
        KeyError, TypeError, ValueError: it has another format.
    """
    fixed, per_row = answer["fixedSeconds"], answer["secondsPerRow"]
    share, skew = answer.get("hottestBinShare"), answer.get("skew")  # an older driver does not send them
    cost = None if fixed is None or per_row is None else EpochCost(fixed, per_row, answer["certain"])
    return Load(
        at=float(answer["at"]),
        cost=cost,
        measured=int(answer["epochsMeasured"]),
        rows_per_second=answer["arrivingRowsPerSecond"],
        behind=answer["backlogRows"],
        bound=answer["boundRows"],
        at_bound=answer["atBound"],
        epoch_seconds=answer["epochSeconds"],
        workers=int(answer["workers"]),
        hottest=Hottest(float(share), str(answer.get("hottestBinKey") or "")[:KEY_CHARACTERS_MAX]) if share else None,
        skew=Skew(float(skew), float(answer.get("skewRebalanced") or skew)) if skew else None,
    )


def _arriving(epochs: Sequence[EpochLoad], since: float, now: float) -> float | None:
    """Rows per second that came since then: those taken, and those by which the sources are further behind; None if not known.

    An epoch takes what came until it began, so that rows are counted from one beginning to another. The newest epoch always counts.
    """
    first = next((at for at, each in enumerate(epochs) if each.ended > since), len(epochs))
    first = min(max(first, 1), len(epochs) - 1)
    before, inside = epochs[first - 1], epochs[first:]
    idle = now - inside[-1].ended if inside else 0.0
    seconds = inside[-1].began - before.began + (idle if idle > IDLE_SECONDS else 0.0) if first else 0.0
    if seconds < RATE_SECONDS_MIN:
        return None
    behind = (inside[-1].behind or 0) - (before.behind or 0)
    return max(0.0, (sum(each.total for each in inside) + behind) / seconds)
