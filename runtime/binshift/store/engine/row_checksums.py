"""Row checksums: eight bytes after each stored row and blob by which damage is noticed whenever they are read.

LMDB checks nothing of what it reads, and its file lies on a disk for as long as a worker does. So the value of each row is
followed by a sum over its stored key and itself, and each blob by one over its name and itself: what was altered, or is not
where it belongs, fails verification. A single altered bit is always noticed, anything else but for one case in 2^64.

Short rows are summed in NumPy, whole columns at a time: an epoch reads and writes a hundred thousand of them, and calling a hash
function for each would cost a tenth of it. It must never depend on how rows are batched: a checksum is added to a row alone
and verified among others.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import xxhash

from binshift import binary
from binshift.binary import WORD_BYTES
from binshift.errors import StoreDamaged

Sums = npt.NDArray[np.uint64]

CHECKSUM_BYTES = 8
ROWS_AT_ONCE = 4096
"""Summed together: few enough that what is made on the way stays in the processor's cache."""

SHORT_BYTES_MAX = 64
"""Longer keys and values are summed one by one, by XXH3: a call takes no longer than so many bytes do in NumPy."""

_rng = np.random.Generator(np.random.PCG64(20))  # any numbers do, as long as they stay the same
_FLIPS, _FACTORS = _rng.integers(0, 1 << 63, (2, SHORT_BYTES_MAX // WORD_BYTES), dtype=np.uint64) * np.uint64(
    2
) + np.uint64(1)
_LENGTH, _KEY, _LAST = _rng.integers(0, 1 << 63, 3, dtype=np.uint64) * np.uint64(2) + np.uint64(1)
_HALF, _THIRD = np.uint64(32), np.uint64(29)
_MASKS = np.array([(1 << 8 * size) - 1 for size in range(WORD_BYTES + 1)], dtype=np.uint64)
"""What is left of a word of which only so many bytes count."""


def add(stored: pa.BinaryArray, values: pa.BinaryArray) -> pa.BinaryArray:
    """The values as they are stored under these keys; no nulls."""
    return binary.join([values, binary.rows_of(row_sums(stored, values).astype("<u8"))])


def verify(stored: pa.BinaryArray, sealed: pa.BinaryArray) -> pa.BinaryArray:
    """The values again; null where there is none.

    Raises:
        StoreDamaged: a row is not what was stored under its key.
    """
    there = sealed
    if sealed.null_count:
        present = sealed.is_valid()
        stored, there = stored.filter(present), sealed.filter(present)
    if not len(there):
        return sealed
    if int(binary.lengths(there).min()) < CHECKSUM_BYTES:
        raise StoreDamaged("a row is shorter than its checksum")
    values = pc.binary_slice(there, 0, -CHECKSUM_BYTES)
    checksums = binary.contiguous(pc.binary_slice(there, -CHECKSUM_BYTES)).view("<u8")
    if not np.array_equal(row_sums(stored, values), checksums):
        raise StoreDamaged(
            f"{int((row_sums(stored, values) != checksums).sum())} of {len(there)} rows are not what was stored"
        )
    return pc.binary_slice(sealed, 0, -CHECKSUM_BYTES) if sealed.null_count else values


def add_to_blob(name: str, blob: bytes) -> bytes:
    """A blob as it is stored."""
    return blob + _blob_sum(name, blob)


def verify_blob(name: str, sealed: bytes) -> bytes:
    """The blob again.

    Raises:
        StoreDamaged: it is not what was stored.
    """
    blob = sealed[:-CHECKSUM_BYTES]
    if sealed[-CHECKSUM_BYTES:] != _blob_sum(name, blob):
        raise StoreDamaged(f"its {name!r} is not what was stored")
    return blob


def row_sums(stored: pa.BinaryArray, values: pa.BinaryArray) -> Sums:
    """The sum of each row."""
    sums = hashes(stored) * _KEY + hashes(values)
    mixed: Sums = (sums ^ (sums >> _HALF)) * _LAST
    return mixed


def _blob_sum(name: str, blob: bytes) -> bytes:
    hasher = xxhash.xxh3_64(name.encode() + b"\0")
    hasher.update(blob)
    return hasher.digest()


def hashes(column: pa.BinaryArray) -> Sums:
    """A sum of each value, which takes all of its bytes and its length."""
    bounds = binary.offsets(column)
    starts, sizes = bounds[:-1], np.diff(bounds)
    content = np.frombuffer(binary.data(column), dtype=np.uint8)[: bounds[-1]]
    sums: Sums = sizes.astype(np.uint64) * _LENGTH
    long = sizes > SHORT_BYTES_MAX
    if long.any():
        values = column if long.all() else column.filter(pa.array(long))
        sums[long] += np.array(list(map(xxhash.xxh3_64_intdigest, values.to_pylist())), dtype=np.uint64)
        sizes = np.where(long, 0, sizes)
    for at in range(0, len(sums), ROWS_AT_ONCE):
        some = slice(at, at + ROWS_AT_ONCE)
        first, last = int(bounds[at]), int(bounds[min(at + ROWS_AT_ONCE, len(sums))])
        _add_units(sums[some], content[first:last], starts[some] - first, sizes[some])
        sums[some] ^= sums[some] >> _THIRD
    return sums


def _add_units(sums: Sums, content: npt.NDArray[np.uint8], starts: binary.Offsets, sizes: binary.Offsets) -> None:
    """Add the mixed eight-byte units of each value: each is flipped and multiplied, by its place, before it is added."""
    longest = int(sizes.max())
    even = int(sizes.min()) == longest
    words = binary.every_word(content, "<u8")
    for at in range(-(-longest // WORD_BYTES)):
        done = at * WORD_BYTES
        if even:
            found = words[int(starts[0]) + done :: longest][: len(sizes)] & _MASKS[min(longest - done, WORD_BYTES)]
            sums += _mixed(found, at)
        else:
            rows = np.flatnonzero(sizes > done)
            found = words[starts[rows] + done] & _MASKS[np.minimum(sizes[rows] - done, WORD_BYTES)]
            sums[rows] += _mixed(found, at)


def _mixed(words: Sums, at: int) -> Sums:
    words ^= _FLIPS[at]
    words *= _FACTORS[at]
    words ^= words >> _HALF
    return words
