"""One epoch of an aggregation by session: stored sessions are read, merged with the rows, written and evicted.

A group of whole bins is applied at once, with two
reads: the directories of its keys, then their sessions. A session whose end the watermark has reached is not stored; eviction
therefore meets only sessions of keys without rows in this epoch.

It must never delete a row that does not exist, nor read a key after this epoch has changed it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from binshift.binary import BoolArray
from binshift.model import IntArray
from binshift.operators.contract import BIN_COLUMN, STATE_SPACE, EpochContext, EpochState, prefixed
from binshift.operators.expiry import due, expiry_keys, indexed, whole_bins
from binshift.operators.merge import MergeSpec, merge
from binshift.operators.session_codec import (
    DIRECTORY_SPACE,
    SESSION_END_COLUMN,
    SESSION_START_COLUMN,
    SessionCodec,
    key_of,
    ms_of,
    named,
    start_of,
)
from binshift.operators.session_rows import Int64s, directories, entries_of, fold, joined, runs
from binshift.rows import of_type

EVICTED_ROWS_MAX = 1 << 16
"""Rows of whole bins that are evicted together: a bin alone has too few to pay for its Arrow calls."""


@dataclass
class _Sessions:
    """Sessions of some keys: the number of each one's key, its times and its buffers."""

    key: Int64s
    start: Int64s
    end: Int64s
    buffers: pa.RecordBatch

    def only(self, which: BoolArray) -> _Sessions:
        """Some of them."""
        rows = pa.array(np.flatnonzero(which))
        return _Sessions(self.key[which], self.start[which], self.end[which], self.buffers.take(rows))


