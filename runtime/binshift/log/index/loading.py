"""From files to an index: the newest whole manifest, then the records after it. Only reads.

A damaged or missing manifest is replaced by the one before it, or by the records from the very first on; a damaged or
missing record by a manifest of its epoch or a later one, if there is one; else the log is refused, and the message names
the file. What belongs to another log, or to another history of this one, counts as damaged: records name what they follow. A driver that still runs may be
deleting old files meanwhile, so a missing file is believed only if a second listing agrees.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from binshift.errors import LogDamaged, LogFileMissing, reading
from binshift.log.index import manifests, retention
from binshift.log.index.index import Index
from binshift.log.records import commits
from binshift.log.records.formats import LogFormat
from binshift.log.storage import layout
from binshift.log.storage.contract import Storage
from binshift.model import Epoch, Term

LOAD_TRIES_MAX = 5
"""How often loading begins again because a living driver's retention was faster."""


@dataclass(frozen=True, slots=True)
class Loaded:
    """What was found.

    Attributes:
        index: the log as of its last record, from its floor on.
        warnings: damaged files that were not needed.
    """

    index: Index
    warnings: tuple[str, ...] = ()


def load(storage: Storage, format: LogFormat, unusable: frozenset[str] = frozenset()) -> Loaded:
    """Read the log, to do without the ``unusable`` among its data files: what replaces them is kept in the index.

    Raises:
        LogDamaged: a record is missing or damaged, or contradicts those before it.
        ForeignLog: another version of binshift wrote a part of it.
    """
    before, tries = None, 0
    while True:
        tries += 1
        listed = (_epochs(storage, layout.RECORDS), _epochs(storage, layout.MANIFESTS))
        try:
            return _load(storage, format, unusable, *listed)
        except LogFileMissing:
            if listed == before or tries == LOAD_TRIES_MAX:
                raise
            before = listed


def catch_up(storage: Storage, index: Index) -> Index:
    """The index with the records written since it was loaded. Errors as `load`."""
    newer = [epoch for epoch in _epochs(storage, layout.RECORDS) if epoch > index.last]
    return _applied(storage, index, newer)


def _load(
    storage: Storage, format: LogFormat, unusable: frozenset[str], recorded: list[Epoch], whole: list[Epoch]
) -> Loaded:
    index, warnings = _newest_manifest(storage, format, whole)
    if index is None:
        index = Index.new(format.bins, format.operator_names, format.fingerprint)
        if whole and not recorded:
            name = layout.record_name(whole[-1])
            raise LogDamaged(f"{name} is missing, and all other records, and {warnings[0]}").about(file=name)
        if recorded and recorded[0] > 0 and warnings:
            raise LogDamaged(f"{warnings[0]}; the records before epoch {recorded[0]}, which it replaces, are gone")
    index = _applied(storage, index, [epoch for epoch in recorded if epoch > index.last])
    warnings += [f"{layout.manifest_name(epoch)} is missing" for epoch in index.manifests if epoch not in whole]
    index = replace(index, unusable=unusable)
    # The driver before may have deleted what lies below this floor, and nothing above it.
    return Loaded(retention.trimmed(index, retention.floor(index, index.last)), tuple(warnings))


def _newest_manifest(storage: Storage, format: LogFormat, whole: list[Epoch]) -> tuple[Index | None, list[str]]:
    """The newest manifest that is whole and this log's. It is newer than the last record if that was lost: it has it."""
    warnings: list[str] = []
    for epoch in reversed(whole):
        name = layout.manifest_name(epoch)
        try:
            data = storage.get(name)
            index = manifests.decode_manifest(name, data, format.bins, format.operator_names, format.fingerprint)
            warnings += _replaced_record(storage, index)
        except LogDamaged as error:
            warnings.append(str(error))
        else:
            return index, warnings
    return None, warnings


def _replaced_record(storage: Storage, index: Index) -> list[str]:
    """What is wrong with the record that a manifest ends with, which the manifest replaces.

    Raises:
        LogDamaged: the two are not of one history, and it is the manifest that is not believed.
    """
    name = layout.record_name(index.last)
    try:
        record = commits.decode_record(name, storage.get(name))
    except LogDamaged as error:
        return [f"{error} (the manifest of its epoch has its content)"]
    if commits.fingerprint(record) != index.tip:
        raise LogDamaged(
            f"{layout.manifest_name(index.last)} ends with another record of its epoch than {name}: one of the two is from "
            f"another time; {manifests.REPLACED}"
        )
    return []


def _applied(storage: Storage, index: Index, epochs: list[Epoch]) -> Index:
    """The index after the records of ``epochs``, ascending."""
    first = epochs[0] if index.empty and epochs else index.last + 1
    for expected, epoch in enumerate(epochs, start=first):
        if expected != epoch:
            name = layout.record_name(Epoch(expected))
            raise LogDamaged(f"{name} is missing at {storage.url}").about(file=name, epoch=expected)
    names = [layout.record_name(epoch) for epoch in epochs]
    for epoch, name, data in zip(epochs, names, storage.get_all(names), strict=True):
        with reading(name, epoch=epoch):
            index = index.apply(commits.decode_record(name, data))
    return index


def _epochs(storage: Storage, folder: str) -> list[Epoch]:
    found: Iterable[layout.FileName | None] = (layout.parse(each.name) for each in storage.list(folder))
    return sorted(Epoch(file.number) for file in found if file is not None)


def highest_term(storage: Storage, index: Index) -> Term:
    """Of the drivers that have left anything but their term's own file: a record, or a delta of the epoch to come."""
    recorded = index.records[index.last].term if index.records else 0
    coming = storage.list(layout.deltas_of(Epoch(index.last + 1)))
    return Term(max([recorded, *(file.term for each in coming if (file := layout.parse(each.name)))]))
