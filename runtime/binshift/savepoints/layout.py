"""Which files belong to a savepoint of epoch N. Pure.

```
snapshot.begun.json       what is to be copied; written first, removed last
metadata, sources/...     Spark's, as they are
offsets/<n>, commits/<n>  Spark's, up to N
binshift/...              of the log: all that opens it at N and at N - 1 (invariant I4)
snapshot.json             what was copied; written last, removed first
```

Of the log, the format, schemas, the terms up to the driver's own, the records and manifests from the older of the two newest manifests
on, and the data files that the index at N names. Terms are files of the past: the next driver takes a higher one, and the attempt ids in
the records keep their meaning. Owner and targets are another dataflow's, and the choices of result files (``outputs``) are of epochs
that Spark has committed, which never run again.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from binshift.log.index import retention
from binshift.log.index.index import MANIFESTS_KEPT, Index
from binshift.log.storage import layout
from binshift.log.storage.contract import Listed
from binshift.model import Epoch, Term

DESCRIPTION = "snapshot.json"
BEGUN = "snapshot.begun.json"
RESTORED = "restored.json"
"""In a checkpoint that was made of a savepoint: which one. Written first."""

METADATA = "metadata"
"""Spark's; a checkpoint has a query if and only if it has this file."""
OFFSETS, COMMITS, SOURCES, LOG = "offsets/", "commits/", "sources/", "binshift/"
LOG_FOLDERS = (layout.SCHEMAS, layout.TERMS, layout.RECORDS, layout.MANIFESTS)
"""Folders of the log that must be listed; the data files are named by the index."""

_BATCH = re.compile(rf"(?:{OFFSETS}|{COMMITS})(?P<number>[0-9]{{1,18}})")
_COPIED = ("format", "schemas", "terms", "records", "manifests", "deltas", "snapshots")


def belongs(name: str) -> bool:
    """Whether a file can be part of a savepoint, apart from its two descriptions.

    >>> [belongs(name) for name in ("metadata", "offsets/7", "binshift/format.json", "binshift/owner.json", "notes.txt")]
    [True, True, True, False, False]
    """
    if name.startswith(LOG):
        file = layout.parse(name.removeprefix(LOG))
        return file is not None and file.kind in _COPIED
    return name == METADATA or _BATCH.fullmatch(name) is not None or is_source(name)


def is_source(name: str) -> bool:
    """Whether a source of Spark keeps this file; names with a dot are checksums and unfinished files of Hadoop."""
    return name.startswith(SOURCES) and not any(part.startswith(".") for part in name.split("/"))


def batch_of(name: str) -> Epoch | None:
    """The batch whose offsets or commit this is."""
    found = _BATCH.fullmatch(name)
    return Epoch(int(found["number"])) if found else None


def spark_files(listed: Iterable[Listed], epoch: Epoch) -> list[Listed]:
    """Spark's part among ``listed``, the newest batches first: Spark removes the oldest while they are copied."""
    batches: list[tuple[int, Listed]] = []
    others: list[Listed] = []
    for each in listed:
        number = batch_of(each.name)
        if number is None and (each.name == METADATA or is_source(each.name)):
            others.append(each)
        elif number is not None and number <= epoch:
            batches.append((number, each))
    return [each for _, each in sorted(batches, key=lambda found: -found[0])] + others


def is_needed(name: str, epoch: Epoch) -> bool:
    """Whether a query cannot start at ``epoch`` without this file: all but sources and old batches, which Spark removes.

    >>> [is_needed(name, Epoch(7)) for name in ("offsets/7", "offsets/6", "commits/6", "sources/0/0")]
    [True, True, False, False]
    """
    batch = batch_of(name)
    if batch is not None:
        return batch == epoch or (batch == epoch - 1 and name.startswith(OFFSETS))
    return not is_source(name)


def log_files(index: Index, listed: Iterable[Listed], term: Term) -> Iterator[Listed]:
    """The log's part, by its names within the log; ``index`` ends with the savepoint's epoch.

    Args:
        index: of that epoch.
        listed: the files in `LOG_FOLDERS`, and the format.
        term: of the driver; files of later ones are left out.
    """
    first = index.manifests[0] if len(index.manifests) == MANIFESTS_KEPT else 0
    for each in listed:
        file = layout.parse(each.name)
        match file.kind if file else None:
            case "format" | "schemas":
                yield each
            case "terms" if file and file.number <= term:
                yield each
            case "records" | "manifests" if file and first <= file.number <= index.last:
                yield each
    named = retention.named_files(index)
    yield from (Listed(name, named[name].bytes) for name in sorted(named.keys() - index.unusable))