@dataclass
class SessionEpoch:
    """The changes of one epoch.

    Attributes:
        codec: the form of the rows.
        merges: how buffers are merged.
        evicts: whether sessions end, that is, whether the mode is append.
        state: what is read and changed.
        context: the time.
    """

    codec: SessionCodec
    merges: tuple[MergeSpec, ...]
    evicts: bool
    state: EpochState
    context: EpochContext
    _handled: list[pa.BinaryArray] = field(default_factory=list)  # stored sessions with touched keys that end

    def apply(self, group: pa.Table) -> Iterator[pa.RecordBatch]:
        """Merge the rows of whole bins with the stored sessions of their keys; emit the sessions that end."""
        (batch,) = group.combine_chunks().to_batches()
        columns = [of_type(batch.column(key.name), key.type) for key in self.codec.keys.schema]
        number, keys, first = numbered(self.codec.keys.pack_columns(columns, batch.num_rows))
        bins: IntArray = batch.column(BIN_COLUMN).to_numpy()[first]
        found = self.state.get(bins, prefixed(DIRECTORY_SPACE, keys))
        stored = self._stored(bins, keys, found)
        sessions, rows, whole = self._merged(stored, self._rows(batch, number))
        over = self._over(sessions.end)
        gone = stored.only(((rows > 0) | over)[whole])
        names = self._delete(bins[gone.key], keys.take(pa.array(gone.key)), gone)
        self._handled.append(names.filter(pa.array(self._over(gone.end))))
        self._store(bins, keys, sessions.only((rows > 0) & ~over))
        left = ~over
        self._keep_directories(bins, keys, found, directories(sessions.key[left], sessions.start[left], len(keys)))
        if over.any():
            ended = sessions.only(over)
            yield self.codec.rows(keys.take(pa.array(ended.key)), ended.start, ended.end, ended.buffers)

    def adopt(self, batch: pa.RecordBatch) -> None:
        """Store sessions of keys without state, which neither overlap nor touch; rows are sorted as for `apply`."""
        columns = [of_type(batch.column(key.name), key.type) for key in self.codec.keys.schema]
        number, keys, first = numbered(self.codec.keys.pack_columns(columns, batch.num_rows))
        bins: IntArray = batch.column(BIN_COLUMN).to_numpy()[first]
        sessions = self._rows(batch, number)
        self._store(bins, keys, sessions)
        found = directories(sessions.key, sessions.start, len(keys))
        self._keep_directories(bins, keys, pa.nulls(len(keys), pa.binary()), found)

    def _rows(self, batch: pa.RecordBatch, number: Int64s) -> _Sessions:
        """The input as sessions, with buffers in the form of merged ones."""
        start, end = (batch.column(name).to_numpy() for name in (SESSION_START_COLUMN, SESSION_END_COLUMN))
        schema = self.codec.buffers
        nothing = pa.RecordBatch.from_arrays([pa.nulls(len(start), each.type) for each in schema], schema=schema)
        return _Sessions(number, start, end, merge(self.merges, nothing, batch.select(schema.names)))

    def _stored(self, bins: IntArray, keys: pa.BinaryArray, found: pa.BinaryArray) -> _Sessions:
        """All stored sessions of these keys."""
        key, start = entries_of(found)
        names = named(keys.take(pa.array(key)), start)
        end, buffers = self.codec.unpacked(self.state.get(bins[key], prefixed(STATE_SPACE, names)))
        return _Sessions(key, start, end, buffers)

    def _merged(self, stored: _Sessions, rows: _Sessions) -> tuple[_Sessions, Int64s, Int64s]:
        """The sessions of these keys by (key, start).

        Where two sessions begin at the same time, the stored one comes first, as in Spark.

        Returns:
            The sessions; the number of rows in each, 0 if it is unchanged; and for each stored one the session it is in.
        """
        key, start, end = (
            np.concatenate(pair)
            for pair in ((stored.key, rows.key), (stored.start, rows.start), (stored.end, rows.end))
        )
        new = np.arange(len(key)) >= len(stored.key)
        order = np.lexsort((end, new, start, key))
        key, start, end, new = key[order], start[order], end[order], new[order]
        part = joined(key, start, end)
        buffers = pa.concat_batches([stored.buffers, rows.buffers]).take(pa.array(order))
        first = runs(part)
        whole = _Sessions(key[first], start[first], np.maximum.reduceat(end, first), fold(self.merges, buffers, part))
        whole_of = np.empty(len(order), dtype=np.int64)
        whole_of[order] = part
        return whole, np.add.reduceat(new.astype(np.int64), first), whole_of[: len(stored.key)]

    def _over(self, end: Int64s) -> BoolArray:
        """Which sessions this epoch ends."""
        over: BoolArray = (end <= self.context.watermark_ms * 1000) & self.evicts
        return over

    def _store(self, bins: IntArray, keys: pa.BinaryArray, kept: _Sessions) -> None:
        """Store changed sessions."""
        names = named(keys.take(pa.array(kept.key)), kept.start)
        self.state.put(bins[kept.key], prefixed(STATE_SPACE, names), self.codec.values(kept.end, kept.buffers))
        if self.evicts:
            nothing = pa.repeat(pa.scalar(b"", pa.binary()), len(names))
            self.state.put(bins[kept.key], expiry_keys(ms_of(kept.end), names), nothing)

    def _delete(self, bins: IntArray, packed: pa.BinaryArray, gone: _Sessions) -> pa.BinaryArray:
        """Delete stored sessions, not their directories; returns the packed keys with the starts."""
        names, nothing = named(packed, gone.start), pa.nulls(len(packed), pa.binary())
        self.state.put(bins, prefixed(STATE_SPACE, names), nothing)
        if self.evicts:
            self.state.put(bins, expiry_keys(ms_of(gone.end), names), nothing)
        return names

    def _keep_directories(
        self, bins: IntArray, keys: pa.BinaryArray, before: pa.BinaryArray, after: pa.BinaryArray
    ) -> None:
        """Store the directories that have changed."""
        changed = pc.not_equal(before.fill_null(b""), after.fill_null(b""))
        where = bins[changed.to_numpy(zero_copy_only=False)]
        self.state.put(where, prefixed(DIRECTORY_SPACE, keys.filter(changed)), after.filter(changed))

    def evict(self) -> Iterator[pa.RecordBatch]:
        """Remove and emit the stored sessions that end, of keys without rows in this epoch."""
        handled = pa.chunked_array(self._handled, pa.binary()).combine_chunks()
        for bins, index_keys in whole_bins(due(self.state, self.context), EVICTED_ROWS_MAX):
            names = indexed(index_keys)
            others = pc.invert(pc.is_in(names, value_set=handled))
            names, bins = names.filter(others), bins[others.to_numpy(zero_copy_only=False)]
            if not len(names):
                continue
            values = self.state.get(bins, prefixed(STATE_SPACE, names))
            end, buffers = self.codec.unpacked(values)
            number, keys, first = numbered(key_of(names))
            self._delete(bins, key_of(names), _Sessions(number, start_of(names), end, buffers))
            before = self.state.get(bins[first], prefixed(DIRECTORY_SPACE, keys))
            key, start = entries_of(before)
            left = pc.invert(pc.is_in(named(keys.take(pa.array(key)), start), value_set=names))
            stays = left.to_numpy(zero_copy_only=False)
            self._keep_directories(bins[first], keys, before, directories(key[stays], start[stays], len(keys)))
            yield self.codec.emitted(names, values)


def numbered(packed: pa.BinaryArray) -> tuple[Int64s, pa.BinaryArray, Int64s]:
    """For each row the number of its key; the distinct keys in the order of these numbers, and the first row of each."""
    encoded = packed.dictionary_encode()
    number: Int64s = encoded.indices.to_numpy().astype(np.int64)
    return number, encoded.dictionary, np.unique(number, return_index=True)[1]
