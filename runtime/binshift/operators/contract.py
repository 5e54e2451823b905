"""The interface of a state operator, which S runs; independent of Spark, of the log and of any particular store.

An operator sees one worker's rows of one epoch and the state of the bins that this worker owns. It may run again for the
same epoch after a failure and must then give the same result, so it takes time, watermark and rows from its arguments
only. It changes nothing itself: `EpochState` collects changes, and the task commits all of them or none.

An operator passes every key to `EpochState.get` in at most one call, so that no read depends on a write of the same
epoch; one that must read a key again keeps its own changes (`processor.view`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

import pyarrow as pa
import pyarrow.compute as pc

from binshift import entries
from binshift.entries import Entries
from binshift.model import Bin, BinSet, Epoch, IntArray
from binshift.operators.first_times import FirstTimes, KeyFinder

BIN_COLUMN = "__bin"
"""The column that F adds: each row's bin."""

RECORDS_COLUMN = "__records"
"""A column that F adds where it aggregates: the number of records that a row stands for. If it is absent, a row is one record."""

REDUCED_COLUMN = "__reduced"
"""The same where the aggregation begins before the exchange if keys repeat: the worker that owns a row's bin has few rows to work on."""

KEYLESS_BIN = Bin(0)
"""The bin of the only state of an operator without keys."""

STATE_SPACE = b"\x00"
"""First byte of the keys of state rows."""

EXPIRY_SPACE = b"\x01"
"""First byte of the keys of the expiry index: then 8 bytes of big-endian milliseconds, then the state row's key."""


TIMER_SPACE = b"\x03"
"""First byte of the keys of timers: then 8 bytes of big-endian milliseconds, then what is the operator's."""


@dataclass(frozen=True, slots=True)
class EpochContext:
    """The logical time of one epoch: equal in every run and replay of it.

    Attributes:
        epoch: the micro-batch's id.
        batch_time_ms: Spark's batch timestamp, milliseconds since 1970.
        watermark_ms: Spark's for this batch, milliseconds since 1970, 0 before the first: groups at or before it are closed.
        previous_watermark_ms: the watermark of the previous epoch; rows at or before it are late, as in Spark
            (``inputWatermarkForLateEvents``), because that epoch closed their groups. 0 in the first epoch.
        owned: the bins whose records this task applies.
    """

    epoch: Epoch
    batch_time_ms: int
    watermark_ms: int
    previous_watermark_ms: int
    owned: BinSet

    @property
    def watermark_moved(self) -> bool:
        """Whether groups may have expired since the previous epoch."""
        return self.watermark_ms != self.previous_watermark_ms


NO_TIME = EpochContext(Epoch(0), 0, 0, 0, BinSet())
"""Where nothing ends: adopted rows are the ones their own query has left."""


class StateReader(KeyFinder, Protocol):
    """One snapshot of a worker's state."""

    def get_many(self, bins: IntArray, keys: pa.BinaryArray) -> pa.BinaryArray:
        """The value of each (bin, key), null where absent, in the order of the arguments."""

    def scan(self, bin: Bin, start: bytes = b"", stop: bytes | None = None) -> Iterator[Entries]:
        """The rows of ``bin`` with ``start <= key < stop``, ascending."""

    def scan_bins(self, bins: Sequence[Bin], start: bytes, stop: bytes) -> Iterator[Entries]:
        """The rows with ``start <= key < stop`` of several bins, bin by bin, each ascending."""


@dataclass
class IndexTimes:
    """What is known of the indexes by time in the owned bins.

    Attributes:
        expiries: of the states that end.
        timers: of the timers.
    """

    expiries: FirstTimes = field(default_factory=lambda: FirstTimes(EXPIRY_SPACE))
    timers: FirstTimes = field(default_factory=lambda: FirstTimes(TIMER_SPACE))

    def change(self, changes: Entries, owned: BinSet) -> None:
        """The state has changed; see `FirstTimes.change`."""
        self.expiries.change(changes, owned)
        self.timers.change(changes, owned)


@dataclass(frozen=True)
class Wake:
    """When an operator needs an epoch with or without input.

    Attributes:
        index: the owned bins need one because of its first time, which is a moment of processing time.
        after_ms: how long after it, in milliseconds.
    """

    index: FirstTimes
    after_ms: int

    def at_ms(self, reader: KeyFinder, owned: BinSet) -> int | None:
        """The moment, milliseconds since 1970; None if the bins never need an epoch of their own."""
        first = self.index.earliest(reader, owned)
        return None if first is None else first + self.after_ms


