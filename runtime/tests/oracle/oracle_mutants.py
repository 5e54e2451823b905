"""Broken variants of the protocol: each violates one rule, as a careless change might.

A variant replaces one or two functions of the protocol's own code; `broken` applies and reverts it. Those under `CAUGHT`
violate an invariant, and the oracle must notice it within a few histories; each names the rule that it violates.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import msgspec
import pytest
import test_oracle_zombies as zombies
from oracle_answer_mutants import ANSWER_MUTANTS
from oracle_graph_mutants import GRAPH_MUTANTS, GRAPH_STORIES
from oracle_histories import play
from oracle_loop_mutants import LOOP_MUTANTS
from test_oracle_standbys import ENGINE_STORIES

from binshift.engine import coordinator
from binshift.engine.epoch_tasks import EpochTasks
from binshift.entries import merge_last_wins
from binshift.log.index import retention
from binshift.log.index.bringup import BringUp
from binshift.log.index.index import Index
from binshift.log.log import Log
from binshift.log.records import terms
from binshift.log.records.commits import CommitRecord, SnapshotRef, encode_record
from binshift.log.storage.layout import record_name
from binshift.model import BinSet, Epoch, Fence, Stamp, Worker
from binshift.store.bins import copies as store_copies
from binshift.store.bins import transitions, undo
from binshift.store.bins.binstore import BinStore
from binshift.store.bins.status import Status
from binshift.worker import background_task, bring_up, epoch_task, rebuild
from binshift.worker.rebuild import BinRebuild

Patch = pytest.MonkeyPatch


def undo_skipped(patch: Patch) -> None:
    """The changes of a failed run stay in a store, under the stamp of the previous epoch (I2)."""

    def skipped(self: BinStore, fence: Fence, to: Stamp) -> bool:
        with self._fenced.writing(fence) as (transaction, status):
            if status.undo_to != to:
                return False
            record = undo.read(transaction)
            undo.write(transaction, None)
            self._fenced.save(transaction, transitions.undone(status, to, record.owned, record.base))
            return True

    patch.setattr(BinStore, "undo", skipped)


def task_fence_ignored(patch: Patch) -> None:
    """A task that was replaced may still commit to a store (I8)."""

    def let_in(status: Status, fence: Fence) -> Status:
        return replace(status, fence=max(status.fence, fence))

    patch.setattr(transitions, "admit", let_in)
    patch.setattr(transitions, "admit_background", let_in)


def driver_fence_ignored(patch: Patch) -> None:
    """A driver does not check whether another one has taken over (I8)."""
    patch.setattr(terms, "check_newest", lambda storage, term: None)


def record_overwritten(patch: Patch) -> None:
    """The record of an epoch that exists is overwritten instead of being adopted (I3)."""

    def overwritten(self: Log, record: CommitRecord) -> CommitRecord:
        name, data = record_name(Epoch(record.epoch)), encode_record(record)
        with self._lock:
            after = self._index.apply(record)
            if not self.storage.put_if_absent(name, data):
                self.storage.delete([name])
                self.storage.put_if_absent(name, data)
            self._index = after
        return record

    patch.setattr(Log, "append", overwritten)


def replay_writes(patch: Patch) -> None:
    """A replay keeps the state it computed instead of the recorded one (I3)."""
    settle = epoch_task.EpochTask._settle

    def plain(self: epoch_task.EpochTask, changes: Sequence[Any]) -> Any:
        recorded = self.spec.replay
        if recorded is None:
            return settle(self, changes)
        return recorded.stamp, recorded.delta, merge_last_wins(changes)

    patch.setattr(epoch_task.EpochTask, "_settle", plain)


def delta_skipped(patch: Patch) -> None:
    """A copy counts as caught up without the newest delta's rows (I2)."""
    rows = bring_up._delta_rows

    def fewer(storage: Any, files: BringUp, bins: BinSet, have: Epoch, to: Epoch) -> Iterator[Any]:
        found = list(rows(storage, files, bins, have, to))
        return iter([*found[:-1], []])

    patch.setattr(bring_up, "_delta_rows", fewer)


def loaded_to_the_delta_before(patch: Patch) -> None:
    """A copy that is built from nothing lacks the newest delta (I4)."""
    read = BinRebuild._read

    def fewer(self: BinRebuild, bins: BinSet) -> Iterator[Any]:
        deltas = tuple(each for each in self.files.deltas if each.epoch < self.files.to)
        return read(BinRebuild(self.storage, replace(self.files, deltas=deltas), self.bins), bins)

    patch.setattr(BinRebuild, "_read", fewer)


