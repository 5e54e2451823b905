"""Manifests: every record that is still needed, in one file, so that a restart reads one file and not hundreds.

A manifest of epoch M holds the index's base (its route, and which bins were still empty) and the records after it up to
M. Loading one *is* applying these records, with all their checks; there is no second way to build an index.
A manifest is valid as soon as it is complete, as it has nothing that the records had not; a record that names it allows the
records before it to be deleted.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import msgspec

from binshift.errors import InvalidRoute, LogDamaged
from binshift.invariants import invariant
from binshift.log.index import held
from binshift.log.index.index import Index
from binshift.log.records import binsets, envelope
from binshift.log.records.commits import Assignment, CommitRecord, whole_route
from binshift.log.records.envelope import FORMAT_VERSION
from binshift.log.storage import layout
from binshift.model import Epoch

MANIFEST_BYTES_MAX = 1024 * 1024 * 1024
"""Largest manifest: the records between the floor and the last epoch, all in one."""

REPLACED = "the one before it and the records since replace it, if they are there"
"""How to repair a damaged manifest: usually no action is needed."""


class Manifest(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """An index as of ``epoch``.

    Attributes:
        root: of the log it belongs to, see `Index.root`.
        epoch: of the last record in it.
        base: of the index; the records begin after it.
        base_route: empty while the log still has its first record.
        base_route_version: of that route.
        base_tip: see `Index.base_tip`.
        untouched: by operator, the bins without rows up to the base.
        base_manifests: the newest named by records up to the base.
        records: ``base + 1`` to ``epoch``.
    """

    format: int = FORMAT_VERSION
    root: str
    epoch: int
    base: int
    base_route: tuple[Assignment, ...]
    base_route_version: int
    base_tip: str
    untouched: dict[str, str]
    base_manifests: tuple[int, ...]
    records: tuple[CommitRecord, ...]


_decoder = msgspec.json.Decoder(Manifest)


def encode_manifest(index: Index, epoch: Epoch) -> bytes:
    """The file for the index as it was after ``epoch``.

    Raises:
        StateTooLarge: more than `MANIFEST_BYTES_MAX`.
        InvariantViolated: the index does not hold the record of ``epoch``.
    """
    invariant(epoch in index.records, f"epoch {epoch} is not held; {index.base + 1} to {index.last} are")
    records = tuple(index.records[Epoch(e)] for e in range(index.base + 1, epoch + 1))
    manifest = Manifest(
        root=index.root,
        epoch=epoch,
        base=index.base,
        base_route=whole_route(index.base_route) if index.base_route else (),
        base_route_version=index.base_route.version if index.base_route else 0,
        base_tip=index.base_tip,
        untouched={name: binsets.pack(bins) for name, bins in index.untouched.items()},
        base_manifests=index.base_manifests,
        records=records,
    )
    return envelope.encode(layout.manifest_name(epoch), manifest, MANIFEST_BYTES_MAX)


def decode_manifest(name: str, data: bytes, bins: int, operators: Iterable[str], root: str = "") -> Index:
    """The index in the file ``name`` of a log with so many bins, these operators and this root.

    Raises:
        LogDamaged: it was altered or cut off, is of another log, of another epoch than in its name, or contradicts itself.
        ForeignLog: another version of binshift wrote it.
    """
    manifest = envelope.decode(name, data, _decoder, MANIFEST_BYTES_MAX, REPLACED)
    index = Index.new(bins, operators, root)
    if manifest.root != root:
        raise LogDamaged(f"{name} belongs to another log than {layout.FORMAT}: {REPLACED}")
    if sorted(manifest.untouched) != sorted(index.operators):
        raise LogDamaged(f"{name} is of the operators {sorted(manifest.untouched)}, not of {sorted(index.operators)}")
    if manifest.base_route:
        try:
            route = held.whole_route(bins, manifest.base_route, manifest.base_route_version)
            untouched = {operator: binsets.unpack(packed) for operator, packed in manifest.untouched.items()}
        except (InvalidRoute, ValueError) as error:
            raise LogDamaged(f"{name} begins with a route or bins that cannot be: {error}") from error
        named = tuple(Epoch(each) for each in manifest.base_manifests)
        index = replace(
            index,
            base=Epoch(manifest.base),
            base_route=route,
            base_tip=manifest.base_tip,
            untouched=untouched,
            base_manifests=named,
            manifests=named,
            route=route,
        )
    for record in manifest.records:
        index = index.apply(record)
    if name != layout.manifest_name(index.last) or manifest.epoch != index.last:
        raise LogDamaged(f"{name} ends with epoch {index.last}")
    return index
