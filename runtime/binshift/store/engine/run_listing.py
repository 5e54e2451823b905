"""Which runs of a store count: a blob that each transaction reads, and two more for each run.

This module owns the form of these blobs and their names. They lie among the store's own, so what is listed is what was committed.
The bins of a run are noted, too: a file is read, and verified, when rows of its bins are first wanted.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Protocol

import msgspec
import numpy as np

from binshift.binary import BoolArray
from binshift.errors import StoreDamaged
from binshift.model import IntArray
from binshift.store.engine.run_files import RunFile

_LISTING = "runs"


class Blobs(Protocol):
    """Named blobs of a transaction."""

    def meta(self, name: str) -> bytes | None:
        """One of them."""

    def set_meta(self, name: str, value: bytes | None) -> None:
        """Write or delete one."""


class Listing(msgspec.Struct, frozen=True, array_like=True):
    """The runs that count, and the number of the next one."""

    next: int = 0
    files: tuple[RunFile, ...] = ()


_decoder = msgspec.msgpack.Decoder(Listing)


def read(blobs: Blobs) -> Listing:
    """What is listed.

    Raises:
        StoreDamaged: the blob is no listing.
    """
    return _decoded(blobs.meta(_LISTING))


@lru_cache(maxsize=64)  # every transaction reads it
def _decoded(blob: bytes | None) -> Listing:
    try:
        return Listing() if blob is None else _decoder.decode(blob)
    except msgspec.MsgspecError as error:
        raise StoreDamaged(f"the listing of runs cannot be read: {error}") from error


def write(blobs: Blobs, listing: Listing) -> None:
    """Replace the listing."""
    blobs.set_meta(_LISTING, msgspec.msgpack.encode(listing))


def bins(blobs: Blobs, file: RunFile) -> IntArray:
    """The bins with rows in a run, ascending.

    Raises:
        StoreDamaged: they are missing.
    """
    found = blobs.meta(_bins(file))
    if found is None:
        raise StoreDamaged(f"the bins of run {file.number} are missing")
    return np.frombuffer(found, dtype=np.int32)


def write_bins(blobs: Blobs, file: RunFile, bins: IntArray) -> None:
    """Note the bins of a new run."""
    blobs.set_meta(_bins(file), bins.tobytes())


def counts(blobs: Blobs, file: RunFile) -> BoolArray:
    """Of each row of a run, whether it counts."""
    found = blobs.meta(_counts(file))
    if found is None:
        return np.ones(file.rows, dtype=np.bool_)
    return np.unpackbits(np.frombuffer(found, dtype=np.uint8), count=file.rows).view(np.bool_)


def write_counts(blobs: Blobs, file: RunFile, counts: BoolArray) -> None:
    """Note which rows of a run count."""
    blobs.set_meta(_counts(file), np.packbits(counts).tobytes())


def forget(blobs: Blobs, file: RunFile) -> None:
    """Delete what is noted of a run."""
    blobs.set_meta(_bins(file), None)
    blobs.set_meta(_counts(file), None)


def _bins(file: RunFile) -> str:
    return f"run.{file.number}.bins"


def _counts(file: RunFile) -> str:
    return f"run.{file.number}.counts"
