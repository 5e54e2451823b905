"""Starts a query from a savepoint: copies it into an empty checkpoint, before anything else is written there.

`RESTORED` is written first and names the savepoint; Spark's ``metadata`` is written last. A checkpoint without ``metadata`` has no query yet:
the next start with the same setting finishes the copy. The savepoint is only read.
"""

from __future__ import annotations

import logging

from binshift.errors import InvalidSettings, LogError
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
        origin = Origin(url=source.url, name=savepoint.name, query=savepoint.query, epoch=savepoint.epoch)
        _claim(checkpoint, origin)
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


def _claim(checkpoint: Storage, origin: Origin) -> None:
    """Make the directory of the checkpoint one of this savepoint; what an unfinished copy of another one has left is removed."""
    before = records.origin(checkpoint)
    if before is not None and before != origin:
        removing.clear(checkpoint, [], [layout.RESTORED])
        before = None
    if before is None and (other := next((each.name for each in checkpoint.list("")), None)) is not None:
        raise InvalidSettings(
            f"binshift.restoreFrom needs an empty checkpoint, and {checkpoint.url} has {other!r} without a query: remove it, or "
            "choose another checkpointLocation"
        )
    removing.clear_unfinished(checkpoint)
    checkpoint.put_if_absent(layout.RESTORED, records.encode(layout.RESTORED, origin))


def _copy(source: Storage, checkpoint: Storage, savepoint: Savepoint) -> None:
    there, pace = present(savepoint, checkpoint), Pace()
    last = [each for each in savepoint.files if each.name == layout.METADATA]

    def copy(file: CopiedFile) -> None:
        copy_file(source, file.name, file.bytes, checkpoint, file.name, pace)

    each_of([each for each in savepoint.files if each not in there and each not in last], copy)
    each_of(last, copy)
