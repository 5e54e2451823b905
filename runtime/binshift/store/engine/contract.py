"""The contract of a local store: ordered rows by (bin, key), a few named blobs, transactions.

This module owns the interface that `binstore` calls and that `memory` and `lmdb` both implement; one test file checks both. It
knows nothing of epochs, owners or copies: it is the smallest store on which those can be built.

What every implementation must give: a reader sees one moment, whatever writers do meanwhile, and never waits; a writer
is alone, and either all it did is there afterwards or nothing, also if its process is killed in the middle. What none
has to give: surviving a crash of the machine. A local store is a cache of the log; after another kernel boot it is
empty, and that is all right.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import pyarrow as pa

from binshift.binary import lengths
from binshift.entries import Entries, bins_array
from binshift.errors import StateTooLarge
from binshift.invariants import invariant
from binshift.model import Bin, IntArray
from binshift.store.engine.sorted_run import SortedRun

MIB = 1 << 20

KEY_PREFIX_BYTES_MAX = 480
"""As much of a key as every store keeps in order."""


@dataclass(frozen=True)
class StoreLimits:
    """Everything a store bounds, each with its unit last."""

    map_bytes_max: int = 64 << 30
    """Address space, and so the most bytes on disk, of one LMDB store. Sparse: unused space costs nothing, except
    under a limit on address space (`spark.executor.pyspark.memory`), into which it has to fit."""

    key_bytes_max: int = 1 * MIB
    """Longest key. Keys above 480 bytes cost extra: LMDB holds them by a hash."""

    value_bytes_max: int = 256 * MIB
    """Longest value."""

    undo_bytes_max: int = 128 * MIB
    """Most bytes of old rows kept to undo an epoch; a larger epoch gets no undo and is rebuilt from the log instead."""

    scan_bytes_max: int = 1 * MIB
    """Most bytes of one batch of a scan (a single longer row comes alone)."""

    background_rows_max: int = 2_500
    """Most rows one background transaction writes or deletes: LMDB has one writer at a time, so a longer one (above
    some milliseconds) would make an epoch wait."""

    background_bytes_max: int = 1 * MIB
    """Most bytes of one background transaction (a single longer row comes alone)."""

    lock_seconds_max: float = 20.0
    """How long a writer waits for another one before it gives up with `StoreBusy`."""

    disk_free_bytes_min: int = 64 * MIB
    """Free space on the disk that a write must leave: a memory-mapped file on a full disk kills its process."""


class Size(NamedTuple):
    """How much a store has.

    Attributes:
        rows: keys that a store keeps by a shared hash count as one.
        bytes: that the rows take, roughly.
    """

    rows: int
    bytes: int


class Transaction(Protocol):
    """One moment of a store; in a write transaction, including what it has written itself."""

    def get_many(self, bins: IntArray, keys: pa.BinaryArray) -> pa.BinaryArray:
        """The value of each (bin, key), in the given order, null where there is none. Fastest if sorted.

        Raises:
            StateTooLarge: together more than 2 GiB of values.
        """

    def scan(self, bin: Bin, start: bytes = b"", stop: bytes | None = None) -> Iterator[Entries]:
        """The rows of ``bin`` with ``start <= key < stop`` (None: to the end), ascending, in bounded batches.

        What the same transaction writes while a scan runs may be seen by it or not.
        """

    def scan_bins(self, bins: Sequence[Bin], start: bytes = b"", stop: bytes | None = None) -> Iterator[Entries]:
        """As `scan` of several bins, bin by bin; batches have rows of many bins.

        Args:
            bins: in any order, each once; ascending ones are fastest.
            start: at most `KEY_PREFIX_BYTES_MAX` bytes.
            stop: likewise.
        """

    def first_keys(self, bins: IntArray, space: bytes, length: int) -> list[bytes]:
        """The first ``length`` bytes of each bin's first key that begins with ``space``, empty where there is none.

        Args:
            bins: in any order; ascending ones are fastest.
            space: a short prefix, not empty.
            length: at most `KEY_PREFIX_BYTES_MAX`.
        """

    def check(self, entries: Entries) -> None:
        """Raise what `put_many` would raise, as far as it is known before: too large a row, too little room on the disk."""

    def put_many(self, entries: Entries) -> None:
        """Write rows; a null value deletes. In any order; of a (bin, key) that occurs twice the last one counts.

        Raises:
            StateTooLarge: a key, a value or the whole store exceeds its limit; the transaction must be left by the
                exception, and then nothing is changed.
        """

    def add_run(self, run: SortedRun) -> bool:
        """Write rows none of whose keys is stored, as a whole; False, with nothing changed, if they are to be put one by one.

        Raises:
            StateTooLarge, DiskFull: as for `put_many`.
        """

    def size(self) -> Size:
        """Of all bins, without reading them."""

    def drop(self, bin: Bin, rows_max: int) -> bool:
        """Delete rows of ``bin``, one by one at most ``rows_max``; True when none are left."""

    def clear(self) -> None:
        """Delete all rows of all bins; the blobs stay."""

    def meta(self, name: str) -> bytes | None:
        """The blob called ``name``, None if there is none."""

    def set_meta(self, name: str, value: bytes | None) -> None:
        """Write a blob; None deletes it. Large contents are better cut into blobs of some 64 KiB."""


class KeyValueStore(Protocol):
    """A place for rows; see the module."""

    def read(self) -> AbstractContextManager[Transaction]:
        """A snapshot. Never waits for a writer. Leave it soon: it keeps what it sees from being reused."""

    def write(self, timeout_seconds: float) -> AbstractContextManager[Transaction]:
        """A write transaction: committed when left normally, gone without a trace when left by an exception.

        Raises:
            StoreBusy: another writer, in this process or another, did not finish in time.
        """

    def close(self) -> None:
        """Give back what this handle holds. The rows stay (for a store on disk)."""


def check_sizes(entries: Entries, limits: StoreLimits) -> None:
    """Refuse rows above the limits, before anything is written.

    Raises:
        StateTooLarge: names the bin, the size and the limit.
        InvariantViolated: a null bin or key.
    """
    invariant(not entries.column(0).null_count and not entries.column(1).null_count, "an entry without bin or key")
    named = (("key", 1, limits.key_bytes_max), ("value", 2, limits.value_bytes_max))
    for name, column, most in named:
        sizes = lengths(entries.column(column))
        if len(sizes) and int(sizes.max()) > most:
            at = int(sizes.argmax())
            raise StateTooLarge(
                f"a {name} of {int(sizes[at])} bytes in bin {int(bins_array(entries)[at])} exceeds the limit of {most} "
                f"(StoreLimits.{name}_bytes_max): keep less in one {'key' if name == 'key' else 'state row'}, or raise it"
            )
