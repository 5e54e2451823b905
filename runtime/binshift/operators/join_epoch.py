"""One epoch of a join: rows find their partners among stored and new rows, and are stored themselves.

A group of whole bins is taken in parts of some keys, so that the stored rows of a part fit in memory: first the heads of
their lists are read, then the sealed chunks of the lists that have new rows on the other side. Only the output of one
batch of pairs is in memory. The stored rows of one key are in memory together. `parts` reads only, and returns the same for the same rows and state.

It must never pack or copy a stored row that does not change.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from binshift.binary import BoolArray
from binshift.model import IntArray
from binshift.operators.contract import BIN_COLUMN, EpochContext
from binshift.operators.expiry import EXPIRY_COLUMN
from binshift.operators.grouping import number_runs
from binshift.operators.join_chunks import HEAD, NEVER, Lists, Rows
from binshift.operators.join_lists import ListStore
from binshift.operators.join_output import Output
from binshift.operators.join_pairs import LEFT, RIGHT, Candidates, Comparison, JoinType, Survivors, pairs, partners
from binshift.operators.join_plan import Chunks, together
from binshift.operators.session_rows import Int64s
from binshift.rows import RowCodec, of_type

SIDE_COLUMN = "__side"
"""Input column: 0 for a row of the left side, 1 for the right (int8)."""

MATCHES_COLUMN = "__matches"
"""Input column: whether a row fulfils the conditions on its own side; if not, it has no partner and is not stored."""

KEYS_AT_ONCE = 8192
"""Keys whose heads are read together."""

SEALED_AT_ONCE = 2048
"""Sealed chunks that are read together, of which a single key can have more."""


@dataclass(frozen=True)
class NewRows:
    """The rows of one side in this epoch, by key: the number of the key, the expiry, and whether a row can have partners.

    A row that fails a condition on its own side has none, and is not stored.
    """

    key: Int64s
    expiry: Int64s
    joins: BoolArray
    columns: pa.RecordBatch

    def between(self, first: int, stop: int, base: int = 0) -> NewRows:
        """The rows of some successive keys, which are then numbered from ``first - base``."""
        low, high = np.searchsorted(self.key, [first, stop]).tolist()
        some = slice(low, high)
        columns = self.columns.slice(low, high - low)
        return NewRows(self.key[some] - base, self.expiry[some], self.joins[some], columns)


@dataclass
class Side:
    """The candidates of one side: stored rows, by their positions, and then new ones; and which of them match."""

    stored: Int64s
    new: Int64s
    candidates: Candidates
    matched: BoolArray


@dataclass(frozen=True)
class Part:
    """The new rows of some keys and their stored partners.

    Attributes:
        lists: the keys.
        chunks: what was read of them.
        new: the new rows of both sides.
        sides: the candidates of both sides.
    """

    lists: Lists
    chunks: Chunks
    new: Sequence[NewRows]
    sides: Sequence[Side]

    def pairs(self, comparisons: Sequence[Comparison], rows_max: int) -> Iterator[tuple[Int64s, Int64s]]:
        """All pairs for which the comparisons hold; see `join_pairs.pairs`."""
        left, right = (side.candidates for side in self.sides)
        return pairs(left, right, len(self.lists.bins), comparisons, rows_max)


@dataclass(frozen=True)
class JoinEpoch:
    """Applies the rows of one epoch.

    Attributes:
        keys: packs keys.
        sides: packs rows of the left and the right side.
        type: the type of the join.
        comparisons: conditions on pairs.
        output: makes output rows.
        store: the lists.
        context: the time.
    """

    keys: RowCodec
    sides: tuple[RowCodec, RowCodec]
    type: JoinType
    comparisons: Sequence[Comparison]
    output: Output
    store: ListStore
    context: EpochContext

    def apply(self, group: pa.Table, survivors: Survivors | None = None) -> Iterator[pa.RecordBatch]:
        """Join and store the rows of whole bins.

        Args:
            group: the rows.
            survivors: of all pairs of the group, for which a further condition holds; None without one.
        """
        for part in self.parts(group):
            yield from self._join(part, survivors)

    def parts(self, group: pa.Table) -> Iterator[Part]:
        """Read what is stored for the rows of whole bins. Each part is to be settled before the next one is taken."""
        (batch,) = group.combine_chunks().to_batches()
        columns = [of_type(batch.column(key.name), key.type) for key in self.keys.schema]
        packed = self.keys.pack_columns(columns, batch.num_rows).dictionary_encode()
        number: Int64s = packed.indices.to_numpy().astype(np.int64)
        bins: IntArray = batch.column(BIN_COLUMN).to_numpy()[np.unique(number, return_index=True)[1]]
        order = np.argsort(number, kind="stable")
        side = batch.column(SIDE_COLUMN).to_numpy()[order]
        new = tuple(self._new(which, batch, number, order[side == which]) for which in (LEFT, RIGHT))
        for first in range(0, len(bins), KEYS_AT_ONCE):
            stop = min(first + KEYS_AT_ONCE, len(bins))
            lists = Lists(bins[first:stop], packed.dictionary[first:stop])
            yield from self._parts(lists, [each.between(first, stop, first) for each in new])

    def _new(self, side: int, batch: pa.RecordBatch, number: Int64s, at: Int64s) -> NewRows:
        """The rows of a side, which are at these positions."""
        rows, schema = pa.array(at), self.sides[side].schema
        expiry = batch.column(EXPIRY_COLUMN).fill_null(NEVER).to_numpy()[at]
        matches = batch.column(MATCHES_COLUMN).fill_null(False).to_numpy(zero_copy_only=False)[at]
        columns = [of_type(batch.column(each.name).take(rows), each.type) for each in schema]
        found = pa.RecordBatch.from_arrays(columns, schema=schema)
        return NewRows(number[at], expiry, matches, found)

    def _parts(self, lists: Lists, new: Sequence[NewRows]) -> Iterator[Part]:
        """The parts of some keys."""
        probed, touched = np.zeros((2, 2 * len(lists.bins)), dtype=np.bool_)
        for side, rows in enumerate(new):
            probed[2 * rows.key[rows.joins] + 1 - side] = True
            touched[2 * rows.key[self._storable(rows)] + side] = True
        wanted = np.flatnonzero(probed | touched)
        heads = self.store.read(lists, wanted, np.full(len(wanted), HEAD, dtype=np.int64))
        sealed = heads.numbers.only(probed[heads.numbers.list])
        before = np.cumsum(np.bincount(sealed.list >> 1, minlength=len(lists.bins))) // SEALED_AT_ONCE
        for first, stop in number_runs(before):
            some = sealed.only((sealed.list >= 2 * first) & (sealed.list < 2 * stop))
            which = (heads.list >= 2 * first) & (heads.list < 2 * stop)
            chunks = together((self.store.read(lists, some.list, some.number), heads.only(which)))
            yield self._part(lists, chunks, probed, [each.between(first, stop) for each in new])

    def _storable(self, rows: NewRows) -> BoolArray:
        """The rows to store if they do not match."""
        return rows.joins & (rows.expiry > self.context.watermark_ms)

    def _part(self, lists: Lists, chunks: Chunks, probed: BoolArray, new: Sequence[NewRows]) -> Part:
        """Rows with all of their stored partners."""
        found = chunks.rows
        usable = probed[chunks.list][found.chunk] & (found.expiry > self.context.previous_watermark_ms)
        side_of = (chunks.list & 1)[found.chunk]
        sides = [
            self._side(side, chunks, np.flatnonzero(usable & (side_of == side)), rows) for side, rows in enumerate(new)
        ]
        return Part(lists, chunks, new, sides)

    def _join(self, part: Part, survivors: Survivors | None) -> Iterator[pa.RecordBatch]:
        """Join the rows of a part, and store them."""
        yield from self._matches(part, survivors)
        chunks, found = part.chunks, part.chunks.rows
        matched, gone = found.matched.copy(), np.zeros(len(found.chunk), dtype=np.bool_)
        added, alone = [], []
        for side, (rows, each) in enumerate(zip(part.new, part.sides, strict=True)):
            of_stored, of_new = each.matched[: len(each.stored)], np.zeros(len(rows.key), dtype=np.bool_)
            of_new[each.new] = each.matched[len(each.stored) :]
            stays, outer = self._storable(rows), self.type.is_outer(side)
            if outer:
                matched[each.stored] |= of_stored
            elif self.type is JoinType.LEFT_SEMI and side == LEFT:
                gone[each.stored] = of_stored
                stays &= ~of_new
            added.append(self._packed(side, rows, np.flatnonzero(stays), of_new & outer))
            ends = ~rows.joins | (rows.expiry <= self.context.watermark_ms)
            alone.append(rows.columns.take(pa.array(np.flatnonzero(ends & ~of_new & outer))))
        out = self.store.settle(part.lists, chunks, matched, gone, Rows.concat(added))
        for side, columns in enumerate(alone):
            yield from self.output.alone(side, columns)
        yield from self.ended(chunks, out)

    def ended(self, chunks: Chunks, out: Int64s) -> Iterator[pa.RecordBatch]:
        """Output of stored rows that were never matched, by their positions."""
        side_of = (chunks.list & 1)[chunks.rows.chunk[out]]
        for side in (LEFT, RIGHT):
            packed = chunks.rows.packed.take(pa.array(out[side_of == side]))
            yield from self.output.alone(side, self.sides[side].unpack(packed))

    def _side(self, side: int, chunks: Chunks, stored: Int64s, rows: NewRows) -> Side:
        new = np.flatnonzero(rows.joins)
        unpacked = self.sides[side].unpack(chunks.rows.packed.take(pa.array(stored)))
        columns = pa.concat_batches([unpacked, rows.columns.take(pa.array(new))])
        key = np.concatenate((chunks.list[chunks.rows.chunk[stored]] >> 1, rows.key[new]))
        is_new = np.arange(len(key)) >= len(stored)
        return Side(stored, new, Candidates(key, is_new, columns), np.zeros(len(key), dtype=np.bool_))

    def _matches(self, part: Part, survivors: Survivors | None) -> Iterator[pa.RecordBatch]:
        """Mark the rows that match; output of all pairs, or of the left rows."""
        sides = part.sides
        left, right = (side.candidates for side in sides)
        if self.type is JoinType.LEFT_SEMI and not self.comparisons and survivors is None:
            order = np.argsort(left.key, kind="stable")
            sides[LEFT].matched[order] = partners(left, right, len(part.lists.bins))[1] > 0
        else:
            shown = [self.output.shown(side, each.columns) for side, each in enumerate((left, right))]
            for found in part.pairs(self.comparisons, self.output.rows_max(shown)):
                at = found if survivors is None else survivors.among(found)
                if not len(at[LEFT]):
                    continue
                for side, rows in zip(sides, at, strict=True):
                    side.matched[rows] = True
                if self.type is not JoinType.LEFT_SEMI:
                    lefts, rights = (side.take(pa.array(rows)) for side, rows in zip(shown, at, strict=True))
                    yield self.output.rows(lefts, rights)
        if self.type is JoinType.LEFT_SEMI:
            order = np.argsort(left.key, kind="stable")
            yield from self.output.alone(LEFT, left.columns.take(pa.array(order[sides[LEFT].matched[order]])))

    def _packed(self, side: int, rows: NewRows, at: Int64s, matched: BoolArray) -> Rows:
        """Rows to store, with their lists in the place of chunks."""
        packed = self.sides[side].pack(rows.columns.take(pa.array(at)))
        return Rows(2 * rows.key[at] + side, rows.expiry[at], matched[at], packed)
