"""The undo record of a bin store: what it takes to go back one epoch.

This module owns the blobs that hold, for every key an epoch changed, the value it had before, and which bins were owned
then. They are written in the epoch's own transaction, so there is an undo for exactly the state the store is in, or
none; depth is one.

It must never be larger than `StoreLimits.undo_bytes_max` (a store without an undo is rebuilt from the log, which is
the right price for a huge epoch), and never use pickle: old rows are an Arrow stream, cut into blobs of a size that LMDB
finds room for without searching.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from binshift import binary, entries
from binshift.entries import ENTRY_SCHEMA, Entries
from binshift.errors import StateTooLarge, StoreDamaged
from binshift.model import BinSet, Epoch, Stamp
from binshift.store.bins.status import bins_of
from binshift.store.engine.contract import Transaction
from binshift.store.engine.long_keys import whole_keys

HEAD = "undo"
CHUNK_BYTES = 64 << 10
_ROW = ["bin", "key"]
"""The columns that name a row."""


class _Head(msgspec.Struct, frozen=True, array_like=True):
    to: tuple[int, str]
    owned: bytes
    base: int
    chunks: int


class Undo(msgspec.Struct, frozen=True):
    """Back to ``to``: ``owned`` was owned, ``rows`` are what they were; bins that came had been at epoch ``base``."""

    to: Stamp
    owned: BinSet
    base: Epoch
    rows: Entries


_decoder = msgspec.msgpack.Decoder(_Head)


def old_rows(
    transaction: Transaction, changes: Entries, bytes_max: int, read: Sequence[Entries] = ()
) -> Entries | None:
    """What is stored now under the keys of ``changes`` (null: nothing); None if that is above the limit.

    Args:
        transaction: of the store.
        changes: each key once.
        bytes_max: the limit.
        read: rows as they are stored now, null for missing ones; these are not read again.
    """
    if int(binary.lengths(changes.column(1)).sum(dtype=np.int64)) > bytes_max:
        return None
    try:
        values = _old_values(transaction, changes, entries.merge_last_wins(read))
    except StateTooLarge:
        return None
    old = entries.make(changes.column(0), changes.column(1), values)
    return old if entries.size_bytes(old) <= bytes_max else None


def _old_values(transaction: Transaction, changes: Entries, read: Entries) -> pa.BinaryArray:
    """The stored value of each key, as far as possible from the rows that are ``read``, by (bin, key)."""
    if changes.select(_ROW).equals(read.select(_ROW)):
        return read.column("value")
    at = pc.index_in(_whole_keys(changes), value_set=_whole_keys(read))
    values = read.column("value").take(at)
    if not at.null_count:
        return values
    unread = at.is_null()
    rows = changes.filter(unread)
    found = transaction.get_many(entries.bins_array(rows), rows.column("key"))
    return pc.replace_with_mask(values, unread, found)


def _whole_keys(rows: Entries) -> pa.BinaryArray:
    return whole_keys(entries.bins_array(rows), rows.column("key"))


def write(transaction: Transaction, undo: Undo | None) -> None:
    """Replace the undo record; None: there is none from now on."""
    content = _encode(undo.rows) if undo is not None else b""
    chunks = -(-len(content) // CHUNK_BYTES)
    for at in range(chunks):
        transaction.set_meta(_chunk(at), content[at * CHUNK_BYTES : (at + 1) * CHUNK_BYTES])
    before = _head(transaction)
    for at in range(chunks, before.chunks if before is not None else 0):
        transaction.set_meta(_chunk(at), None)
    if undo is not None:
        head = _Head((undo.to.epoch, undo.to.attempt), undo.owned.bitmap(), undo.base, chunks)
        transaction.set_meta(HEAD, msgspec.msgpack.encode(head))
    elif before is not None:
        transaction.set_meta(HEAD, None)


def read(transaction: Transaction) -> Undo:
    """The undo record, which must exist.

    Raises:
        StoreDamaged: it is not, or cannot be read.
    """
    head = _head(transaction)
    if head is None:
        raise StoreDamaged("the store's undo record is missing")
    content = b"".join(transaction.meta(_chunk(at)) or b"" for at in range(head.chunks))
    rows = _decode(content)
    return Undo(Stamp(Epoch(head.to[0]), head.to[1]), bins_of(head.owned), Epoch(head.base), rows)


def _head(transaction: Transaction) -> _Head | None:
    blob = transaction.meta(HEAD)
    try:
        return None if blob is None else _decoder.decode(blob)
    except msgspec.MsgspecError as error:
        raise StoreDamaged(f"the store's undo record cannot be read: {error}") from error


def _chunk(at: int) -> str:
    return f"{HEAD}.{at:06d}"


def _encode(rows: Entries) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, ENTRY_SCHEMA) as stream:
        stream.write_batch(rows)
    content: bytes = sink.getvalue().to_pybytes()
    return content


def _decode(content: bytes) -> Entries:
    try:
        with pa.ipc.open_stream(content) as stream:
            rows = entries.concat(list(stream))
        rows.validate()
    except (pa.ArrowInvalid, OSError) as error:
        raise StoreDamaged(f"the store's undo record cannot be read: {error}") from error
    return rows