def half_a_copy_counts(patch: Patch) -> None:
    """A copy counts before all of its rows are stored (I2)."""
    install = BinStore.install_copies

    def hasty(self: BinStore, fence: Fence, bins: BinSet, epoch: Epoch, entries: Sequence[Any], **how: Any) -> None:
        fewer = [part.slice(0, part.num_rows // 2) for part in entries]
        install(self, fence, bins, epoch, fewer, **how)

    patch.setattr(BinStore, "install_copies", hasty)


def older_rows_stay(patch: Patch) -> None:
    """The rows of an earlier copy are not deleted before a new one begins (I2)."""
    patch.setattr(store_copies, "_delete", lambda fenced, transaction, bins: bins)


def moved_bins_stay(patch: Patch) -> None:
    """A worker continues to own the bins that it has given away (I1)."""
    commit = transitions.committed

    def greedy(status: Status, expect: Stamp, stamp: Stamp, owned: BinSet) -> Status:
        after = commit(status, expect, stamp, owned)
        return replace(after, owned=after.owned | status.owned, copies=after.held_copies.without(status.owned))

    patch.setattr(transitions, "committed", greedy)


def flip_forgotten_by_the_record(patch: Patch) -> None:
    """The moves of an epoch are carried out and not recorded (I1)."""
    patch.setattr(coordinator, "route_changes", lambda moves: ())


def snapshot_of_two_moments(patch: Patch) -> None:
    """A snapshot is labelled with the state of the store's last one; its rows are the current ones (I3)."""
    take, stamps = background_task._snapshot, dict[tuple[str, Worker], Stamp]()

    def mixed(spec: Any, store: BinStore, storage: Any, rest: Any) -> SnapshotRef | None:
        found, of = take(spec, store, storage, rest), (spec.operator, spec.worker)
        labelled, stamps[of] = stamps.get(of), store.status().stamp
        if found is None or labelled is None:
            return found
        return msgspec.structs.replace(found, epoch=labelled.epoch, attempt=labelled.attempt)

    patch.setattr(background_task, "_snapshot", mixed)


def one_file_too_many(patch: Patch) -> None:
    """Retention deletes the oldest epoch that is still needed (I4)."""
    floor = retention.floor

    def higher(index: Index, spark_committed: Epoch) -> Epoch:
        found = floor(index, spark_committed)
        return Epoch(min(found + 1, index.last))

    patch.setattr(retention, "floor", higher)


def unnamed_files_of_the_future(patch: Patch) -> None:
    """Retention deletes files of an epoch whose record is not written yet (I3)."""
    patch.setattr(retention, "_is_garbage", lambda index, named, file, floor, term: file.kind == "deltas" and not named)


def lost_executors_not_noticed(patch: Patch) -> None:
    """A driver assumes that a new executor holds the bins of its predecessor."""
    spec = EpochTasks._spec
    patch.setattr(EpochTasks, "_spec", lambda self, *how: replace(spec(self, *how), bring_up=None))


def older_deltas_win(patch: Patch) -> None:
    """Of two deltas of one key the older one counts (I4)."""
    patch.setattr(rebuild, "merge_last_wins", lambda parts: merge_last_wins(list(parts)[::-1]))


def deletions_forgotten(patch: Patch) -> None:
    """Deleted keys return with a bring-up (I4)."""
    read = BinRebuild._read

    def kept(self: BinRebuild, bins: BinSet) -> Iterator[Any]:
        for part in read(self, bins):
            yield part.filter(part.column("value").is_valid())

    patch.setattr(BinRebuild, "_read", kept)


def groups_read_their_neighbours(patch: Patch) -> None:
    """A group of bins gets the deltas of another one (I2)."""
    patch.setattr(BinRebuild, "_deltas", lambda self, group: self._read(self.bins))
    patch.setattr(background_task, "ROUND_LIMITS", rebuild.Limits(bins_at_once=2))


MUTANTS: dict[str, Callable[[Patch], None]] = {
    each.__name__: each
    for each in (
        undo_skipped,
        task_fence_ignored,
        driver_fence_ignored,
        record_overwritten,
        replay_writes,
        delta_skipped,
        loaded_to_the_delta_before,
        half_a_copy_counts,
        older_rows_stay,
        moved_bins_stay,
        flip_forgotten_by_the_record,
        snapshot_of_two_moments,
        one_file_too_many,
        unnamed_files_of_the_future,
        lost_executors_not_noticed,
        older_deltas_win,
        deletions_forgotten,
        groups_read_their_neighbours,
        *ANSWER_MUTANTS,
        *LOOP_MUTANTS,
        *GRAPH_MUTANTS,
    )
}


@contextlib.contextmanager
def broken(name: str) -> Iterator[None]:
    """The protocol with one rule violated, within this context."""
    with pytest.MonkeyPatch.context() as patch:
        MUTANTS[name](patch)
        yield


STORIES: tuple[Callable[[], object], ...] = (
    *(
        partial(zombies.test_an_epoch_goes_on_after_another_driver_has_finished_it, named)
        for named in zombies.IN_AN_EPOCH
    ),
    *(partial(zombies.test_a_round_goes_on_after_another_driver_has_gone_on, named) for named in zombies.IN_A_ROUND),
    *(partial(zombies.test_tasks_of_a_failed_run_go_on_later, seed) for seed in range(4)),
    *(partial(zombies.test_a_snapshot_of_a_run_that_never_counts, seed) for seed in range(4)),
    zombies.test_a_collection_while_an_epoch_waits_for_its_record,
    *ENGINE_STORIES,
)
"""The stories that run before the histories: replaced processes that continue."""


def caught(name: str, seeds: int, sooner: int | None = None) -> str:
    """The first story or history that contradicts the variant, and the start of its error; empty if none does. The seed ``sooner`` is first."""
    histories = [[partial(play, seed, moody=moody) for moody in (False, True)] for seed in range(seeds)]
    first = [] if sooner is None else histories.pop(sooner)
    stories: list[Callable[[], object]] = [*first, *STORIES, *itertools.chain(*histories)]
    for number, story in enumerate(GRAPH_STORIES if MUTANTS[name] in GRAPH_MUTANTS else stories):
        with broken(name):  # outside the try: a variant that patches a missing name must not count as caught
            try:
                story()
            except BaseException as error:  # any error of the oracle
                return f"story {number}: {type(error).__name__}: {str(error)[:200]}"
    return ""
