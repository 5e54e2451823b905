"""Is everything there that the log promises? Reads every file that counts; changes nothing.

The guarantee is invariant I4: each bin can be rebuilt at the last recorded epoch and at the one before. `verify` gets the files
from the index, reads them to the last byte, and reports for each fault the file, the reason, and the number of bins that are
lost. It continues after a fault, so that one run reports all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal

import msgspec

from binshift.errors import ForeignLog, LogDamaged, LogError, LogFileMissing
from binshift.log.files import reading
from binshift.log.index import loading, manifests, retention
from binshift.log.index.index import Index
from binshift.log.records import commits, formats, outputs, owners, schemas, terms
from binshift.log.records.commits import CommitRecord, FileRef
from binshift.log.records.formats import LogFormat
from binshift.log.records.targets import Targets
from binshift.log.storage import layout
from binshift.log.storage.contract import Listed, Storage
from binshift.log.storage.layout import FileName
from binshift.model import BinSet, Epoch, Term

Fault = Literal["missing", "damaged", "foreign", "unbuildable"]


class Finding(msgspec.Struct, frozen=True):
    """Something that is not as it should be.

    Attributes:
        fault: the file is not there, altered, not the log's; or bins cannot be rebuilt at all.
        name: the file, or the operator whose bins cannot be rebuilt.
        message: what exactly.
        bins: how many bins cannot be rebuilt because of it.
    """

    fault: Fault
    name: str
    message: str
    bins: int = 0


def verify(storage: Storage) -> list[Finding]:
    """Everything wrong with the log in ``storage``; empty if nothing is.

    Raises:
        StorageUnavailable, InvalidSettings: the store did not answer, or refuses access.
    """
    try:
        format = formats.read_format(storage)
    except LogError as error:
        return [_finding(layout.FORMAT, error)]
    if format is None:
        return [Finding("missing", layout.FORMAT, f"there is no log at {storage.url}")]
    listed = list(storage.list(""))
    found = _Found()
    findings = [*_foreign(listed), *_small_files(storage, format, listed, found), *_gaps(listed, found)]
    findings += _contradictions(found)
    try:
        loaded = loading.load(storage, format)
    except LogError as error:
        return _once([*findings, _finding(_named_in(error), error)])
    findings += [Finding(_fault_of(text), _named_in(text), text) for text in loaded.warnings]
    findings += _ahead(loaded.index, listed)
    findings += _superseded(loaded.index, found)
    findings += _data_files(storage, loaded.index, {each.name: each.bytes for each in listed})
    return _once(findings)


@dataclass
class _Found:
    """The content of the readable small files: records, and the last record of each manifest (by fingerprint)."""

    records: dict[Epoch, CommitRecord] = field(default_factory=dict)
    manifests: dict[Epoch, str] = field(default_factory=dict)


def _foreign(listed: list[Listed]) -> Iterator[Finding]:
    for each in listed:
        if layout.parse(each.name) is None:
            yield Finding("foreign", each.name, f"{each.name} is no file of the log; binshift leaves it alone")


def _small_files(storage: Storage, format: LogFormat, listed: list[Listed], found: _Found) -> Iterator[Finding]:
    """Reads all that is not rows."""
    for each in listed:
        file = layout.parse(each.name)
        try:
            if file is not None:
                _read_small_file(storage, format, each.name, file, found)
        except LogFileMissing:
            continue  # a living driver has deleted it since; what is needed is checked on its own
        except LogError as error:
            yield _finding(each.name, error)


def _read_small_file(storage: Storage, format: LogFormat, name: str, file: FileName, found: _Found) -> None:
    match file.kind:
        case "records":
            found.records[Epoch(file.number)] = commits.decode_record(name, storage.get(name))
        case "manifests":
            data = storage.get(name)
            index = manifests.decode_manifest(name, data, format.bins, format.operator_names, format.fingerprint)
            found.manifests[index.last] = index.tip
        case "terms":
            terms.read_term(storage, Term(file.number))
        case "schemas":
            schemas.read_schemas(storage, file.number)
        case "targets":
            Targets(storage).read(file.number)
        case "owner":
            owners.read(storage)
        case "outputs":
            outputs.read(storage, name)
        case _:
            pass


def _gaps(listed: list[Listed], found: _Found) -> Iterator[Finding]:
    """Files with a number have no gaps: of records and targets the oldest go first, of terms none ever goes."""
    numbers: dict[str, set[int]] = {"records": set(), "targets": set(), "terms": set(), "schemas": {0}}
    for each in listed:
        if (file := layout.parse(each.name)) and file.kind in numbers:
            numbers[file.kind].add(file.number)
    names: dict[str, Callable[[int], str]] = {
        "records": lambda number: layout.record_name(Epoch(number)),
        "targets": layout.target_name,
        "schemas": layout.schemas_name,
    }
    for kind, name_of in names.items():
        there = numbers[kind]
        for number in sorted(set(range(min(there, default=0), max(there, default=0))) - there):
            name = name_of(number)
            yield Finding("missing", name, f"{name} is missing: there are {kind} before it and after it")
    newest = max([0, *numbers["terms"], *(record.term for record in found.records.values())])
    for term in sorted(set(range(1, newest + 1)) - numbers["terms"]):
        name = layout.term_name(Term(term))
        yield Finding("missing", name, f"{name} is missing; the next driver to open the log rewrites it")


def _ahead(index: Index, listed: list[Listed]) -> Iterator[Finding]:
    """No driver writes for an epoch before the previous epoch is recorded."""
    ahead = [file.number for each in listed if (file := layout.parse(each.name)) and file.kind == "deltas"]
    missing = layout.record_name(Epoch(index.last + 1))
    if ahead and max(ahead) > index.last + 1 and not index.empty:
        yield Finding("missing", missing, f"{missing} is missing: there are deltas of epoch {max(ahead)}")


def _contradictions(found: _Found) -> Iterator[Finding]:
    """Each record follows the one before it, and a manifest ends with the record of its epoch."""
    for epoch, record in found.records.items():
        name, after = layout.record_name(epoch), layout.record_name(Epoch(epoch + 1))
        fingerprint = commits.fingerprint(record)
        if (follower := found.records.get(Epoch(epoch + 1))) is not None and follower.previous != fingerprint:
            yield Finding("damaged", name, f"{name} is not what {after} follows: {_ONE_IS_STRANGE}")
        if found.manifests.get(epoch, fingerprint) != fingerprint:
            manifest = layout.manifest_name(epoch)
            yield Finding("damaged", manifest, f"{manifest} does not end with {name}: {_ONE_IS_STRANGE}")


_ONE_IS_STRANGE = "one of the two is from another log or from another time"


def _superseded(index: Index, found: _Found) -> Iterator[Finding]:
    """Records that a manifest replaces must agree with it."""
    for epoch, record in index.records.items():
        there = found.records.get(epoch)
        if there is not None and commits.fingerprint(there) != commits.fingerprint(record):
            name = layout.record_name(epoch)
            yield Finding("damaged", name, f"{name} is another record of its epoch than the one that counts: remove it")


def _data_files(storage: Storage, index: Index, sizes: Mapping[str, int]) -> Iterator[Finding]:
    """Every delta and snapshot that counts, to the last byte; and whether they lead every bin to the last two epochs."""
    needed = {name: (file, BinSet()) for name, file in retention.named_files(index).items()}
    every = BinSet.from_ranges([(0, index.bins - 1)])
    for operator in index.operators:
        for to in {index.last, max(index.last - 1, index.base)}:
            try:
                plan = index.sources(operator, every, {}, Epoch(to))
            except LogDamaged as error:
                yield Finding("unbuildable", operator, str(error), index.bins)
                continue
            for part in plan.parts:
                file, before = needed[part.file.name]
                needed[part.file.name] = (file, before | part.bins)
    for file, bins in needed.values():
        try:
            _read_data_file(storage, file, sizes.get(file.name, file.bytes))
        except LogError as error:
            found = _finding(file.name, error)
            yield Finding(found.fault, found.name, found.message, len(bins))


def _read_data_file(storage: Storage, file: FileRef, size: int) -> None:
    rows = sum(batch.num_rows for batch in reading.read_all(storage, file))
    if rows != file.rows:
        raise LogDamaged(f"{file.name} has {rows} rows; {file.rows} are recorded")
    if size != file.bytes:
        raise LogDamaged(f"{file.name} has {size} bytes; {file.bytes} are recorded")


def orphans(index: Index, listed: list[Listed]) -> list[Listed]:
    """Deltas and snapshots of epochs that are recorded, which no record names: they count for nothing."""
    named = retention.named_files(index)
    parsed = [(each, layout.parse(each.name)) for each in listed if each.name not in named]
    return [
        each
        for each, file in parsed
        if file is not None and file.kind in ("deltas", "snapshots") and index.base < file.number <= index.last
    ]


def _finding(name: str, error: LogError) -> Finding:
    match error:
        case LogFileMissing():
            fault: Fault = "missing"
        case ForeignLog():
            fault = "foreign"
        case _:
            fault = "damaged"
    return Finding(fault, name, str(error))


def _named_in(error: LogError | str) -> str:
    """The messages of this package begin with the file's name."""
    return str(error).split(" ", 1)[0]


def _fault_of(text: str) -> Fault:
    return "missing" if " is missing" in text or " is not at " in text else "damaged"


def _once(findings: list[Finding]) -> list[Finding]:
    """The first finding for each file: reading it twice gives no second fault."""
    return list({each.name: each for each in reversed(findings)}.values())[::-1]