@dataclass
class EpochState:
    """The state after the previous epoch, and the changes of this one.

    Attributes:
        reader: the snapshot that reads go to.
        changes: what to commit, in the order it was put.
        rows_late: rows that were dropped because they are at or before the previous watermark.
        counts: further figures of the operator, by the names of Spark's custom metrics.
        times: what is known of the indexes by time.
        wake: set by an operator that wakes an idle stream. The moment is found when the epoch is committed.
    """

    reader: StateReader
    changes: list[Entries] = field(default_factory=list)
    rows_late: int = 0
    counts: Counter[str] = field(default_factory=Counter)
    times: IndexTimes = field(default_factory=IndexTimes)
    wake: Wake | None = None

    def get(self, bins: IntArray, keys: pa.BinaryArray) -> pa.BinaryArray:
        """The stored value of each key before this epoch, null where absent."""
        return self.reader.get_many(bins, keys)

    def scan(self, bin: Bin, start: bytes, stop: bytes | None) -> Iterator[Entries]:
        """Rows of a bin before this epoch, ascending by key."""
        return self.reader.scan(bin, start, stop)

    def scan_bins(self, bins: Sequence[Bin], start: bytes, stop: bytes) -> Iterator[Entries]:
        """Rows of several bins before this epoch, bin by bin, each ascending by key; the bounds are short."""
        return self.reader.scan_bins(bins, start, stop)

    def put(self, bins: IntArray | pa.Array, keys: pa.BinaryArray, values: pa.BinaryArray) -> None:
        """Set values; null deletes."""
        if len(keys):
            self.changes.append(entries.make(bins, keys, values))


def states_changed(changes: Entries) -> tuple[int, int]:
    """How many states ``changes`` sets, and how many it deletes. Other rows, such as those of an index, do not count.

    >>> states_changed(entries.make([0, 0, 1], [STATE_SPACE + b"a", STATE_SPACE + b"b", EXPIRY_SPACE], [b"", None, b""]))
    (1, 1)
    """
    of_state = pc.starts_with(changes.column("key"), pattern=STATE_SPACE)
    kept = pc.and_(of_state, changes.column("value").is_valid())
    states, kept_states = (int(pc.sum(each, min_count=0).as_py()) for each in (of_state, kept))
    return kept_states, states - kept_states


def prefixed(space: bytes, packed: pa.BinaryArray) -> pa.BinaryArray:
    """Store keys: the packed keys within a space."""
    return pc.binary_join_element_wise(pa.scalar(space, pa.binary()), packed, pa.scalar(b"", pa.binary()))


def without_space(keys: pa.BinaryArray, skipped: int = 0) -> pa.BinaryArray:
    """Store keys without their first byte, the space, and without the ``skipped`` bytes that follow it."""
    # With an open end, Arrow reserves the largest possible number of bytes, which overflows above a few rows.
    longest = pc.max(pc.binary_length(keys)).as_py() or 0
    return pc.binary_slice(keys, 1 + skipped, max(longest, 1 + skipped))


class Processor(Protocol):
    """Processes rows with a state; instances are pickled into the epoch's tasks."""

    def run(
        self, batches: Iterator[pa.RecordBatch], state: EpochState, context: EpochContext
    ) -> Iterator[pa.RecordBatch]:
        """Process one worker's rows of one epoch; yield output rows."""


class Operator(Processor, Protocol):
    """A keyed state operator."""

    @property
    def output_schema(self) -> pa.Schema:
        """The columns of what `run` yields."""


@runtime_checkable
class Keyed(Protocol):
    """An operator whose input has columns of a key."""

    def key_columns(self, rows: pa.RecordBatch) -> Sequence[pa.Array]:
        """The columns of the key in rows of the input; none where all rows have the same key."""


def records_of(rows: pa.RecordBatch) -> pa.Array | None:
    """How many records each row stands for; None where it is one."""
    found = [name for name in (RECORDS_COLUMN, REDUCED_COLUMN) if name in rows.schema.names]
    return rows.column(found[0]) if found else None
