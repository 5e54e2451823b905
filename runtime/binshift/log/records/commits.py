"""Commit records: the small files that make epochs exist, and the structs in them.

A record holds what changed and whatever a replay of its epoch needs (route changes, time, watermark, the hash of the
input), and names every delta and snapshot that counts, with their checksums. It never holds state. Record N is enough,
together with those before it, to know the route of N, to rebuild every bin at N, and to run N again as it ran.

Structs decode strictly; a field that is added later needs a default and, if ignoring it would be wrong, a new format
version. Bins are packed text (`binsets`): use the properties.
"""

from __future__ import annotations

import msgspec
import numpy as np

from binshift.errors import LogDamaged
from binshift.log.records import binsets, envelope
from binshift.log.records.bin_sizes import BinSizes, unpack
from binshift.log.records.envelope import FORMAT_VERSION, digest
from binshift.log.storage import layout
from binshift.model import BinSet, Epoch, Moves, Stamp, Worker
from binshift.routing import Route

RECORD_BYTES_MAX = 16 * 1024 * 1024
"""Largest commit record; about 8 bytes per changed bin at the very worst."""


class FileRef(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A data file, exactly as it was written.

    Attributes:
        name: relative to the log.
        bytes: its length.
        rows: rows in it, deletions included.
        trailer: bytes of its trailer, which lists the blocks and their checksums.
        checksum: of that trailer, and by that of every byte of the file.
        packed_bins: the bins with at least one row in it.
    """

    name: str
    bytes: int
    rows: int
    trailer: int
    checksum: str
    packed_bins: str

    @property
    def bins(self) -> BinSet:
        """The bins with at least one row in the file."""
        return binsets.unpack(self.packed_bins)


class SnapshotRef(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """All rows of some bins of an operator, as of a recorded epoch.

    Attributes:
        operator: whose state.
        worker: who owned the bins in that epoch and wrote this.
        epoch: of the state, not of the record that accepts the snapshot.
        attempt: of the state, as its own epoch's record names it.
        packed_bins: the bins it is complete for; those without any row are not in ``file``.
        file: None if none of the bins had a row.
        packed_loads: rows and bytes of each bin with rows in ``file``, ascending by bin; empty if they were not counted.
    """

    operator: str
    worker: int
    epoch: int
    attempt: str
    packed_bins: str
    file: FileRef | None
    packed_loads: str = ""

    @classmethod
    def of(
        cls,
        operator: str,
        worker: Worker,
        stamp: Stamp,
        bins: BinSet,
        file: FileRef | None,
        packed_loads: str = "",
    ) -> SnapshotRef:
        """A snapshot of the state ``stamp``, complete for ``bins``."""
        return cls(operator, worker, stamp.epoch, stamp.attempt, binsets.pack(bins), file, packed_loads)

    @property
    def sizes(self) -> BinSizes | None:
        """What each bin with rows in ``file`` holds; None if they were not counted.

        Raises:
            ValueError: the text is not of these bins.
        """
        if self.file is None:
            return unpack("", 0)
        return unpack(self.packed_loads, len(self.file.bins)) if self.packed_loads else None

    @property
    def bins(self) -> BinSet:
        """The bins this is complete for."""
        return binsets.unpack(self.packed_bins)

    @property
    def stamp(self) -> Stamp:
        """The state it was read from."""
        return Stamp(Epoch(self.epoch), self.attempt)


class Assignment(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """These bins are on this worker from this epoch on: control updates of one epoch, by destination."""

    worker: int
    packed_bins: str

    @property
    def bins(self) -> BinSet:
        """The bins that get this owner."""
        return binsets.unpack(self.packed_bins)


class Part(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What one worker did for one operator in the epoch.

    Attributes:
        attempt: identifies the state it left: ``Stamp(epoch, attempt)``.
        delta: the keys it changed; None when it changed none.
    """

    operator: str
    worker: int
    attempt: str
    delta: FileRef | None


class CommitRecord(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Everything that is true of an epoch.

    Attributes:
        epoch: the micro-batch's id.
        term: of the driver that wrote this.
        run: which run of the epoch by that driver this is, from 0.
        previous: `fingerprint` of the record before; of the log itself in its first record.
        batch_time_ms: logical processing time, from Spark's own offset log.
        offsets_hash: of the batch's source offsets; a replay with another one is refused.
        route_version: of the route the epoch ran with.
        moves: changes against the route of the epoch before; in a log's first record the whole route.
        workers: every worker that took part, ascending.
        parts: exactly one for each operator and worker.
        snapshots: accepted by this record.
        watermark_ms: Spark's for this batch, from its offset log, milliseconds since 1970; 0 before the first.
        watermarks: only in records of an earlier binshift, which followed the event time itself.
        manifest: epoch of the newest manifest known to be durable; None before the first.
        wake_at_ms: when an epoch is due even without input, milliseconds since 1970 by the stream's clock; None: never.
    """

    format: int = FORMAT_VERSION
    epoch: int
    term: int
    run: int
    previous: str
    batch_time_ms: int
    offsets_hash: str
    route_version: int
    moves: tuple[Assignment, ...]
    workers: tuple[int, ...]
    parts: tuple[Part, ...]
    snapshots: tuple[SnapshotRef, ...] = ()
    watermark_ms: int = 0
    watermarks: dict[str, int | None] = {}
    manifest: int | None = None
    wake_at_ms: int | None = None


_decoder = msgspec.json.Decoder(CommitRecord)


def fingerprint(record: CommitRecord) -> str:
    """A fingerprint of the record's content and, through the records before it, of the whole history up to it.

    It is made of what never changes in meaning, not of the file's bytes: a later version may add fields to records.
    """
    done = [(p.operator, p.worker, p.attempt, p.delta.checksum if p.delta else "") for p in record.parts]
    parts = (record.previous, record.epoch, record.term, record.run, record.batch_time_ms, record.offsets_hash, done)
    return digest(msgspec.json.encode(parts))


def encode_record(record: CommitRecord) -> bytes:
    """The bytes of the record's file; the same record always gives the same bytes.

    Raises:
        StateTooLarge: more than `RECORD_BYTES_MAX`.
    """
    return envelope.encode(layout.record_name(Epoch(record.epoch)), record, RECORD_BYTES_MAX)


def decode_record(name: str, data: bytes) -> CommitRecord:
    """The record in the file ``name``.

    Raises:
        LogDamaged: it was altered or cut off, is of another epoch than in its name, or is no record.
        ForeignLog: another version of binshift wrote it.
    """
    record = envelope.decode(name, data, _decoder, RECORD_BYTES_MAX)
    if name != layout.record_name(Epoch(max(record.epoch, 0))):
        raise LogDamaged(f"{name} holds the record of epoch {record.epoch}: it was renamed or copied")
    return record


def whole_route(route: Route) -> tuple[Assignment, ...]:
    """The moves of a log's first record: every bin gets its owner."""
    return tuple(Assignment(w, binsets.pack(route.bins_of(w))) for w in route.workers)


def route_changes(moves: Moves) -> tuple[Assignment, ...]:
    """The moves of an epoch as a record carries them: by destination; the sources follow from the route before."""
    workers = [Worker(w) for w in np.unique(moves.destinations).tolist()]
    return tuple(Assignment(w, binsets.pack(moves.bins_to(w))) for w in workers)
