"""How a (bin, key) becomes a key of LMDB, which takes no more than 511 bytes.

This module owns that mapping, in both directions:

- a key of up to `PLAIN_BYTES_MAX` bytes is stored as the bin (4 bytes, big-endian, so that bins lie together and in
  order) and the key;
- a longer one is stored under the bin, its first `PLAIN_BYTES_MAX` bytes and a digest of all of it. What is stored
  there is a *bucket*: the full keys with their values, nearly always one. Two keys with the same digest share the
  bucket, so a collision costs time and never a wrong answer.

Stored keys sort like the keys themselves, except for long keys that share their whole prefix; a scan sorts each such
group by the full keys (`expand`). It must never use a stored key without knowing whether it is a long one: only
these are longer than 4 + `PLAIN_BYTES_MAX` bytes.
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Sequence

import msgspec
import numpy as np
import pyarrow as pa

from binshift import binary
from binshift.errors import StoreDamaged
from binshift.model import IntArray

PLAIN_BYTES_MAX = 480
_STORED_PLAIN_MAX = 4 + PLAIN_BYTES_MAX
_DIGEST_BYTES = 16

Row = tuple[bytes, bytes]
_buckets = msgspec.msgpack.Decoder(list[tuple[bytes, bytes]])


def stored_keys(bins: IntArray, keys: pa.BinaryArray) -> tuple[pa.BinaryArray, list[bytes], list[int]]:
    """The stored form of each (bin, key), as a column and as a list, and the positions of the long ones."""
    long = np.flatnonzero(binary.lengths(keys) > PLAIN_BYTES_MAX).tolist()
    column = whole_keys(bins, keys)
    stored: list[bytes] = column.to_pylist()
    for at in long:
        stored[at] = stored_long(stored[at])
    return binary.of(stored) if long else column, stored, long


def whole_keys(bins: IntArray, keys: pa.BinaryArray) -> pa.BinaryArray:
    """Each bin and key as one value; they sort like the pairs."""
    return binary.join([binary.rows_of(np.ascontiguousarray(bins, dtype=">i4")), keys])


def stored_long(whole: bytes) -> bytes:
    """The stored form of a bin and a long key (``whole``)."""
    return whole[:_STORED_PLAIN_MAX] + digest(whole)


def digest(whole: bytes) -> bytes:
    """The part that distinguishes long keys of one prefix."""
    return hashlib.blake2b(whole, digest_size=_DIGEST_BYTES).digest()


def bin_prefix(bin: int) -> bytes:
    """What all stored keys of a bin start with."""
    return bin.to_bytes(4, "big")


def is_long(stored: bytes) -> bool:
    """Whether this stored key leads to a bucket."""
    return len(stored) > _STORED_PLAIN_MAX


def any_long(stored: Sequence[bytes]) -> bool:
    """Whether one of these leads to a bucket."""
    return max(map(len, stored), default=0) > _STORED_PLAIN_MAX


def group(stored: bytes) -> bytes:
    """What the stored keys that have to be sorted together with this one start with."""
    return stored[:_STORED_PLAIN_MAX]


def read_bucket(bucket: bytes | None) -> dict[bytes, bytes]:
    """The full keys in a bucket, with their values.

    Raises:
        StoreDamaged: these bytes are no bucket.
    """
    if bucket is None:
        return {}
    try:
        return dict(_buckets.decode(bucket))
    except msgspec.MsgspecError as error:
        raise StoreDamaged(f"a bucket of long keys cannot be read: {error}") from error


def write_bucket(rows: dict[bytes, bytes]) -> bytes:
    """A bucket of these keys and values."""
    return msgspec.msgpack.encode(list(rows.items()))


def expand(rows: list[Row]) -> tuple[list[bytes], list[bytes]]:
    """Full keys, ascending, and values of stored rows of one bin. Groups of long keys have to be complete."""
    found: list[Row] = []
    for long, together in itertools.groupby(rows, key=lambda row: is_long(row[0]) and group(row[0])):
        if long:
            found += sorted(row for _, bucket in together for row in read_bucket(bucket).items())
        else:
            found += [(stored[4:], value) for stored, value in together]
    return [key for key, _ in found], [value for _, value in found]
