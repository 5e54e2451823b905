"""Makes one savepoint of a running query, from its first file to its description.

The epoch is the last recorded one, once Spark has committed it: the index of that moment then names all that it needs, and the log is
held there, so that retention deletes none of it until the copy ends. What is to be copied is written first (`BEGUN`), so that
another driver can finish the same epoch's copy, as long as its files exist; otherwise it begins again with a newer epoch.

It must never change the query's checkpoint, nor write a description before every file exists.
"""

from __future__ import annotations

import logging
import threading
import time
from contextlib import ExitStack
from typing import Final

import msgspec

from binshift.backoff import backoff_seconds
from binshift.errors import LogFileMissing, Retryable, SnapshotRefused, StorageUnavailable
from binshift.log.index.index import Index
from binshift.log.records import terms
from binshift.log.storage.contract import Storage
from binshift.model import Epoch
from binshift.savepoints import layout, records, removing
from binshift.savepoints.copying import Gone, Pace, copy_file, each_of
from binshift.savepoints.planning import Source, can_finish, check_opens, plan_of, present
from binshift.savepoints.records import CopiedFile, Savepoint
from binshift.savepoints.requested import Progress

logger = logging.getLogger(__name__)

COMMIT_POLL_SECONDS: Final = 0.05
"""Spark commits a recorded epoch soon: the pause before the next one is checked."""
FAILURES_MAX: Final = 20
"""Of a storage, in a row: about eight minutes."""
RETRY_SECONDS: Final = 1.0
RETRY_SECONDS_MAX: Final = 30.0
BEGINNINGS_MAX: Final = 5
"""How often a copy begins again because files of its epoch were deleted."""
FENCE_SECONDS: Final = 10.0
"""How often a copy checks that no newer driver has opened the log."""


class Saving:
    """The copy of a query's checkpoint to ``target``, as the savepoint ``name``."""

    def __init__(self, source: Source, name: str, target: Storage, progress: Progress, stop: threading.Event) -> None:
        self._source, self._name, self._target, self._progress = source, name, target, progress
        self._log, self._pace = source.log, Pace(source.duty, stop)
        self._fence_checked = time.monotonic()

    def run(self) -> Savepoint:
        """Copy until it is complete.

        Raises:
            CopyStopped: it was asked to end; another one continues it.
            Fenced: a newer driver has opened the log; its copy continues this one.
            SnapshotRefused: the target has something else.
            LogDamaged: the checkpoint misses files, and did so several times.
            Retryable: a storage did not answer for some minutes.
            InvalidSettings, StateTooLarge: a storage refuses access; there are too many files.
        """
        plan, failures, beginnings, copied = None, 0, 0, 0
        with ExitStack() as held:
            while True:
                try:
                    plan = plan or self._begin(held)
                    return self._finish(self._copy(plan))
                except Gone as gone:
                    held.close()
                    plan, beginnings = None, beginnings + 1
                    if beginnings == BEGINNINGS_MAX:
                        raise LogFileMissing(f"{gone} is not at {self._source.files.url}") from gone
                    logger.info("snapshot %s begins again: %s was deleted", self._name, gone)
                except Retryable as error:
                    failures = 1 if self._progress.copied_files > copied else failures + 1
                    copied = self._progress.copied_files
                    if failures == FAILURES_MAX:
                        raise
                    self._progress.trouble = str(error)
                    self._pace.wait(backoff_seconds(failures, RETRY_SECONDS, RETRY_SECONDS_MAX))
                    self._progress.trouble = ""

    def _begin(self, held: ExitStack) -> Savepoint:
        """What is to be copied: what was begun here before, if it can be finished; the log is held for it."""
        held.close()
        before = self._found()
        if before is not None:
            held.enter_context(self._log.hold(Epoch(before.epoch)))
            if can_finish(before, self._source, self._target):
                removing.clear_unfinished(self._target)
                return before
            held.close()
            removing.clear(self._target, [layout.DESCRIPTION], [layout.BEGUN])
        plan = plan_of(self._source, self._name, self._committed_index(held))
        if not self._target.put_if_absent(layout.BEGUN, records.encode(layout.BEGUN, plan)):
            raise SnapshotRefused(f"another process writes a snapshot to {self._target.url}: choose another location")
        return plan

    def _found(self) -> Savepoint | None:
        """This savepoint as it was begun or completed before."""
        found = records.complete(self._target) or records.begun(self._target)
        if found is None:
            other = next((each.name for each in self._target.list("")), "")
            if other:
                raise SnapshotRefused(f"{self._target.url} is not empty, it has {other!r}: choose an empty location")
        elif (found.name, found.checkpoint) != (self._name, self._source.checkpoint):
            raise SnapshotRefused(
                f"{self._target.url} has the snapshot {found.name!r} of query {found.query} at epoch {found.epoch}: choose "
                "another location, or remove that one"
            )
        return found

    def _committed_index(self, held: ExitStack) -> Index:
        """The index of an epoch that Spark has committed; the log is held at it from now on."""
        while not self._source.is_committed(index := held.enter_context(self._log.hold())):
            held.close()
            self._check_fence()
            self._pace.wait(COMMIT_POLL_SECONDS)
        return index

    def _copy(self, plan: Savepoint) -> Savepoint:
        """Copy what is missing; what Spark has deleted meanwhile is replaced by what its sources keep now."""
        while gone := self._copy_missing(plan):
            files = [each for each in plan.files if each.name not in gone]
            if any(map(layout.is_source, gone)):
                listed = [CopiedFile(*each) for each in self._source.files.list(layout.SOURCES)]
                files += [each for each in listed if layout.is_source(each.name) and each not in plan.files]
            plan = msgspec.structs.replace(plan, files=tuple(files), bytes=sum(each.bytes for each in files))
        return plan

    def _copy_missing(self, plan: Savepoint) -> set[str]:
        """Copy what is missing; returns what does not exist any more and is not needed."""
        there, gone = present(plan, self._target), set[str]()
        self._progress.planned(plan, there)

        def copy(file: CopiedFile) -> None:
            self._check_fence()
            try:
                copy_file(*self._source.place(file.name), file.bytes, self._target, file.name, self._pace)
            except Gone:
                if layout.is_needed(file.name, Epoch(plan.epoch)):
                    raise
                gone.add(file.name)
            else:
                self._progress.copied(file)

        each_of([each for each in plan.files if each not in there], copy)
        return gone

    def _check_fence(self) -> None:
        if (now := time.monotonic()) - self._fence_checked > FENCE_SECONDS:
            self._fence_checked = now
            terms.check_newest(self._log.storage, self._log.term)

    def _finish(self, plan: Savepoint) -> Savepoint:
        """Check the copy, and describe it."""
        terms.check_newest(self._log.storage, self._log.term)
        there = present(plan, self._target)
        if missing := [each.name for each in plan.files if each not in there]:
            raise StorageUnavailable(f"{missing[0]} has disappeared from {self._target.url}: it is copied again")
        check_opens(self._target, plan)
        done = msgspec.structs.replace(plan, finished_ms=round(1000 * time.time()))
        if self._target.put_if_absent(layout.DESCRIPTION, records.encode(layout.DESCRIPTION, done)):
            return done
        found = records.complete(self._target)
        if found is None or msgspec.structs.replace(found, finished_ms=plan.finished_ms) != plan:
            raise SnapshotRefused(f"another process has written a snapshot to {self._target.url}")
        return found
