"""The checkpoint of a query that Spark has run: what a query that continues from it needs. Only reads."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from binshift.errors import InvalidQuery, LogFileMissing, Unsupported
from binshift.log.storage.contract import Storage
from binshift.log.storage.opening import open_storage
from binshift.model import BEFORE_FIRST, Epoch
from binshift.savepoints.layout import LOG, METADATA
from binshift.spark.session.checkpoint import committed
from binshift.spark.session.offsets import HEADER_LINES

VERSION = "v1"
"""Of Spark's offset and commit logs."""


@dataclass(frozen=True)
class OffsetEntry:
    """A batch in Spark's offset log.

    Attributes:
        head: the version and the batch's metadata, as lines.
        sources: a line for each source.
    """

    head: tuple[str, ...]
    sources: tuple[str, ...]

    @property
    def text(self) -> str:
        """The content of the file."""
        return "\n".join([*self.head, *self.sources])

    def with_sources(self, sources: Iterable[str]) -> OffsetEntry:
        """The same batch with other sources."""
        return OffsetEntry(self.head, tuple(sources))


@dataclass(frozen=True)
class SparkCheckpoint:
    """See the module.

    Attributes:
        files: the checkpoint.
        query: Spark's id of the query.
        batch: the last one that Spark has committed: its state is what is read.
        offsets: by batch; that one, the one before, and the next one if Spark had begun it.
        next_watermark_ms: the watermark after that batch.
    """

    files: Storage
    query: str
    batch: Epoch
    offsets: dict[Epoch, OffsetEntry]
    next_watermark_ms: int

    @classmethod
    def read(cls, location: str) -> SparkCheckpoint:
        """The checkpoint at a location.

        Raises:
            InvalidQuery: it is no checkpoint of Spark, is binshift's own, or has no batch yet.
            Unsupported: it is in a form that is not read.
        """
        files = open_storage(location)
        query = _query(files)
        if next(iter(files.list(LOG)), None) is not None:
            raise InvalidQuery(f"{files.url} is a checkpoint of binshift: continue it as checkpointLocation")
        batch = committed(files)
        if batch == BEFORE_FIRST:
            raise InvalidQuery(f"{files.url} has no committed batch: there is no state to adopt; start without adopt")
        offsets = {each: _entry(files, each) for each in _batches(files, batch)}
        return cls(files, query, batch, offsets, _next_watermark(files, batch))

    def source_files(self, number: int) -> Iterator[tuple[str, bytes]]:
        """What a source keeps in the checkpoint: names within its folder, and contents."""
        folder = f"sources/{number}/"
        for each in self.files.list(folder):
            name = each.name.removeprefix(folder)
            if not name.rpartition("/")[2].startswith("."):  # checksums of Hadoop, for files that are copied whole
                yield name, self.files.get(each.name)


def _query(files: Storage) -> str:
    try:
        return str(uuid.UUID(json.loads(files.get(METADATA))["id"]))
    except (LogFileMissing, KeyError, TypeError, ValueError) as error:
        raise InvalidQuery(f"{files.url} is not a checkpoint of a streaming query: {METADATA}: {error}") from None


def _batches(files: Storage, batch: Epoch) -> list[Epoch]:
    """The batches whose offsets Spark needs to continue."""
    batches = [Epoch(each) for each in (batch - 1, batch) if each >= 0]
    following = Epoch(batch + 1)
    return [*batches, following] if files.exists(f"offsets/{following}") else batches


def _entry(files: Storage, batch: Epoch) -> OffsetEntry:
    name = f"offsets/{batch}"
    try:
        lines = files.get(name).decode().splitlines()
    except LogFileMissing:
        raise InvalidQuery(f"{name} is missing at {files.url}, which has committed batch {batch}") from None
    _check_version(files, name, lines)
    return OffsetEntry(tuple(lines[:HEADER_LINES]), tuple(lines[HEADER_LINES:]))


def _next_watermark(files: Storage, batch: Epoch) -> int:
    name = f"commits/{batch}"
    lines = files.get(name).decode().splitlines()
    if lines and lines[0] != VERSION:
        raise Unsupported(
            f"{name} at {files.url} has version {lines[0]}, which is not adopted: checkpoints of version 2 "
            "(spark.sql.streaming.stateStore.checkpointFormatVersion) name their state by ids"
        )
    try:
        return int(json.loads(lines[1])["nextBatchWatermarkMs"])
    except (IndexError, KeyError, TypeError, ValueError) as error:
        raise InvalidQuery(f"{name} at {files.url} is not a commit of Spark ({error!r})") from None


def _check_version(files: Storage, name: str, lines: list[str]) -> None:
    if len(lines) <= HEADER_LINES or lines[0] != VERSION:
        raise Unsupported(f"{name} at {files.url} has version {lines[0] if lines else 'none'}; {VERSION} is adopted")
