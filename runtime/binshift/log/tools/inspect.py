"""A log seen from outside: ``inspect`` describes it, ``verify`` checks it. Works offline and changes nothing.

Both are functions that return plain structs; the command line around them (``python -m binshift.log.tools.inspect``, also
under ``binshift log``) prints these as text or JSON and ends with 1 if something is wrong.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Mapping, Sequence

import msgspec
import numpy as np

from binshift.errors import BinshiftError, ForeignLog
from binshift.log.index import loading
from binshift.log.index.index import Index
from binshift.log.records import formats
from binshift.log.records.targets import Target, Targets
from binshift.log.storage import layout
from binshift.log.storage.contract import Listed
from binshift.log.storage.opening import open_storage
from binshift.log.tools import verification
from binshift.log.tools.verification import Finding
from binshift.model import Worker

ORPHANS_SHOWN = 20


class Files(msgspec.Struct, frozen=True):
    """How much there is of one kind."""

    count: int
    bytes: int


class SnapshotAges(msgspec.Struct, frozen=True):
    """How old the newest snapshots of an operator's bins are, in epochs before the last.

    Attributes:
        newest: of the bin with the newest.
        median: half of the bins have a newer one.
        oldest: of the bin with the oldest; it holds the floor down.
        never: bins without any.
    """

    newest: int | None
    median: int | None
    oldest: int | None
    never: int


class LogSummary(msgspec.Struct, frozen=True, kw_only=True):
    """What a log holds.

    Attributes:
        term: of the newest driver.
        epoch: the last recorded one; -1: none.
        floor: the oldest epoch whose files are needed.
        files: by kind of file.
        worker_bins: how many bins each worker of the last epoch owns.
        snapshot_ages: by operator.
        orphans: deltas and snapshots that no record names and that retention will delete; at most `ORPHANS_SHOWN`.
        warnings: damaged files that are not needed.
    """

    url: str
    format: int
    query: str
    bins: int
    operators: tuple[str, ...]
    term: int
    epoch: int
    floor: int
    batch_time_ms: int | None
    route_version: int | None
    worker_bins: dict[int, int]
    watermark_ms: int | None
    files: dict[str, Files]
    manifests: tuple[int, ...]
    snapshot_ages: dict[str, SnapshotAges]
    orphans: tuple[str, ...]
    orphan_count: int
    orphan_bytes: int
    target: Target | None
    warnings: tuple[str, ...]


def inspect(url: str, options: Mapping[str, str] | None = None) -> LogSummary:
    """Describe the log at ``url``.

    Raises:
        ForeignLog: there is none.
        LogDamaged: it is too damaged to be described; `verify` reports details.
        StorageUnavailable, InvalidSettings: the store did not answer, or refuses access.
    """
    storage = open_storage(url, options)
    format = formats.read_format(storage)
    if format is None:
        raise ForeignLog(f"there is no log at {storage.url}: give the log's own folder inside the checkpoint")
    listed = list(storage.list(""))
    loaded = loading.load(storage, format)
    index = loaded.index
    last = index.records.get(index.last)
    owned = Counter(index.route.owners.tolist()) if index.route else Counter()
    lost = verification.orphans(index, listed)
    newest = Targets(storage).newest()
    unread = [f"{layout.target_name(newest.number)} cannot be read"] if newest.number and not newest.target else []
    return LogSummary(
        url=storage.url,
        format=format.format,
        query=format.query,
        bins=format.bins,
        operators=format.operator_names,
        term=max((f.number for each in listed if (f := layout.parse(each.name)) and f.kind == "terms"), default=0),
        epoch=index.last,
        floor=index.base + 1,
        batch_time_ms=last.batch_time_ms if last else None,
        route_version=last.route_version if last else None,
        worker_bins={worker: owned[Worker(worker)] for worker in (last.workers if last else ())},
        watermark_ms=last.watermark_ms or None if last else None,
        files=_files(listed),
        manifests=index.manifests,
        snapshot_ages={name: _ages(index, name) for name in index.operators},
        orphans=tuple(each.name for each in lost[:ORPHANS_SHOWN]),
        orphan_count=len(lost),
        orphan_bytes=sum(each.bytes for each in lost),
        target=newest.target,
        warnings=(*loaded.warnings, *unread),
    )


def verify(url: str, options: Mapping[str, str] | None = None) -> list[Finding]:
    """Everything wrong with the log at ``url``; see `binshift.log.tools.verification`."""
    return verification.verify(open_storage(url, options))


def _files(listed: list[Listed]) -> dict[str, Files]:
    counts: Counter[str] = Counter()
    sizes: Counter[str] = Counter()
    for each in listed:
        file = layout.parse(each.name)
        kind = file.kind if file else "foreign"
        counts[kind] += 1
        sizes[kind] += each.bytes
    return {kind: Files(counts[kind], sizes[kind]) for kind in sorted(counts)}


def _ages(index: Index, operator: str) -> SnapshotAges:
    epochs = index.snapshot_epochs(operator)
    ages = np.sort(index.last - epochs[epochs >= 0])
    never = int((epochs < 0).sum())
    if not ages.size:
        return SnapshotAges(None, None, None, never)
    return SnapshotAges(int(ages[0]), int(ages[ages.size // 2]), int(ages[-1]), never)


def describe(summary: LogSummary) -> str:
    """The summary as lines of text for people."""
    files = ", ".join(f"{each.count} {kind} ({each.bytes:,} bytes)" for kind, each in summary.files.items())
    lines = [
        f"log        {summary.url} (format {summary.format})",
        f"query      {summary.query}: {summary.bins} bins, operators {', '.join(summary.operators)}",
        f"epoch      {summary.epoch}, needed from {summary.floor} on; driver term {summary.term}",
        f"route      version {summary.route_version}; bins by worker: "
        + (", ".join(f"{worker}: {bins}" for worker, bins in summary.worker_bins.items()) or "none yet"),
        f"files      {files}",
        f"manifests  {', '.join(map(str, summary.manifests)) or 'none named'}",
    ]
    for name, ages in summary.snapshot_ages.items():
        spread = "none" if ages.newest is None else f"{ages.newest} to {ages.oldest} epochs old, median {ages.median}"
        lines.append(f"snapshots  {name}: {spread}; {ages.never} bins without")
    lines.append(f"watermark  {summary.watermark_ms or 'none'}")
    if summary.target:
        lines.append(f"target     workers {summary.target.workers}, generation {summary.target.generation}")
    lines.append(f"orphans    {summary.orphan_count} ({summary.orphan_bytes:,} bytes)")
    lines += [f"warning    {text}" for text in summary.warnings]
    return "\n".join(lines)


def describe_findings(findings: Sequence[Finding]) -> str:
    """The findings as lines of text for people."""
    lines = [
        f"{each.fault:<11} {each.message}" + (f" ({each.bins} bins cannot be rebuilt)" if each.bins else "")
        for each in findings
    ]
    return "\n".join(lines) or "nothing wrong: every bin can be rebuilt at the last epoch and at the one before"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of both commands."""
    parser.add_argument("command", choices=("inspect", "verify"))
    parser.add_argument("url", help="the log's folder: a path, file:// or s3://")
    add_storage_options(parser)
    parser.add_argument("--output", choices=("text", "json"), default="text")


