"""The state of a worker's bins as this epoch leaves it: the stored rows under the epoch's changes, in order.

This module serves operators that emit all of their state. Stored rows are read in bounded batches, and the output is cut by
size, so that memory is bounded by the epoch's changes, which are held anyway, and one batch. Rows come by (bin, key), the
order of the store, whichever worker owns a bin; small bins share a batch.

It must never read a bin that the task does not own.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow.compute as pc

from binshift import entries
from binshift.entries import Entries
from binshift.model import Bin, BinSet
from binshift.operators.contract import EpochState

BATCH_BYTES_MAX = 4 << 20
"""Bytes of rows in one batch, of which a single row may be larger; a batch has rows of many bins, because its cost is fixed."""


def current(
    state: EpochState, owned: BinSet, space: bytes, batch_bytes_max: int = BATCH_BYTES_MAX
) -> Iterator[Entries]:
    """The rows of a space in the owned bins, after the changes so far, ascending by (bin, key).

    Args:
        state: the state before this epoch, and its changes.
        owned: the bins to read.
        space: the first byte of the keys.
        batch_bytes_max: the size at which a batch is cut, in bytes.
    """
    changes = entries.merge_last_wins(state.changes)
    changes = changes.filter(pc.starts_with(changes.column("key"), pattern=space))
    held: list[Entries] = []
    size, done = 0, 0
    for bin in owned:
        for rows in state.scan(bin, space, bytes([space[0] + 1])):
            held.append(rows)
            size += entries.size_bytes(rows)
            if size >= batch_bytes_max:
                upto = _position_after(changes, bin, rows.column("key")[-1].as_py())
                yield from _overlaid(held, changes.slice(done, upto - done), batch_bytes_max)
                held, size, done = [], 0, upto
    yield from _overlaid(held, changes.slice(done), batch_bytes_max)


def _overlaid(stored: Sequence[Entries], changes: Entries, bytes_max: int) -> Iterator[Entries]:
    """The stored rows under the changes of the same range of rows."""
    rows = entries.merge_last_wins([*stored, changes])
    yield from entries.cut(rows.filter(rows.column("value").is_valid()), bytes_max)


def _position_after(rows: Entries, bin: Bin, key: bytes) -> int:
    """The number of rows up to (bin, key); the rows are sorted."""
    start, stop = np.searchsorted(entries.bins_array(rows), [bin, bin + 1]).tolist()
    keys = rows.column("key")
    return bisect_right(range(len(keys)), key, start, stop, key=lambda at: keys[at].as_py())
