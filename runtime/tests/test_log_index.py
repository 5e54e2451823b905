"""The index against the oracle: after any history, each bin is rebuilt exactly; what does not fit is rejected."""

from __future__ import annotations

import random
from collections.abc import Callable

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from log_worlds import DictStorage, World

from binshift.errors import LogDamaged
from binshift.log.index import manifests, retention
from binshift.log.index.bringup import CATCH_UP_EPOCHS_MAX, BringUp
from binshift.log.index.index import Index
from binshift.log.records.commits import Assignment, CommitRecord, SnapshotRef
from binshift.log.storage import layout
from binshift.model import BEFORE_FIRST, GENESIS, BinSet, Epoch, Stamp, Term, Worker

ACTIONS = (
    *("epoch", "epoch", "epoch", "move", "snapshot", "snapshots", "manifest"),
    *("collect", "collect", "restart", "copy"),
)


def check_bins(world: World) -> None:
    """Every bin, at the last epoch and at the previous one, from nothing; and some bins, from any copies."""
    for to in {world.index.last, Epoch(max(world.index.last - 1, world.index.base))}:
        operator = world.rng.choice(world.operators)
        for bins, have in ((BinSet(range(world.bins)), {}), (world.random_bins(), world.random_have())):
            plan = world.index.sources(operator, bins, have, to)
            assert world.rebuilt(plan, have) == world.expected(operator, bins, to)
            check_minimal(plan, have)


def check_minimal(plan: BringUp, have: dict[int, int]) -> None:
    """No bin is read from two snapshots, from deltas before its start, or from a file without rows of it."""
    starts = {b: epoch for epoch, bins in plan.starts for b in bins}
    assert sorted(starts) == list(plan.bins)
    assert all(starts[b] == have[b] for b in plan.bins - plan.fresh)
    seen = [b for part in plan.snapshots for b in part.bins]
    assert len(seen) == len(set(seen))
    assert set(seen) <= set(plan.fresh)
    assert all(starts[b] == part.epoch for part in plan.snapshots for b in part.bins)
    assert all(starts[b] < part.epoch <= plan.to for part in plan.deltas for b in part.bins)
    assert all(part.bins and not part.bins - part.file.bins for part in plan.parts)
    for at in {-1, *starts.values()}:
        assert plan.continuing(plan.bins, Epoch(at)) == BinSet([b for b, start in starts.items() if start <= at])


def collect(world: World) -> None:
    """Trim the index and delete what retention names; Spark has committed the last epoch, or the previous one."""
    before = world.index
    committed = Epoch(world.index.last - world.rng.randrange(2))
    floor = retention.floor(world.index, committed)
    world.index = retention.trimmed(world.index, floor)
    pending = [each.file.name for each in world.snapshots if each.file]
    names = [each.name for each in world.storage.list("")]
    world.storage.delete(retention.garbage(world.index, names, floor, Term(world.term), pending))
    oldest = Epoch(committed - 1)  # Spark may run the epoch after this one again
    if oldest > before.base:  # an earlier collection dropped the base when Spark had advanced further
        for operator in world.operators:
            plan = world.index.sources(operator, BinSet(range(world.bins)), {}, oldest)
            assert world.rebuilt(plan, {}) == world.expected(operator, plan.bins, oldest)


def restart(world: World) -> None:
    """Write the index to a manifest and read it back, as a new driver would."""
    name = layout.manifest_name(world.index.last)
    data = manifests.encode_manifest(world.index, world.index.last)
    index = manifests.decode_manifest(name, data, world.bins, world.operators)
    assert index.route == world.index.route
    assert index.manifests == world.index.manifests
    world.index = retention.trimmed(index, retention.floor(index, index.last))
    world.term += 1


