"""How much each of some bins holds, rows and bytes, as short text in a record.

The writer of a snapshot reads every row of its bins anyway, so counting them costs nothing, and needs no separate scan. A text
is base64 of zlib of two columns of 64-bit numbers: some 6 characters a bin. Decoding is bounded and never
trusts its input.
"""

from __future__ import annotations

import binascii
import zlib
from base64 import b64decode, b64encode
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Counts = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class BinSizes:
    """What some bins hold, in an order known from elsewhere.

    Attributes:
        rows: rows of each, an operator's own indexes included.
        bytes: of their keys and values, before compression, with 4 bytes a row for the bin.
    """

    rows: Counts
    bytes: Counts


def pack(rows: Sequence[int], bytes: Sequence[int]) -> str:
    """The text for bins with so many rows and bytes; empty for no bins."""
    if not rows:
        return ""
    columns = np.array([rows, bytes], dtype="<i8")
    return b64encode(zlib.compress(columns.tobytes(), 1)).decode()


def unpack(text: str, bins: int) -> BinSizes:
    """The loads of ``bins`` bins.

    Raises:
        ValueError: the text is not of so many bins, or of none at all.

    >>> unpack(pack([2, 1], [20, 9]), 2).bytes.tolist()
    [20, 9]
    """
    wanted = 16 * bins
    inflate = zlib.decompressobj()
    try:
        found = inflate.decompress(b64decode(text, validate=True), wanted + 1) if text else b""
    except (binascii.Error, zlib.error) as error:
        raise ValueError(f"the loads of {bins} bins are damaged: {error}") from error
    if len(found) != wanted or (text and not inflate.eof):
        raise ValueError(f"the loads of {bins} bins do not have {wanted} bytes, or are cut off")
    rows, bytes = np.frombuffer(found, dtype="<i8").reshape(2, bins)
    if bins and min(rows.min(), bytes.min()) < 0:
        raise ValueError(f"the loads of {bins} bins have a negative number")
    return BinSizes(rows, bytes)
