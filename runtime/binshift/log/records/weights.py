"""The load of every bin as a target keeps it: short text, good to half a per cent.

A target has the weights by which its workers share the bins. So a restarted driver, or one whose lost worker is back, solves
the same problem again, and moves no bin that is in its place; new measurements would always differ a little.

A weight is the upper half of a 32-bit float (8 significant bits, any magnitude). A text is base64 of zlib of them, some 2
characters a bin. Decoding is bounded and never trusts its input.
"""

from __future__ import annotations

import binascii
import zlib
from base64 import b64decode, b64encode

import numpy as np
import numpy.typing as npt

Weights = npt.NDArray[np.float64]


def pack(weights: Weights | None) -> str:
    """The text; empty for None.

    >>> unpack(pack(np.array([0.0, 3.0, 1e30])), 3).tolist()[:2], unpack(pack(None), 3)
    ([0.0, 3.0], None)
    """
    if weights is None:
        return ""
    halves = (np.asarray(weights, dtype="<f4").view("<u4") >> 16).astype("<u2")
    return b64encode(zlib.compress(halves.tobytes(), 6)).decode()


def rounded(weights: Weights | None) -> Weights | None:
    """The weights as they come back from a target.

    >>> rounded(np.array([1.0, 1.001])).tolist()
    [1.0, 1.0]
    """
    return None if weights is None else unpack(pack(weights), len(weights))


def unpack(text: str, bins: int) -> Weights | None:
    """The weights of ``bins`` bins; None for an empty text.

    Raises:
        ValueError: the text is not of so many bins, or one weighs less than nothing, or infinitely much.
    """
    if not text:
        return None
    inflate = zlib.decompressobj()
    try:
        found = inflate.decompress(b64decode(text, validate=True), 2 * bins + 1)
    except (binascii.Error, zlib.error) as error:
        raise ValueError(f"the weights of {bins} bins are damaged: {error}") from error
    if len(found) != 2 * bins or not inflate.eof:
        raise ValueError(f"the weights of {bins} bins do not have {2 * bins} bytes, or are cut off")
    weights = (np.frombuffer(found, dtype="<u2").astype("<u4") << 16).view("<f4").astype(np.float64)
    if not (np.isfinite(weights).all() and (weights >= 0).all()):
        raise ValueError(f"the weights of {bins} bins have one that is negative or infinite")
    return weights
