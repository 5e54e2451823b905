"""What retention may delete and what it must keep; the histories of test_log_index check that it keeps enough."""

from __future__ import annotations

import random

import pytest
from log_worlds import DictStorage, World

from binshift.errors import LogDamaged
from binshift.invariants import InvariantViolated
from binshift.log.index import retention
from binshift.log.storage import layout
from binshift.model import BinSet, Epoch, Term, Worker


def test_retention_leaves_what_may_count_soon() -> None:
    """Files of a newer term, of unrecorded epochs, pending snapshots and foreign names are never garbage."""
    world = World(DictStorage(), random.Random(2))
    for _ in range(4):
        world.epoch()
    orphan = layout.delta_name(Epoch(2), "count", Worker(0), "1.2.1.x")
    snapshot = layout.snapshot_name(Epoch(2), "count", Worker(0), "1.2.0.x", 1)
    keep = [
        layout.delta_name(Epoch(2), "count", Worker(0), "2.2.1.x"),
        layout.delta_name(Epoch(4), "count", Worker(0), "1.4.0.x"),
        layout.snapshot_name(Epoch(2), "count", Worker(0), "1.2.0.x", 2),
        *("format.json", "terms/00000000000000000001.json", "records/00000000000000000000.json"),
        *("notes.txt", "deltas/readme", "deltas/00000000000000000001/count-0-x.arrow"),
    ]
    listed = [orphan, snapshot, *keep, "probes/abc", ".partial/abc"]
    found = retention.garbage(world.index, listed, Epoch(0), Term(1), pending=keep[2:3])
    assert found == sorted([orphan, snapshot, "probes/abc", ".partial/abc"])


def test_records_go_only_behind_two_manifests() -> None:
    """Records are kept from the older of the two newest named manifests on, so that either can be loaded."""
    world = World(DictStorage(), random.Random(2))
    names = [layout.record_name(Epoch(e)) for e in range(9)]
    names += [layout.manifest_name(Epoch(e)) for e in range(9)]
    for epoch in range(6):
        world.manifest = {4: 2, 5: 4}.get(epoch, world.manifest)
        world.epoch()
        gone = retention.garbage(world.index, names, Epoch(0), Term(1))
        assert gone == ([] if epoch < 5 else sorted(n for n in names if int(n[-10:-5]) < 2))


def test_what_is_gone_is_said_to_be_gone() -> None:
    """A bin without snapshot whose early deltas are no longer held is rejected by name, not rebuilt wrongly."""
    world = World(DictStorage(), random.Random(8))
    for _ in range(6):
        world.epoch()
    forced = retention.trimmed(world.index, Epoch(4))
    with pytest.raises(LogDamaged, match=r"bin .* of operator 'count' cannot be rebuilt"):
        forced.sources("count", BinSet(range(world.bins)), {}, Epoch(5))
    with pytest.raises(InvariantViolated):
        forced.sources("count", BinSet([0]), {}, Epoch(2))
