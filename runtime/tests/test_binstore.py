"""The bin store against a simple model: dicts, deep copies and the rules of the design, one line each."""

from __future__ import annotations

import tempfile
from contextlib import nullcontext

import pytest
from binstore_machine import BINS, LIMITS, ComparingMachine
from binstore_model import Model, Row, batch, set_row
from hypothesis import strategies as st
from hypothesis.stateful import (
    precondition,
    rule,
)
from stores import commit_epoch, packing, run_machine

from binshift.errors import Fenced, NeedsBringUp
from binshift.invariants import InvariantViolated
from binshift.model import BEFORE_FIRST, BinSet, Epoch, Fence, Stamp, Term
from binshift.store.bins.binstore import BinStore
from binshift.store.engine.contract import KeyValueStore
from binshift.store.engine.lmdb_store import close_environments, open_lmdb
from binshift.store.engine.memory_store import MemoryStore

SETS = st.sets(st.integers(0, BINS - 1), max_size=4)
KEYS = st.sampled_from([b"a", b"b", b"c", b"l" * 500, b"l" * 500 + b"!"])
CHANGES = st.lists(st.tuples(st.integers(0, BINS - 1), KEYS, st.none() | st.binary(max_size=2)), max_size=8)
PARTS = st.lists(CHANGES, max_size=3)
FENCES = st.integers(-1, 9)


