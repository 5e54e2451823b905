"""Makes the answers about the load and hot keys of what was measured."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from binshift import load
from binshift.control.load_figures import HotKey, Load
from binshift.hotkeys import HotKey as NamedKey
from binshift.load import Hottest
from binshift.operators.contract import KEYLESS_BIN


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
        skew=found.skew.now if found.skew else None,
        skew_rebalanced=found.skew.balanced if found.skew else None,
    )


def joint_load(answers: Sequence[Load | None]) -> Load | None:
    """The load of several queries as one answer; see `binshift.load.together`."""
    known = [load.load_of_answer(each.model_dump(by_alias=True)) for each in answers if each is not None]
    found = load.together(known)
    return None if found is None else load_shown(found)


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
    """The bin with most rows behind the exchange, by those counted; None if too few were, or if operators have no keys.

    All workers read and filter rows, whatever bins they have: rows that a filter drops are not a bin's, and without keys
    the one bin has only what is left of that work.

    Args:
        counts: by bin.
        named: hot keys.
        reaching: rows behind the exchange, per row of the source: of the rest of the work all workers have a share.

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
