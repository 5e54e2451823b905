"""From files to an index: the newest whole manifest, then the records after it. Only reads.

A damaged or missing manifest is replaced by the one before it, or by the records from the very first on; a damaged or
missing record by nothing: then the log is refused, and the message names the file. A driver that still runs may be
deleting old files meanwhile, so a missing file is believed only if a second listing agrees.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from binshift.errors import LogDamaged, LogFileMissing
from binshift.log import layout, manifests, records, retention
from binshift.log.formats import LogFormat
from binshift.log.index import Index
from binshift.log.storage import Storage
from binshift.model import Epoch

LOAD_TRIES_MAX = 5
"""How often loading begins again because a living driver's retention was faster."""

READS_AT_ONCE = 8
"""Records read concurrently: on S3 each costs tens of milliseconds of waiting."""


@dataclass(frozen=True, slots=True)
class Loaded:
    """What was found.

    Attributes:
        index: the log as of its last record, from its floor on.
        warnings: what was damaged and could be done without.
    """

    index: Index
    warnings: tuple[str, ...] = ()


def load(storage: Storage, format: LogFormat) -> Loaded:
    """Read the log.

    Raises:
        LogDamaged: a record is missing or damaged, or contradicts those before it.
        ForeignLog: another version of binshift wrote a part of it.
    """
    before, tries = None, 0
    while True:
        tries += 1
        listed = (_epochs(storage, layout.RECORDS), _epochs(storage, layout.MANIFESTS))
        try:
            return _load(storage, format, *listed)
        except LogFileMissing:
            if listed == before or tries == LOAD_TRIES_MAX:
                raise
            before = listed


def catch_up(storage: Storage, index: Index) -> Index:
    """The index with the records written since it was loaded. Errors as `load`."""
    newer = [epoch for epoch in _epochs(storage, layout.RECORDS) if epoch > index.last]
    return _applied(storage, index, newer)


def _load(storage: Storage, format: LogFormat, recorded: list[Epoch], whole: list[Epoch]) -> Loaded:
    if not recorded:
        if whole:
            raise LogDamaged(
                f"{layout.record_name(whole[-1])} is missing, and all other records; restore {layout.RECORDS}"
            )
        return Loaded(Index.new(format.bins, format.operator_names))
    index, warnings = _newest_manifest(storage, format, [each for each in whole if each <= recorded[-1]])
    if index is None:
        index = Index.new(format.bins, format.operator_names)
        if recorded[0] > 0 and warnings:
            raise LogDamaged(f"{warnings[0]}; the records before epoch {recorded[0]}, which it replaces, are gone")
    index = _applied(storage, index, [epoch for epoch in recorded if epoch > index.last])
    warnings += [f"{layout.manifest_name(epoch)} is missing" for epoch in index.manifests if epoch not in whole]
    # The driver before may have deleted what lies below this floor, and nothing above it.
    return Loaded(retention.trimmed(index, retention.floor(index, index.last)), tuple(warnings))


def _newest_manifest(storage: Storage, format: LogFormat, epochs: list[Epoch]) -> tuple[Index | None, list[str]]:
    warnings: list[str] = []
    for epoch in reversed(epochs):
        name = layout.manifest_name(epoch)
        try:
            data = storage.get(name)
            return manifests.decode_manifest(name, data, format.bins, format.operator_names), warnings
        except LogDamaged as error:
            warnings.append(str(error))
    return None, warnings


def _applied(storage: Storage, index: Index, epochs: list[Epoch]) -> Index:
    """The index after the records of ``epochs``, ascending."""
    first = epochs[0] if index.empty and epochs else index.last + 1
    for expected, epoch in enumerate(epochs, start=first):
        if expected != epoch:
            raise LogDamaged(f"{layout.record_name(Epoch(expected))} is missing at {storage.url}")
    for name, data in _read(storage, [layout.record_name(epoch) for epoch in epochs]):
        index = index.apply(records.decode_record(name, data))
    return index


def _read(storage: Storage, names: list[str]) -> Iterator[tuple[str, bytes]]:
    if len(names) < 2:
        yield from ((name, storage.get(name)) for name in names)
        return
    with ThreadPoolExecutor(READS_AT_ONCE) as pool:
        for at in range(0, len(names), READS_AT_ONCE):
            some = names[at : at + READS_AT_ONCE]
            yield from zip(some, pool.map(storage.get, some), strict=True)


def _epochs(storage: Storage, folder: str) -> list[Epoch]:
    found: Iterable[layout.FileName | None] = (layout.parse(each.name) for each in storage.list(folder))
    return sorted(Epoch(file.number) for file in found if file is not None)