@given(
    seed=st.integers(0, 2**32),
    first=st.sampled_from([0, 0, 7]),
    actions=st.lists(st.sampled_from(ACTIONS), min_size=15, max_size=40),
)
@example(seed=1, first=0, actions=["epoch", "epoch", "snapshot", "epoch", "collect", "epoch", "restart", "epoch"])
def test_any_history_can_be_rebuilt(seed: int, first: int, actions: list[str]) -> None:
    """After any moves, deltas, snapshots, retention and restarts, `sources` leads every bin to the oracle's state."""
    world = World(DictStorage(), random.Random(seed), first=first)
    for action in ("epoch", *actions):
        match action:
            case "epoch":
                world.epoch()
            case "move":
                world.plan_moves(world.rng.choice((0.1, 0.8)))
            case "snapshot":
                world.snapshot()
            case "snapshots":
                world.snapshot_all()
            case "manifest":
                world.manifest = world.index.last
            case "collect":
                collect(world)
            case "copy":
                have = world.random_have()
                plan = world.index.sources(world.rng.choice(world.operators), world.random_bins(), have, world.last)
                assert world.rebuilt(plan, have) == world.expected(plan.operator, plan.bins, plan.to)
            case "restart":
                restart(world)
        if action in ("collect", "restart"):
            check_bins(world)
    check_bins(world)


@given(seed=st.integers(0, 2**32))
def test_history_is_answered(seed: int) -> None:
    """Routes, stamps and times of held epochs are the ones of their runs, also after trimming."""
    world = World(DictStorage(), random.Random(seed))
    written = []
    for _ in range(8):
        world.plan_moves(0.3)
        written.append(world.epoch())
        if world.rng.random() < 0.3:
            world.snapshot_all()
    index = retention.trimmed(world.index, retention.floor(world.index, world.index.last))
    for epoch in range(index.base + 1, index.last + 1):
        assert index.record(Epoch(epoch)) == written[epoch]
        assert index.route_at(Epoch(epoch)) == world.routes[epoch]
        assert index.route_at(Epoch(epoch)).version == world.routes[epoch].version
        moved = index.moves_at(Epoch(epoch))
        if epoch:
            assert moved == world.routes[epoch - 1].moves_to(world.routes[epoch].owners)
        assert index.stamp("count", Worker(1), Epoch(epoch)) == Stamp(Epoch(epoch), f"1.{epoch}.0.count_1")
    with pytest.raises(LogDamaged, match="99"):
        index.record(Epoch(99))


def test_nothing_is_needed_of_a_current_copy() -> None:
    """Copies at the requested epoch need no file at all."""
    world = World(DictStorage(), random.Random(3))
    for _ in range(5):
        world.epoch()
    bins = BinSet([1, 5, 9])
    plan = world.index.sources("count", bins, dict.fromkeys(bins, 4), Epoch(4))
    assert not plan.lost
    assert {epoch for epoch, _ in plan.starts} == {plan.to}
    assert (plan.parts, plan.fresh, plan.bytes_total) == ((), BinSet(), 0)


def test_a_copy_far_behind_is_loaded_afresh() -> None:
    """A copy a few epochs older than the snapshot catches up by deltas; a much older one is replaced."""
    world = World(DictStorage(), random.Random(5))
    written = Epoch(5 + CATCH_UP_EPOCHS_MAX)
    for _ in range(written + 2):
        world.epoch()
    route = world.index.route_at(written)
    stamp = world.index.stamp("count", Worker(0), written)
    assert stamp is not None
    bins = route.bins_of(Worker(0))
    world.snapshots = [SnapshotRef.of("count", Worker(0), stamp, bins, None)]
    world.states[written]["count"] = {}
    world.epoch()
    one, last = BinSet(bins.array[:1]), world.index.last
    near = world.index.sources("count", one, {int(b): 5 for b in one}, last)
    far = world.index.sources("count", one, {int(b): 4 for b in one}, last)
    assert (near.fresh, near.starts, far.fresh, far.starts) == (BinSet(), ((5, one),), one, ((written, one),))


def test_an_empty_log_is_at_genesis() -> None:
    """Before the first epoch all bins are empty, and every worker is at the empty state."""
    index = Index.new(8, ["count"])
    plan = index.sources("count", BinSet(range(8)), {}, BEFORE_FIRST)
    assert (plan.parts, len(plan.fresh), index.last) == ((), 8, BEFORE_FIRST)
    assert index.stamp("count", Worker(0), BEFORE_FIRST) == GENESIS


def _stolen_delta(record: CommitRecord) -> CommitRecord:
    parts = list(record.parts)
    at = next(i for i, part in enumerate(parts) if part.delta)
    delta = parts[at].delta
    assert delta is not None
    parts[at] = msgspec.structs.replace(parts[at], delta=msgspec.structs.replace(delta, packed_bins="0-15"))
    return msgspec.structs.replace(record, parts=tuple(parts))


