"""Retired copies: their rows are deleted within a round's time, and the remaining rows are reported until gone."""

from __future__ import annotations

from itertools import count

from log_worlds import DictStorage
from stores import commit_epoch

from binshift import entries
from binshift.engine.copies import Copies
from binshift.model import Bin, BinSet, Epoch, Fence, Stamp, Term, Worker
from binshift.store.bins.binstore import BinStore
from binshift.store.engine.contract import StoreLimits
from binshift.store.engine.memory_store import MemoryStore
from binshift.worker.background_task import Budget, Duty, run_round
from binshift.worker.messages import BackgroundReport, BackgroundSpec

FENCE = Fence(Term(1), Epoch(4), 0)
W = Worker(1)
BINS = BinSet(range(1, 13))
ROWS = 40


def store_with_copies() -> BinStore:
    """A store with copies of three bins, of which one transaction deletes a few rows."""
    store = BinStore(MemoryStore(), 16, StoreLimits(background_rows_max=64))
    for bin in BINS:
        rows = entries.make([bin] * ROWS, [b"%05d" % at for at in range(ROWS)], [b"v"] * ROWS)
        store.install_copies(FENCE, BinSet([bin]), Epoch(4), [rows], begin=True, done=True)
    return store


def budget(checks: int) -> Budget:
    """A budget that is used up after this many checks."""
    ticks = count()
    return Budget(float(checks), Duty(1.0), clock=lambda: next(ticks) / 3, cpu=lambda: 0.0, sleep=lambda _: None)


def order(drop: BinSet) -> BackgroundSpec:
    """An order to drop copies, and nothing else."""
    return BackgroundSpec(FENCE, "count", W, drop=drop)


def test_a_round_stops_dropping_in_time() -> None:
    """Dropped copies stop counting at once; their rows are deleted over several rounds, each of which reports the rest."""
    store = store_with_copies()
    lefts = []
    while True:
        report = run_round(order(BINS), store, DictStorage(), budget(3))
        assert not report.copies
        lefts.append(len(report.dropping))
        if not report.dropping:
            break
    assert len(set(lefts)) > 2
    assert lefts == sorted(lefts, reverse=True)
    assert store.size().rows == 0
    assert not store.status().partial


def test_what_an_earlier_round_left_is_told_by_any_other() -> None:
    """A driver that never gave the order learns of rows that are still to be deleted."""
    store = store_with_copies()
    run_round(order(BINS), store, DictStorage(), budget(1))
    assert run_round(order(BinSet()), store, DictStorage(), budget(9)).dropping == BINS


def test_bins_that_came_back_are_not_dropped() -> None:
    """A bin that became owned after the order was given stays, and the order is carried out."""
    store = store_with_copies()
    stamp = store.status().stamp
    taken = BinSet([2])
    commit_epoch(store, FENCE, expect=stamp, stamp=Stamp(Epoch(5), "a"), owned=taken, changes=[], undo=False)
    report = run_round(BackgroundSpec(Fence(Term(1), Epoch(5), 0), "count", W, drop=BINS), store, DictStorage())
    assert report.dropping == BinSet()
    with store.reader() as reader:
        assert sum(part.num_rows for part in reader.scan(Bin(2))) == ROWS
    assert store.size().rows == ROWS


def report(operator: str, dropping: BinSet) -> BackgroundReport:
    """Of a round."""
    return BackgroundReport(operator, W, {}, dropping=dropping)


def test_an_order_to_drop_stands_until_nothing_is_left() -> None:
    """An order to drop ends only when no operator has anything left; a later order to copy the same bins replaces it."""
    copies = Copies(("a", "b"))
    copies.drop(W, BINS)
    given = dict(copies.drops)
    copies.take_reports([report("a", BinSet()), report("b", BinSet([2, 3]))], given)
    assert copies.drops == {W: BinSet([2, 3])}
    copies.drop(W, BinSet([7]))  # since the round began
    copies.take_reports([report("a", BinSet()), report("b", BinSet())], {W: BinSet([2, 3])})
    assert copies.drops == {W: BinSet([7])}


def test_half_dropped_copies_of_an_earlier_driver_are_dropped() -> None:
    """Half-dropped copies are dropped even if no living driver ordered it."""
    copies = Copies(("a",))
    copies.take_reports([report("a", BINS)], {})
    assert copies.drops == {W: BINS}
