"""The stored lists of a join during one epoch: chunks are read, rewritten, sealed and evicted.

`ListStore` owns the changes of one epoch. A chunk is *due* by its entry in the expiry index, which has

- for a side whose rows come out if they were never matched: the earliest expiry of its unmatched rows;
- otherwise the latest expiry of its rows. Rows that have expired are ignored when the chunk is read, and leave it when it is
  rewritten. A chunk is therefore not rewritten for each row that expires.

Rows that expired before this epoch are thus the ones at or before the previous watermark: a row that this epoch ends is not
written by it.

This module must never read a chunk twice in an epoch, nor delete one that is not stored.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from binshift import binary
from binshift.binary import BoolArray
from binshift.invariants import invariant
from binshift.model import IntArray
from binshift.operators.contract import STATE_SPACE, EpochContext, EpochState, prefixed
from binshift.operators.expiry import due, expiry_keys, indexed, whole_bins
from binshift.operators.join_chunks import HEAD, NEVER, Lists, Rows
from binshift.operators.join_plan import NO_ROWS, Chunks, Plan, chunks_of, plan_of, together, values_of
from binshift.operators.session_rows import Int64s

EVICTED_CHUNKS = 4096
"""Due chunks are evicted in whole bins of together about this many: small bins share the cost of a step."""

Names = tuple[IntArray, pa.BinaryArray]
"""Bins, ascending, and names of chunks."""


@dataclass
class ListStore:
    """The changes of one epoch.

    Attributes:
        outer: for each side, whether rows that were never matched come out.
        state: what is read and changed.
        context: the time.
    """

    outer: tuple[bool, bool]
    state: EpochState
    context: EpochContext
    _handled: list[Names] = field(default_factory=list)  # chunks that were due when they were read for their rows
    _heads: list[tuple[IntArray, pa.BinaryArray, pa.BinaryArray]] = field(
        default_factory=list
    )  # that have sealed chunks

    def read(self, lists: Lists, list: Int64s, number: Int64s) -> Chunks:
        """Read these chunks; a head can be absent."""
        values = self.state.get(lists.bins_of(list), prefixed(STATE_SPACE, lists.names(list, number)))
        invariant(bool((binary.valid(values) | (number == HEAD)).all()), "a sealed chunk of a head has no row")
        return chunks_of(list, number, values)

    def append(self, bins: IntArray, keys: pa.BinaryArray, side: Int64s, rows: Rows) -> None:
        """Store rows of keys without lists; each has its bin, its packed key and its side, and ``rows`` in the same order."""
        encoded = keys.dictionary_encode()
        number = encoded.indices.to_numpy().astype(np.int64)
        lists = Lists(bins[np.unique(number, return_index=True)[1]], encoded.dictionary)
        of = 2 * number + side
        order = np.argsort(of, kind="stable")
        heads = np.unique(of)
        chunks = chunks_of(heads, np.zeros_like(heads), pa.nulls(len(heads), pa.binary()))
        nothing = np.zeros(0, dtype=np.bool_)
        self.settle(lists, chunks, nothing, nothing, rows.take(order).renumbered(of[order]))

    def settle(self, lists: Lists, chunks: Chunks, matched: BoolArray, gone: BoolArray, added: Rows) -> Int64s:
        """Store what is left of these chunks, and added rows.

        Args:
            lists: the keys.
            chunks: what was read, with the head of every list to which rows are added or whose sealed chunks can end.
            matched: for each row, whether it is matched now.
            gone: the rows that leave before they expire.
            added: rows to append, with their lists in the place of chunks; none of them has expired.

        Returns:
            The positions of the rows of ``chunks`` that expire now and come out.
        """
        rows, end = chunks.rows, self.context.watermark_ms
        before = self._times(chunks.list, rows, rows.expiry > self.context.previous_watermark_ms)
        is_due, is_head = before <= end, chunks.number == HEAD
        bins, names = lists.bins_of(chunks.list[is_due]), lists.names(chunks.list[is_due], chunks.number[is_due])
        self._handled.append((bins, names))
        changed = is_head & np.isin(chunks.list, added.chunk)
        changed[rows.chunk[gone | (matched != rows.matched)]] = True
        affected = changed | is_due | (is_head & np.isin(chunks.list, chunks.numbers.list))
        after = Chunks(chunks.list, chunks.number, chunks.stored, replace(rows, matched=matched), chunks.numbers)
        stays = (~gone & (rows.expiry > end))[affected[rows.chunk]]
        plan = plan_of(after.only(affected), stays, added, changed[affected])
        self._write(lists, plan)
        self._index(lists, plan, before[affected])
        waits = ~matched & np.array(self.outer)[chunks.list[rows.chunk] & 1]
        return np.flatnonzero(waits & (rows.expiry > self.context.previous_watermark_ms) & (rows.expiry <= end))

    def evict(self) -> Iterator[tuple[Chunks, Int64s]]:
        """End the chunks that are due and were not read before; yields them with the positions of the rows that come out."""
        handled = _by_bin(self._handled)
        heads, values = _by_bin([head[:2] for head in self._heads]), _all([head[2] for head in self._heads])
        for bins, index_keys in whole_bins(due(self.state, self.context), EVICTED_CHUNKS):
            names = indexed(index_keys)
            within = slice(*np.searchsorted(handled[0], [bins[0], bins[-1] + 1]).tolist())
            new = pc.invert(pc.is_in(names, value_set=handled[1][within]))
            if not new.true_count:
                continue
            lists, list, number = Lists.of(bins[new.to_numpy(zero_copy_only=False)], names.filter(new))
            chunks = self.read(lists, list, number)
            within = slice(*np.searchsorted(heads[0], [bins[0], bins[-1] + 1]).tolist())
            chunks = together((chunks, self._heads_of(lists, chunks, heads[1][within], values[within])))
            nothing = np.zeros(len(chunks.rows.chunk), dtype=np.bool_)
            yield chunks, self.settle(lists, chunks, chunks.rows.matched, nothing, chunks.rows.take(NO_ROWS))

    def _heads_of(self, lists: Lists, chunks: Chunks, names: pa.BinaryArray, values: pa.BinaryArray) -> Chunks:
        """The heads of the lists of which a sealed chunk ends, as this epoch has left them."""
        rows = chunks.rows
        left = np.bincount(rows.chunk[rows.expiry > self.context.watermark_ms], minlength=len(chunks.list))
        list = np.unique(chunks.list[(left == 0) & (chunks.number != HEAD)])
        list = list[~np.isin(list, chunks.list[chunks.number == HEAD])]
        wanted = prefixed(STATE_SPACE, lists.names(list, np.zeros_like(list)))
        known = pc.index_in(wanted, value_set=names)
        unread = known.is_null()
        bins = lists.bins_of(list)[unread.to_numpy(zero_copy_only=False)]
        found = self.state.get(bins, wanted.filter(unread))
        at = known.to_numpy(zero_copy_only=False).astype(np.float64)
        place = np.where(np.isnan(at), len(values) + np.cumsum(np.isnan(at)) - 1, at).astype(np.int64)
        return chunks_of(list, np.zeros_like(list), pa.concat_arrays([values, found]).take(pa.array(place)))

    def _times(self, list: Int64s, rows: Rows, live: BoolArray) -> Int64s:
        """The time by which each chunk is in the index, by its live rows; never for a chunk without any."""
        latest, waiting = np.full(len(list), np.iinfo(np.int64).min), np.full(len(list), NEVER)
        np.maximum.at(latest, rows.chunk[live], rows.expiry[live])
        waits = live & ~rows.matched & np.array(self.outer)[list[rows.chunk] & 1]
        np.minimum.at(waiting, rows.chunk[waits], rows.expiry[waits])
        empty = np.bincount(rows.chunk[live], minlength=len(list)) == 0
        found: Int64s = np.where(empty, NEVER, np.where(waiting < NEVER, waiting, latest))
        return found

    def _write(self, lists: Lists, plan: Plan) -> None:
        """Put the values that differ."""
        bins, names = lists.bins_of(plan.list), prefixed(STATE_SPACE, lists.names(plan.list, plan.number))
        leads = (plan.number == HEAD) & np.isin(plan.list, plan.numbers.list)
        filled = leads | (np.bincount(plan.rows.chunk, minlength=len(plan.list)) > 0)
        ends = np.flatnonzero(plan.stored & ~filled)
        self.state.put(bins[ends], names.take(pa.array(ends)), pa.nulls(len(ends), pa.binary()))
        held = leads & self.context.watermark_moved  # eviction can need it
        at = np.flatnonzero((filled & plan.changed) | held)
        bins, names, values = bins[at], names.take(pa.array(at)), values_of(plan, at)
        differs, kept = pa.array(plan.changed[at]), pa.array(held[at])
        self.state.put(bins[plan.changed[at]], names.filter(differs), values.filter(differs))
        self._heads.append((bins[held[at]], names.filter(kept), values.filter(kept)))

    def _index(self, lists: Lists, plan: Plan, before: Int64s) -> None:
        """Move the entries of the index."""
        after = self._times(plan.list, plan.rows, np.ones(len(plan.rows.chunk), dtype=np.bool_))
        before = np.append(before, np.full(len(after) - len(before), NEVER))
        nothing = pa.scalar(b"", pa.binary())
        for times, value in ((before, pa.scalar(None, pa.binary())), (after, nothing)):
            at = np.flatnonzero((before != after) & (times != NEVER))
            names = lists.names(plan.list[at], plan.number[at])
            keys = expiry_keys(pa.array(times[at], pa.int64()), names)
            self.state.put(lists.bins_of(plan.list[at]), keys, pa.repeat(value, len(at)))


def _by_bin(parts: list[Names]) -> Names:
    bins = np.concatenate([np.empty(0, dtype=np.int32), *(bins for bins, _ in parts)])
    return bins, _all([names for _, names in parts])


def _all(parts: list[pa.BinaryArray]) -> pa.BinaryArray:
    return pa.chunked_array(parts, pa.binary()).combine_chunks()
