"""Sets of bins as short text, as records and manifests carry them.

Few ranges are written for people (``"0-1023,1030"``); many as a compressed bitmap (``"17:eJx..."``: first bin, then
zlib, then base64), which for 4,096 bins is at most 700 characters and for 2^20 bins at most 180,000 whatever the
set, and is packed and unpacked in NumPy. Decoding is bounded and never trusts its input.
"""

from __future__ import annotations

import binascii
import re
import threading
import zlib
from base64 import b64decode, b64encode

import numpy as np

from binshift.model import BINS_MAX, BinSet

RANGES_TEXT_MAX = 16
"""More ranges than this are no longer for people to read."""

REMEMBERED_BYTES_MAX = 64 * 1024 * 1024
"""Decoded sets are kept up to about so much: a thousand epochs of four workers at 4,096 bins."""

SET_OVERHEAD_BYTES = 400
"""What the objects around a remembered set take."""

_RANGE = re.compile(r"(\d{1,7})(?:-(\d{1,7}))?")


def pack(bins: BinSet) -> str:
    """The text for ``bins``; the same set always gives the same text.

    >>> pack(BinSet([1, 2, 3, 9]))
    '1-3,9'
    """
    array = bins.array
    if np.count_nonzero(np.diff(array) != 1) < RANGES_TEXT_MAX:
        return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in bins.ranges())
    first = int(array[0])
    bits = np.zeros(int(array[-1]) - first + 1, dtype=np.bool_)
    bits[array - first] = True
    return f"{first}:{b64encode(zlib.compress(np.packbits(bits).tobytes(), 1)).decode()}"


def unpack(text: str) -> BinSet:
    """The set that ``text`` encodes. Texts of records in use are decoded repeatedly, and therefore cached.

    Raises:
        ValueError: it stands for none.

    >>> unpack("1-3,9")
    BinSet(1, 2, 3, 9)
    """
    found = _memory.recall(text)
    return _memory.keep(text, _unpack(text)) if found is None else found


class _Memory:
    """Decoded sets by their text, up to a number of bytes; then the cache is cleared."""

    def __init__(self) -> None:
        self._sets: dict[str, BinSet] = {}
        self._bytes = 0
        self._lock = threading.Lock()

    def recall(self, text: str) -> BinSet | None:
        return self._sets.get(text)

    def keep(self, text: str, bins: BinSet) -> BinSet:
        size = len(text) + bins.array.nbytes + SET_OVERHEAD_BYTES
        with self._lock:
            if self._bytes + size > REMEMBERED_BYTES_MAX:
                self._sets, self._bytes = {}, 0
            self._sets[text] = bins
            self._bytes += size
        return bins


_memory = _Memory()


def _unpack(text: str) -> BinSet:
    if not text:
        return BinSet()
    if ":" in text:
        return _unpack_bitmap(text)
    ranges = []
    previous = -1
    for part in text.split(","):
        found = _RANGE.fullmatch(part)
        if not found:
            raise ValueError(f"{part[:40]!r} is not a range of bins")
        first, last = int(found[1]), int(found[2] or found[1])
        if not previous < first <= last < BINS_MAX:
            raise ValueError(f"the range of bins {part!r} is out of order or beyond {BINS_MAX - 1}")
        ranges.append((first, last))
        previous = last
    return BinSet.from_ranges(ranges)


def _unpack_bitmap(text: str) -> BinSet:
    start, _, body = text.partition(":")
    if not (start.isascii() and start.isdigit() and len(start) <= 7):
        raise ValueError(f"{start[:40]!r} is not a bin that a bitmap can start from")
    inflate = zlib.decompressobj()
    try:
        packed = inflate.decompress(b64decode(body, validate=True), BINS_MAX // 8 + 1)
    except (binascii.Error, zlib.error) as error:
        raise ValueError(f"a bitmap of bins is damaged: {error}") from error
    if not inflate.eof:
        raise ValueError(f"a bitmap of bins is cut off, or has more than {BINS_MAX} bits")
    bins = np.flatnonzero(np.unpackbits(np.frombuffer(packed, dtype=np.uint8))) + int(start)
    if not bins.size or bins[-1] >= BINS_MAX:
        raise ValueError(f"a bitmap of bins is empty or goes beyond bin {BINS_MAX - 1}")
    return BinSet(bins)
