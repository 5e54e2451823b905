"""How loaded a dataflow is, and its hot keys, as answers.

The text of a key is users' data: it is in these answers, which need the token, and never in a log or a label of a metric.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from pydantic import Field

from binshift import load
from binshift.control.answer import Answer
from binshift.hotkeys import HotKey as NamedKey
from binshift.load import Hottest
from binshift.operators.contract import KEYLESS_BIN


class Load(Answer):
    """How loaded a dataflow is; see `binshift.load`. Rows are those read from the sources, before the program filters them."""

    at: float = Field(description="When it was measured, in seconds since 1970.")
    epochs_measured: int
    fixed_seconds: float | None = Field(description="Part of an epoch that its rows do not change.")
    seconds_per_row: float | None = Field(description="Of a worker.")
    certain: bool = Field(description="Whether epochs of different sizes have shown which part is fixed.")
    arriving_rows_per_second: float | None
    backlog_rows: int | None = Field(
        description="Rows the sources have beyond those taken; null where no source knows."
    )
    bound_rows: int | None = Field(description="Rows that an epoch can take at most; null: no bound.")
    at_bound: bool = Field(description="Whether the newest epochs took as much as they were allowed to.")
    epoch_seconds: float | None
    workers: int = Field(description="That own bins.")
    capacity_rows_per_second: float | None = Field(description="With all workers busy all the time.")
    hottest_bin_share: float | None = Field(
        default=None, description="Of the records, that of the bin with most of them; null while too few were counted."
    )
    hottest_bin_key: str = Field(default="", description="The hot key of that bin; empty if none is known.")


class HotKey(Answer):
    """A key with more than half of the records that each worker would have if all had the same number; see `binshift.hotkeys`."""

    operator: str
    key: str = Field(description="As text of at most 128 characters; a window of event time is the text `window`.")
    bin: int = Field(description="Where it was last.")
    worker: int = Field(description="Likewise.")
    share: float = Field(description="Of the operator's records.")
    rows_per_second: float | None = Field(description="Estimate of the source's records that have this key.")


def load_shown(found: load.Load) -> Load:
    """The load as an answer."""
    cost, hottest = found.cost, found.hottest
    return Load(
        at=found.at,
        epochs_measured=found.measured,
        fixed_seconds=cost.fixed if cost else None,
        seconds_per_row=cost.per_row if cost else None,
        certain=cost.certain if cost else False,
        arriving_rows_per_second=found.rows_per_second,
        backlog_rows=found.behind,
        bound_rows=found.bound,
        at_bound=found.at_bound,
        epoch_seconds=found.epoch_seconds,
        workers=found.workers,
        capacity_rows_per_second=found.capacity,
        hottest_bin_share=hottest.share if hottest else None,
        hottest_bin_key=hottest.key if hottest else "",
    )


def hot_keys_shown(named: Sequence[NamedKey], records_per_second: float | None) -> list[HotKey]:
    """Hot keys as answers; ``records_per_second``: that reach all operators."""
    return [
        HotKey(
            operator=each.operator,
            key=each.key,
            bin=each.bin,
            worker=each.worker,
            share=each.share,
            rows_per_second=None if records_per_second is None else each.share_of_all * records_per_second,
        )
        for each in named
    ]


def hottest_of(counts: npt.NDArray[np.float64], named: Sequence[NamedKey], reaching: float = 1.0) -> Hottest | None:
    """The bin with most records, by those counted; None if too few were, or if operators have no keys.

    All workers read and filter rows, whatever bins they have: rows that a filter drops are not a bin's, and without keys
    what is left for the one bin says nothing of that work.

    Args:
        counts: records by bin.
        named: hot keys.
        reaching: the share of the source's rows that reach operators.

    >>> hottest_of(np.array([1.0, 3.0]), []), hottest_of(np.array([1.0, 3.0]), [], 0.1)
    (Hottest(share=0.75, key=''), Hottest(share=0.075, key=''))
    >>> hottest_of(np.array([9.0, 0.0]), []) is None
    True
    """
    total, hottest = counts.sum(), int(counts.argmax())
    if not total or (hottest == KEYLESS_BIN and counts[hottest] == total):
        return None
    key = next((each.key for each in named if each.bin == hottest), "")
    return Hottest(round(float(counts[hottest] / total) * reaching, 9), key)
