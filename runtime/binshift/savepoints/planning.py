"""What is to be copied: of a running query's checkpoint at one epoch, or of a copy that was begun before. Only reads."""

from __future__ import annotations

from dataclasses import dataclass

from binshift import __version__
from binshift.errors import LogDamaged, LogFileMissing, StorageUnavailable
from binshift.log.index import loading, retention
from binshift.log.index.index import Index
from binshift.log.log import Log
from binshift.log.records import formats
from binshift.log.storage import layout as log_layout
from binshift.log.storage.contract import Listed, Storage
from binshift.log.storage.folder import Folder
from binshift.model import Epoch
from binshift.savepoints import layout
from binshift.savepoints.records import CopiedFile, Savepoint


@dataclass(frozen=True)
class Source:
    """A running query, as a savepoint needs it.

    Attributes:
        location: of its checkpoint.
        files: of its checkpoint.
        log: its log.
        checkpoint: identifies its checkpoint; see `Savepoint`.
        query_name: its name; empty if it has none.
        duty: the share of time in which a copy works.
    """

    location: str
    files: Storage
    log: Log
    checkpoint: str
    query_name: str = ""
    duty: float = 1.0

    def place(self, name: str) -> tuple[Storage, str]:
        """Where a savepoint's file comes from: the storage, and the name there."""
        return (self.log.storage, name.removeprefix(layout.LOG)) if name.startswith(layout.LOG) else (self.files, name)

    def is_committed(self, index: Index) -> bool:
        """Whether Spark has committed the index's last epoch."""
        return not index.empty and self.files.exists(f"{layout.COMMITS}{index.last}")


def plan_of(source: Source, name: str, index: Index) -> Savepoint:
    """The savepoint of the index's last epoch, which Spark has committed, and which the log is held at.

    Raises:
        StorageUnavailable: a file that it needs is damaged, or a storage did not answer; try again.
    """
    epoch = index.last
    if lost := sorted(index.unusable & retention.named_files(index).keys()):
        raise StorageUnavailable(f"{lost[0]} is damaged, and the log writes its content again: it is tried again")
    log = source.log.storage
    listed = [Listed(log_layout.FORMAT, len(log.get(log_layout.FORMAT)))]
    listed += [each for folder in layout.LOG_FOLDERS for each in log.list(folder)]
    found = [Listed(layout.LOG + each.name, each.bytes) for each in layout.log_files(index, listed, source.log.term)]
    files = tuple(CopiedFile(*each) for each in (*spark_files(source, epoch), *found))
    return Savepoint(
        name=name,
        query=source.log.format.query,
        checkpoint=source.checkpoint,
        query_name=source.query_name,
        epoch=epoch,
        committed_ms=index.record(epoch).batch_time_ms,
        files=files,
        bytes=sum(each.bytes for each in files),
        version=__version__,
    )


def spark_files(source: Source, epoch: Epoch) -> list[Listed]:
    """Spark's part; what sources keep is listed last, and so has all that the offsets name. Errors as the storage."""
    listed = [each for folder in (layout.OFFSETS, layout.COMMITS) for each in source.files.list(folder)]
    listed.append(Listed(layout.METADATA, len(source.files.get(layout.METADATA))))
    return layout.spark_files([*listed, *source.files.list(layout.SOURCES)], epoch)


def can_finish(plan: Savepoint, source: Source, target: Storage) -> bool:
    """Whether all that is still missing of a copy that was begun before exists. Errors as the storages."""
    epoch, there = Epoch(plan.epoch), present(plan, target)
    missing = {each for each in plan.files if each not in there and layout.is_needed(each.name, epoch)}
    if not missing:
        return True
    folders = (*layout.LOG_FOLDERS, log_layout.DELTAS, log_layout.SNAPSHOTS)
    log = (Listed(layout.LOG + each.name, each.bytes) for folder in folders for each in source.log.storage.list(folder))
    found = {CopiedFile(*each) for each in (*log, *spark_files(source, epoch))}
    return {each for each in missing if each.name != layout.LOG + log_layout.FORMAT} <= found


def present(plan: Savepoint, files: Storage) -> set[CopiedFile]:
    """The files of a savepoint that are there in their size. Errors as the storage."""
    return set(plan.files) & {CopiedFile(*each) for each in files.list("")}


def check_opens(files: Storage, plan: Savepoint) -> None:
    """Raise unless the log in the copy can be loaded, ends with the epoch, and has every file that it names.

    Raises:
        LogDamaged, ForeignLog: it cannot.
    """
    log = Folder(files, layout.LOG)
    format = formats.read_format(log)
    if format is None:
        raise LogFileMissing(f"{log_layout.FORMAT} is not at {log.url}")
    index = loading.load(log, format).index
    if index.last != plan.epoch:
        raise LogDamaged(f"the log at {log.url} ends with epoch {index.last}, not {plan.epoch}")
    copied = {each.name for each in plan.files}
    if missing := [name for name in sorted(retention.named_files(index)) if layout.LOG + name not in copied]:
        raise LogFileMissing(f"{missing[0]} is not at {log.url}")