def _renamed_delta(record: CommitRecord) -> CommitRecord:
    parts = tuple(msgspec.structs.replace(part, attempt="1.other") if part.delta else part for part in record.parts)
    return msgspec.structs.replace(record, parts=parts)


def _with_snapshot(**changes: object) -> Callable[[CommitRecord], CommitRecord]:
    def change(record: CommitRecord) -> CommitRecord:
        fields = {"operator": "count", "worker": 0, "epoch": 2, "attempt": "1.2.0.count_0", "packed_bins": "0-2"}
        snapshot = SnapshotRef(**{**fields, "file": None, **changes})  # type: ignore[arg-type]
        return msgspec.structs.replace(record, snapshots=(snapshot,))

    return change


def _replaced(**changes: object) -> Callable[[CommitRecord], CommitRecord]:
    return lambda record: msgspec.structs.replace(record, **changes)


MISFITS: dict[str, tuple[str, Callable[[CommitRecord], CommitRecord]]] = {
    "gap": ("those between are missing", _replaced(epoch=5)),
    "again": ("those between are missing", _replaced(epoch=2)),
    "older term": ("written in term 0", _replaced(term=0)),
    "future manifest": ("names the manifest", _replaced(manifest=3)),
    "route version": ("route version 9", _replaced(route_version=9)),
    "move to owner": ("to the worker that has it", _replaced(moves=(Assignment(0, "0"),), route_version=1)),
    "move beyond": ("it moves bin 99", _replaced(moves=(Assignment(1, "99"),), route_version=1)),
    "moved twice": ("moves twice", _replaced(moves=(Assignment(1, "0"), Assignment(2, "0")), route_version=1)),
    "bad bins": ("not a range of bins", _replaced(moves=(Assignment(1, "x"),), route_version=1)),
    "unordered workers": ("not ascending", _replaced(workers=(1, 0, 2))),
    "idle owner": ("took no part", _replaced(workers=(0,))),
    "missing part": ("one part for each", lambda r: msgspec.structs.replace(r, parts=r.parts[1:])),
    "double part": ("one part for each", lambda r: msgspec.structs.replace(r, parts=(r.parts[0], *r.parts[:-1]))),
    "foreign bins": ("does not own", _stolen_delta),
    "renamed delta": ("its attempt wrote", _renamed_delta),
    "snapshot, other state": ("was read from the state", _with_snapshot(attempt="1.2.1.count_0")),
    "snapshot, other owner": ("did not own all", _with_snapshot(packed_bins="0-15")),
    "snapshot, future": ("not one of the recorded", _with_snapshot(epoch=3)),
    "snapshot, no operator": ("no operator", _with_snapshot(operator="x")),
    "snapshot, no bins": ("claims no bins", _with_snapshot(packed_bins="")),
}


@pytest.mark.parametrize("case", MISFITS)
def test_a_record_that_does_not_fit_is_refused(case: str) -> None:
    """Each violation of order, route, parts or snapshots is rejected with a message that names it."""
    world = World(DictStorage(), random.Random(1))
    for _ in range(3):
        world.epoch()
    good = world.next_record()
    message, change = MISFITS[case]
    with pytest.raises(LogDamaged, match=message) as caught:
        world.index.apply(change(good))
    assert str(caught.value).startswith("records/0")
    assert world.index.apply(good).last == 3


def test_a_manifest_pointer_never_goes_back() -> None:
    """A record that names no manifest, or an older one than the previous record, is rejected."""
    world = World(DictStorage(), random.Random(1))
    for epoch in range(4):
        world.manifest = epoch - 1 if epoch else None
        world.epoch()
    assert world.index.manifests == (1, 2)
    good = world.next_record()
    for older in (None, 1):
        with pytest.raises(LogDamaged, match="manifest"):
            world.index.apply(msgspec.structs.replace(good, manifest=older))


def test_the_first_record_gives_every_bin_an_owner() -> None:
    """A log cannot begin with a route that omits a bin or names it twice."""
    world = World(DictStorage(), random.Random(1))
    good = world.next_record()
    for moves in (good.moves[1:], (*good.moves, good.moves[0])):
        with pytest.raises(LogDamaged, match="exactly one owner"):
            world.index.apply(msgspec.structs.replace(good, moves=moves))
