"""The two descriptions of a savepoint, what is to be copied and what was copied, and where a restored checkpoint is from."""

from __future__ import annotations

from typing import Final

import msgspec

from binshift.errors import LogFileMissing
from binshift.log.records import envelope
from binshift.log.records.envelope import FORMAT_VERSION
from binshift.log.storage.contract import Storage
from binshift.savepoints import layout

BYTES_MAX: Final = 256 * 1024 * 1024
"""Largest description: of some million files."""
ADVICE: Final = "take another snapshot"


class CopiedFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A file of a savepoint, and its size."""

    name: str
    bytes: int


class Savepoint(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A savepoint, begun or complete.

    Attributes:
        name: chosen by who requested it.
        query: Spark's id of the query.
        checkpoint: identifies the checkpoint: the same id, or another one if it was made of a savepoint.
        query_name: of the query; empty if it has none.
        epoch: the last one in it.
        committed_ms: Spark's time of that epoch's batch, in milliseconds since 1970.
        files: all of them, apart from the two descriptions.
        bytes: of these files.
        version: of the binshift that made it.
        finished_ms: when it was complete, in milliseconds since 1970; 0 before.
    """

    format: int = FORMAT_VERSION
    name: str
    query: str
    checkpoint: str
    query_name: str
    epoch: int
    committed_ms: int
    files: tuple[CopiedFile, ...]
    bytes: int
    version: str
    finished_ms: int = 0


class Origin(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The savepoint that a checkpoint was made of; ``checkpoint`` identifies the new one, whose query keeps the id of the old one."""

    format: int = FORMAT_VERSION
    url: str
    name: str
    query: str
    epoch: int
    checkpoint: str

    def is_of(self, url: str, savepoint: Savepoint) -> bool:
        """Whether it is that savepoint."""
        return (self.url, self.name, self.query, self.epoch) == (url, savepoint.name, savepoint.query, savepoint.epoch)


_origins, _savepoints = msgspec.json.Decoder(Origin), msgspec.json.Decoder(Savepoint)


def complete(files: Storage) -> Savepoint | None:
    """The savepoint that ``files`` are; None if they are none, or an unfinished one.

    Raises:
        LogDamaged, ForeignLog: its description cannot be read.
    """
    return _read(files, layout.DESCRIPTION)


def begun(files: Storage) -> Savepoint | None:
    """The savepoint that was begun in ``files``; it is complete or not. Errors as `complete`."""
    return _read(files, layout.BEGUN)


def encode(name: str, value: Savepoint | Origin) -> bytes:
    """The file ``name``.

    Raises:
        StateTooLarge: it would exceed `BYTES_MAX`.
    """
    return envelope.encode(name, value, BYTES_MAX)


def origin(files: Storage) -> Origin | None:
    """What the checkpoint ``files`` was made of; None if it was not restored. Errors as `complete`."""
    try:
        return envelope.decode(layout.RESTORED, files.get(layout.RESTORED), _origins, BYTES_MAX)
    except LogFileMissing:
        return None


def _read(files: Storage, name: str) -> Savepoint | None:
    try:
        return envelope.decode(name, files.get(name), _savepoints, BYTES_MAX, ADVICE)
    except LogFileMissing:
        return None
