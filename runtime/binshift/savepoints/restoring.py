"""Starts a query from a savepoint: copies it into an empty checkpoint, before anything else is written there.

`RESTORED` is written first and names the savepoint; Spark's ``metadata`` is written last. A checkpoint without ``metadata`` has no query yet:
the next start with the same setting finishes the copy. The savepoint is only read.
"""

from __future__ import annotations

import logging
import uuid

from binshift.errors import InvalidSettings, LogError
from binshift.log.storage import layout as log_layout
from binshift.log.storage.contract import Storage
from binshift.log.storage.locations import check_location, overlaps
from binshift.log.storage.opening import open_storage
from binshift.savepoints import layout, records, removing
from binshift.savepoints.copying import Gone, Pace, copy_file, each_of
from binshift.savepoints.planning import present
from binshift.savepoints.records import CopiedFile, Origin, Savepoint

logger = logging.getLogger(__name__)


def restore(checkpoint: Storage, location: str, given: str, query_name: str | None) -> Origin | None:
    """Copy the savepoint at ``given`` into the checkpoint at ``location``; None if the checkpoint has a query already.

    Args:
        checkpoint: the files at ``location``.
        location: the checkpoint's.
        given: where the savepoint is, or the savepoints of a program's queries by their names.
        query_name: of the query that starts.

    Raises:
        InvalidSettings: there is no complete savepoint, or the checkpoint has other files.
        StorageUnavailable, DiskFull: a storage did not answer; the next start continues.
    """
    if checkpoint.exists(layout.METADATA):
        logger.info("%s has a query, which continues: binshift.restoreFrom=%s has no effect", checkpoint.url, given)
        return None
    if overlaps(location, given):
        raise InvalidSettings(f"binshift.restoreFrom={given} is inside the checkpoint {location}, or contains it")
    try:
        source, savepoint = _find(check_location(given), query_name)
        origin = _claim(checkpoint, source.url, savepoint)
        _copy(source, checkpoint, savepoint)
    except (LogError, Gone) as error:
        raise InvalidSettings(f"binshift.restoreFrom={given} is not a complete snapshot: {error}") from error
    logger.info("%s begins after epoch %d of the snapshot %s at %s", checkpoint.url, origin.epoch, origin.name, given)
    return origin


def place_of(location: str, query_name: str) -> str:
    """Where a program's savepoint at ``location`` has the query of that name.

    >>> place_of("s3a://bucket/monday/", "clicks")
    's3a://bucket/monday/clicks'
    """
    return f"{location.rstrip('/')}/{query_name}"


def _find(given: str, query_name: str | None) -> tuple[Storage, Savepoint]:
    """The savepoint at a location, or the one of this query below it."""
    places = [given, *([place_of(given, query_name)] if query_name else [])]
    for place in places:
        files = open_storage(place)
        found = records.complete(files)
        if found is None:
            continue
        there = present(found, files)
        missing = [each.name for each in found.files if each not in there]
        if missing:
            raise InvalidSettings(
                f"binshift.restoreFrom={place} is not a complete snapshot: {len(missing)} of its {len(found.files)} files are "
                f"missing or have another size, such as {missing[0]}"
            )
        return files, found
    raise InvalidSettings(
        f"binshift.restoreFrom={given} is not a complete snapshot: {_described(open_storage(given))}"
        + (f", and it has none of the query {query_name!r}" if query_name else "")
    )


def _described(files: Storage) -> str:
    """What is at a location instead of a savepoint."""
    if (begun := records.begun(files)) is not None:
        return f"{files.url} has the unfinished snapshot {begun.name!r} of epoch {begun.epoch}"
    first = next((each.name for each in files.list("")), None)
    if files.exists(layout.METADATA):
        return f"{files.url} has a checkpoint without {layout.DESCRIPTION}"
    return f"{files.url} has no {layout.DESCRIPTION}" + (f", but {first!r}" if first else ": it is empty")


def check_begin(checkpoint: Storage) -> None:
    """Refuse a checkpoint that is a savepoint itself, or whose restoring has not ended; without `restore`.

    Raises:
        InvalidSettings: it is one of these.
    """
    if checkpoint.exists(layout.DESCRIPTION):
        raise InvalidSettings(
            f"{checkpoint.url} is a snapshot, which must not change: choose another checkpointLocation, with "
            f"binshift.restoreFrom={checkpoint.url}"
        )
    if checkpoint.exists(layout.RESTORED) and not checkpoint.exists(layout.METADATA):
        raise InvalidSettings(
            f"{checkpoint.url} was to begin with a snapshot, and the copy has not ended: set binshift.restoreFrom again, or "
            "remove the directory"
        )


def checkpoint_id(checkpoint: Storage, query: str) -> str:
    """What identifies a checkpoint: the id of its query, which a restored one shares with others, or an id of its own."""
    origin = records.origin(checkpoint)
    return query if origin is None else origin.checkpoint


def _claim(checkpoint: Storage, url: str, savepoint: Savepoint) -> Origin:
    """Make the directory of the checkpoint one of this savepoint; what an unfinished copy of another one has left is removed."""
    before = records.origin(checkpoint)
    if before is not None and not before.is_of(url, savepoint):
        if _has_run(checkpoint, before):
            raise InvalidSettings(
                f"{checkpoint.url} has epochs after {before.epoch}, with which it began, but no file {layout.METADATA}: restore that "
                "file from a backup, or choose another checkpointLocation"
            )
        removing.clear(checkpoint, [], [layout.RESTORED])
        before = None
    if before is None and (other := next((each.name for each in checkpoint.list("")), None)) is not None:
        raise InvalidSettings(
            f"binshift.restoreFrom needs an empty checkpoint, and {checkpoint.url} has {other!r} without a query: remove it, or "
            "choose another checkpointLocation"
        )
    removing.clear_unfinished(checkpoint)
    if before is not None:
        return before
    made = Origin(
        url=url, name=savepoint.name, query=savepoint.query, epoch=savepoint.epoch, checkpoint=str(uuid.uuid4())
    )
    checkpoint.put_if_absent(layout.RESTORED, records.encode(layout.RESTORED, made))
    return made


def _has_run(checkpoint: Storage, origin: Origin) -> bool:
    """Whether there are records of epochs after those of the savepoint that a checkpoint was made of."""
    found = (
        log_layout.parse(each.name.removeprefix(layout.LOG))
        for each in checkpoint.list(layout.LOG + log_layout.RECORDS)
    )
    return any(each is not None and each.number > origin.epoch for each in found)


def _copy(source: Storage, checkpoint: Storage, savepoint: Savepoint) -> None:
    there, pace = present(savepoint, checkpoint), Pace()
    last = [each for each in savepoint.files if each.name == layout.METADATA]

    def copy(file: CopiedFile) -> None:
        copy_file(source, file.name, file.bytes, checkpoint, file.name, pace)

    each_of([each for each in savepoint.files if each not in there and each not in last], copy)
    each_of(last, copy)