def add_storage_options(parser: argparse.ArgumentParser) -> None:
    """Options of the log's storage; ``option`` of the parsed arguments has them as pairs."""
    parser.add_argument(
        "--option",
        action="append",
        default=[],
        type=lambda text: text.partition("=")[::2],
        metavar="NAME=VALUE",
        help="a storage option, such as endpoint=http://...",
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line; returns 0, or 1 if the log is not as it should be."""
    parser = argparse.ArgumentParser("binshift log", description="Inspect a log, or verify all of it.")
    add_arguments(parser)
    given = parser.parse_args(arguments)
    options = dict(given.option)
    try:
        if given.command == "inspect":
            summary = inspect(given.url, options)
            text, wrong, value = describe(summary), bool(summary.warnings), msgspec.to_builtins(summary, str_keys=True)
        else:
            findings = verify(given.url, options)
            text, wrong, value = describe_findings(findings), bool(findings), msgspec.to_builtins(findings)
    except BinshiftError as error:
        text, wrong, value = (
            f"{type(error).__name__}: {error}",
            True,
            {"error": type(error).__name__, "message": str(error), **error.fields},
        )
    shown = text if given.output == "text" else msgspec.json.format(msgspec.json.encode(value)).decode()
    sys.stdout.write(shown + "\n")
    return int(wrong)


if __name__ == "__main__":
    sys.exit(main())