class BinStoreMachine(ComparingMachine):
    """Random epochs, undos, copies and fences on a bin store and on the model."""

    @rule(by=st.sampled_from([Fence(Term(0), Epoch(0), 1), Fence(Term(0), Epoch(1), 0), Fence(Term(1), Epoch(0), 0)]))
    def raise_fence(self, by: Fence) -> None:
        """Raising a fence is idempotent, and never lowers it."""
        held = self.model.fence
        new = Fence(Term(held.term + by.term), Epoch(held.epoch + by.epoch), held.run + by.run)
        self.store.raise_fence(new)
        self.store.raise_fence(new)
        with pytest.raises(Fenced):
            self.store.raise_fence(held)
        self.model.fence = new

    @rule(data=st.data(), fence=FENCES, changes=PARTS, undo=st.booleans())
    def commit(self, data: st.DataObject, fence: int, changes: list[list[Row]], undo: bool) -> None:
        """An epoch succeeds if every bin is available; otherwise it is rejected and changes nothing."""
        model, self.attempts = self.model, self.attempts + 1
        epochs = {model.stamp.epoch + 1}
        if not model.owned:
            epochs |= {0, *(epoch + 1 for epoch in model.copies.values())}
        stamp = Stamp(Epoch(data.draw(st.sampled_from(sorted(epochs)))), f"attempt-{self.attempts}")
        at_hand = model.owned | {bin for bin, epoch in model.copies.items() if epoch == stamp.epoch - 1}
        if stamp.epoch == 0:
            at_hand |= set(range(BINS)) - set(model.copies) - set(model.installing)
        wanted = at_hand - data.draw(
            st.sets(st.sampled_from(sorted(at_hand)), max_size=3) if at_hand else st.just(set())
        )
        owned = set(range(BINS))
        self.refuse_commits(stamp, wanted, wanted | (owned - at_hand))
        mine = [[row for row in part if row[0] in wanted] for part in changes]
        rows = [batch(part) for part in mine]
        epoch = {"expect": model.stamp, "stamp": stamp, "owned": BinSet(wanted), "changes": rows, "undo": undo}
        self.call(fence, lambda f: commit_epoch(self.store, f, **epoch))
        model.commit(stamp, wanted, [row for part in mine for row in part], undo)

    def refuse_commits(self, stamp: Stamp, wanted: set[int], too_many: set[int]) -> None:
        """Reject another expected stamp, an unavailable bin, or a change of a bin that is not owned."""
        fence, model = self.model.fence, self.model

        def commit(expect: Stamp, owned: set[int], changes: list[Row]) -> None:
            rows = [batch(changes)]
            commit_epoch(self.store, fence, expect=expect, stamp=stamp, owned=BinSet(owned), changes=rows, undo=True)

        with pytest.raises(NeedsBringUp):
            commit(Stamp(model.stamp.epoch, "stale"), wanted, [(bin, b"a", b"stale") for bin in wanted])
        if too_many != wanted:
            with pytest.raises(NeedsBringUp):
                commit(model.stamp, too_many, [(bin, b"a", b"missing") for bin in too_many])
        for foreign in set(range(BINS)) - wanted:
            with pytest.raises(InvariantViolated):
                commit(model.stamp, wanted, [(foreign, b"a", b"foreign")])

    @rule(fence=FENCES)
    def undo(self, fence: int) -> None:
        """Undo restores the stamp before the last epoch, once, and nothing else."""
        assert not self.call(0, lambda f: self.store.undo(f, Stamp(Epoch(3), "elsewhere")))
        before = self.model.before
        if before is None:
            assert not self.call(0, lambda f: self.store.undo(f, self.model.stamp))
            return
        to = before.stamp
        assert self.call(fence, lambda f: self.store.undo(f, to))
        self.model.undo()

    @rule(fence=FENCES, bins=SETS, rows=PARTS, delta=st.integers(-1, 1), done=st.booleans(), again=st.booleans())
    def install(self, fence: int, bins: set[int], rows: list[list[Row]], delta: int, done: bool, again: bool) -> None:
        """A copy counts only when it is complete; the bin's previous rows are deleted when it begins."""
        model, epoch = self.model, Epoch(max(self.model.stamp.epoch + delta, BEFORE_FIRST))
        for bin in bins & model.owned:
            with pytest.raises(NeedsBringUp):
                self.store.install_copies(model.fence, BinSet([bin]), epoch, [], begin=True, done=True)
        bins = bins - model.owned
        mine = [[row for row in part if row[0] in bins] for part in rows]
        parts = [[], *mine] if again else [[row for part in mine for row in part]]
        for at, part in enumerate(parts):
            first, last = at == 0, at == len(parts) - 1
            self.install_part(fence if first else 0, bins, epoch, part, first, done and last)

    def install_part(self, fence: int, bins: set[int], epoch: Epoch, part: list[Row], begin: bool, done: bool) -> None:
        """The same call on both sides."""
        model = self.model
        self.call(
            fence,
            lambda f: self.store.install_copies(f, BinSet(bins), epoch, [batch(part)], begin=begin, done=done),
            background=True,
        )
        if begin:
            model.forget_bins(bins)
            model.installing |= {bin: (self.objects, epoch, {}) for bin in bins}
        for bin, key, value in part:
            set_row(model.installing[bin][2], key, value)
        if done:
            for bin in bins:
                model.rows[bin], model.copies[bin] = model.installing.pop(bin)[2], epoch

    @precondition(lambda self: self.model.installing)
    @rule(data=st.data(), rows=CHANGES)
    def go_on_installing(self, data: st.DataObject, rows: list[Row]) -> None:
        """Another object, epoch or bin cannot continue a copy; the same one can."""
        bin = data.draw(st.sampled_from(sorted(self.model.installing)))
        made_by, epoch, _ = self.model.installing[bin]
        one, mine = BinSet([bin]), [row for row in rows if row[0] == bin]
        for wrong in (epoch - 1, epoch + 1):
            with pytest.raises(NeedsBringUp):
                self.store.install_copies(self.model.fence, one, Epoch(wrong), [], begin=False, done=True)
        other = BinStore(self.kv, BINS, LIMITS)
        with pytest.raises(NeedsBringUp):
            other.install_copies(self.model.fence, one, Epoch(epoch), [batch(mine)], begin=False, done=True)
        if mine and made_by == self.objects:
            self.install_part(0, {bin}, Epoch(epoch), mine, begin=False, done=False)

    @precondition(lambda self: self.model.copies)
    @rule(data=st.data(), fence=FENCES, rows=PARTS, further=st.integers(1, 3))
    def advance(self, data: st.DataObject, fence: int, rows: list[list[Row]], further: int) -> None:
        """Deltas of one or several epochs are applied to copies at the same epoch, or to none."""
        copies = self.model.copies
        bins = data.draw(st.sets(st.sampled_from(sorted(copies)), min_size=1))
        have = data.draw(st.sampled_from(sorted(copies.values())))
        ready = {bin for bin in bins if copies[bin] == have}
        if bins != ready:
            nothing, epoch = [batch([(bin, b"a", b"no") for bin in bins])], Epoch(have + further)
            with pytest.raises(NeedsBringUp):
                self.store.advance_copies(self.model.fence, BinSet(bins), epoch, nothing, have=have)
        self.advance_all(
            fence, ready, have, have + further, [[row for row in part if row[0] in ready] for part in rows]
        )

    def advance_all(self, fence: int, bins: set[int], have: int, epoch: int, parts: list[list[Row]]) -> None:
        """Deltas for complete copies, on both sides."""
        deltas = [batch(part) for part in parts]

        def call(f: Fence) -> None:
            self.store.advance_copies(f, BinSet(bins), Epoch(epoch), deltas, have=have if epoch > have + 1 else None)

        self.call(fence, call, background=True)
        self.model.apply([row for part in parts for row in part])
        self.model.copies |= dict.fromkeys(bins, epoch)

    def left_last(self) -> set[int]:
        """Copies of bins that left with the last epoch, which can still be undone."""
        before = self.model.before
        return (before.owned - self.model.owned) & set(self.model.copies) if before else set()

    @precondition(lambda self: self.left_last())
    @rule(data=st.data(), how=st.sampled_from(["advance", "drop", "begin", "replace"]))
    def touch_a_bin_that_left_and_undo(self, data: st.DataObject, how: str) -> None:
        """A bin that left and was changed since is not restored; the others are."""
        bin = data.draw(st.sampled_from(sorted(self.left_last())))
        epoch = self.model.copies[bin]
        if how == "advance":
            self.advance_all(0, {bin}, epoch, epoch + 1, [[(bin, b"a", b"late")]])
        elif how == "drop":
            self.drop(0, {bin})
        else:
            part: list[Row] = [(bin, b"b", b"fresh")]
            self.install_part(0, {bin}, Epoch(epoch + 1), part, begin=True, done=how == "replace")
        self.undo(0)

    @rule(fence=FENCES, bins=SETS)
    def drop(self, fence: int, bins: set[int]) -> None:
        """Dropped copies are deleted with their rows; owned bins are skipped."""
        model = self.model
        self.call(fence, lambda f: self.store.drop_copies(f, BinSet(bins)), background=True)
        model.forget_bins(bins - model.owned)

    @rule(fence=FENCES, really=st.integers(0, 3))
    def reset(self, fence: int, really: int) -> None:
        """Everything except the fence is deleted."""
        if not really:
            self.call(fence, self.store.reset)
            self.model = Model(fence=self.model.fence)

    @rule()
    def reopen(self) -> None:
        """Another process opens the store: everything is unchanged, and incomplete copies stay incomplete."""
        self.store.close()
        self.kv = self.make_kv()
        self.store = BinStore(self.kv, BINS, LIMITS)
        self.objects += 1


class MemoryMachine(BinStoreMachine):
    """The machine on the store in memory."""

    def make_kv(self) -> KeyValueStore:
        """The same object."""
        return getattr(self, "kv", None) or MemoryStore(LIMITS)


class LmdbMachine(BinStoreMachine):
    """The machine on the store on disk, sometimes reopened."""

    def make_kv(self) -> KeyValueStore:
        """The same directory."""
        if not hasattr(self, "directory"):
            self.directory = tempfile.TemporaryDirectory()
        close_environments(self.directory.name)
        return open_lmdb(self.directory.name, LIMITS)

    def teardown(self) -> None:
        """Remove all files."""
        if hasattr(self, "directory"):
            close_environments(self.directory.name)
            self.directory.cleanup()


@pytest.mark.parametrize(("machine", "packed"), [(MemoryMachine, False), (LmdbMachine, False), (LmdbMachine, True)])
def test_bin_store_behaves_as_the_model(machine: type[BinStoreMachine], packed: bool) -> None:
    """Any sequence of epochs, undos, copies, fences and reopenings agrees with the model after every step."""
    with packing(rows_min=1) if packed else nullcontext():
        run_machine(machine, steps=25)
