"""Is everything there that the log promises? Reads every file that counts; changes nothing.

The promise is invariant I4: each bin can be rebuilt at the last recorded epoch and at the one before. `verify` takes it
literally: it asks the index for the files, reads them to the last byte, and says for each fault which file, what is wrong
with it, and how many bins it takes down. It goes on after a fault, so that one run tells all.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import msgspec

from binshift.errors import ForeignLog, LogDamaged, LogError, LogFileMissing
from binshift.log import blocks, formats, layout, loading, manifests, owners, records, retention, terms
from binshift.log.formats import LogFormat
from binshift.log.index import Index
from binshift.log.layout import FileName
from binshift.log.records import FileRef
from binshift.log.storage import Listed, Storage
from binshift.log.targets import Targets
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
    findings = [*_foreign(listed), *_small_files(storage, format, listed)]
    try:
        loaded = loading.load(storage, format)
    except LogError as error:
        return _once([*findings, _finding(_named_in(error), error)])
    findings += [Finding(_fault_of(text), _named_in(text), text) for text in loaded.warnings]
    findings += _ahead(loaded.index, listed)
    findings += _rebuilding(storage, loaded.index)
    return _once(findings)


def _foreign(listed: list[Listed]) -> Iterator[Finding]:
    for each in listed:
        if layout.parse(each.name) is None:
            yield Finding("foreign", each.name, f"{each.name} is no file of the log; binshift leaves it alone")


def _small_files(storage: Storage, format: LogFormat, listed: list[Listed]) -> Iterator[Finding]:
    for each in listed:
        file = layout.parse(each.name)
        try:
            if file is not None:
                _read_small_file(storage, format, each.name, file)
        except LogFileMissing:
            continue  # a living driver has deleted it since; what is needed is checked on its own
        except LogError as error:
            yield _finding(each.name, error)


def _read_small_file(storage: Storage, format: LogFormat, name: str, file: FileName) -> None:
    match file.kind:
        case "records":
            records.decode_record(name, storage.get(name))
        case "manifests":
            manifests.decode_manifest(name, storage.get(name), format.bins, format.operator_names)
        case "terms":
            terms.read_term(storage, Term(file.number))
        case "targets":
            Targets(storage).read(file.number)
        case "owner":
            owners.read(storage)
        case _:
            pass


def _ahead(index: Index, listed: list[Listed]) -> Iterator[Finding]:
    """Nobody writes for an epoch before the epoch before it is recorded."""
    ahead = [file.number for each in listed if (file := layout.parse(each.name)) and file.kind == "deltas"]
    missing = layout.record_name(Epoch(index.last + 1))
    if ahead and max(ahead) > index.last + 1 and not index.empty:
        yield Finding("missing", missing, f"{missing} is missing: there are deltas of epoch {max(ahead)}")


def _rebuilding(storage: Storage, index: Index) -> Iterator[Finding]:
    """Every file that leads some bin to the last epoch or to the one before it."""
    every = BinSet.from_ranges([(0, index.bins - 1)])
    needed: dict[str, tuple[FileRef, BinSet]] = {}
    for operator in index.operators:
        for to in {index.last, max(index.last - 1, index.base)}:
            try:
                plan = index.sources(operator, every, {}, Epoch(to))
            except LogDamaged as error:
                yield Finding("unbuildable", operator, str(error), index.bins)
                continue
            for part in plan.parts:
                before = needed.get(part.file.name, (part.file, BinSet()))[1]
                needed[part.file.name] = (part.file, before | part.bins)
    for file, bins in needed.values():
        try:
            rows = sum(batch.num_rows for batch in blocks.read_all(storage, file))
            if rows != file.rows:
                raise LogDamaged(f"{file.name} has {rows} rows; {file.rows} are recorded")
        except LogError as error:
            found = _finding(file.name, error)
            yield Finding(found.fault, found.name, found.message, len(bins))


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
    return list({(each.fault, each.name): each for each in reversed(findings)}.values())[::-1]
