"""Rows by time that are due: timers, and the ends of what has a time to live.

The cost is that of what is due and of what the epoch has changed: only bins whose first row is due are opened
(`binshift.operators.first_times`), and the epoch's own changes are searched in Arrow.
"""

from __future__ import annotations

import pyarrow.compute as pc

from binshift import entries
from binshift.model import BinSet
from binshift.operators.contract import EpochState
from binshift.operators.expiry import expiry_bytes
from binshift.operators.first_times import FirstTimes

Row = tuple[int, bytes]
"""A bin, and the key of a row in it."""


def due_rows(state: EpochState, index: FirstTimes, owned: BinSet, threshold_ms: int) -> list[Row]:
    """The rows of an index whose time is at or before a threshold, as they are now: by bin, and there by time.

    Args:
        state: of the epoch.
        index: what is known of the rows before the epoch.
        owned: the bins to search.
        threshold_ms: milliseconds since 1970.
    """
    start, stop = index.space, index.space + expiry_bytes(threshold_ms + 1)
    found: dict[Row, bool] = {}
    for part in state.scan_bins(index.before(state.reader, owned, threshold_ms + 1), start, stop):
        rows = zip(entries.bins_array(part).tolist(), part.column("key").to_pylist(), strict=True)
        found.update(dict.fromkeys(rows, True))
    for change in state.changes:
        keys = change.column("key")
        within = change.filter(pc.and_(pc.starts_with(keys, pattern=start), pc.less(keys, stop)))
        if within.num_rows:
            bins, present = entries.bins_array(within).tolist(), within.column("value").is_valid().to_pylist()
            found.update(zip(zip(bins, within.column("key").to_pylist(), strict=True), present, strict=True))
    return sorted(row for row, present in found.items() if present)
