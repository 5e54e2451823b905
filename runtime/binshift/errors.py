"""Every error that binshift raises on purpose. Catch at the level of the tree that you need.

```
BinshiftError
├── Retryable                    wait, then retry; binshift does so itself, a bounded number of times
│   ├── EpochFailed              a run of an epoch ended early; the whole epoch runs again
│   │   ├── WrongExecutor        a task ran on another executor than the one it was sent to
│   │   ├── SparkRetried         Spark re-ran a single task by itself
│   │   └── NeedsBringUp         a store lacks bins that the task was not given files for
│   ├── StoreBusy                another task holds a store's write lock
│   ├── StoreDamaged             a local store is torn; it is discarded and rebuilt from the log
│   ├── StorageUnavailable       the log's file system did not respond
│   ├── DiskFull                 no space is left for the log or for a local store; work continues once there is
│   ├── NoQueryYet               the program has not started its query yet
│   └── ControlUnreachable       the control API does not respond
└── GiveUp                       manual action is needed; the message has the instructions
    ├── Unsupported              a PySpark feature binshift does not have (yet); the message names the alternative
    ├── InvalidQuery             an argument of a frame or a writer does not fit; the message names it and a valid one
    ├── InvalidSettings          a setting, or the Spark conf, is wrong; the message gives the line to add
    ├── NoSuchQuery              the program has no query of that name, or several and none was named
    ├── SnapshotRefused          a snapshot of the dataflow cannot be made or removed there; the message has the reason
    │   └── NoSuchSnapshot       no snapshot of that name was requested in this run
    ├── NoRun                    no `binshift run` to control, or several; the message has how to start or name one
    ├── RunFailed                the cluster or the program ended, or a request to it failed
    ├── InvalidRoute             a control update does not fit the route it is meant for
    ├── StateTooLarge            a key, value or epoch exceeds a stated limit; state is unchanged
    ├── Fenced                   another driver or a newer run owns the state; this one stops
    ├── LogError                 the log cannot be used as it is; it was not changed
    │   ├── LogOwned             another dataflow uses this log; delete that one, or move this one elsewhere
    │   ├── ForeignLog           the directory belongs to something else, another format or another query
    │   ├── LogDamaged           a file is missing or its checksum is wrong; the message names it
    │   │   └── LogFileMissing   the file does not exist: a copy starts again, an owner stops
    │   └── IncompatibleState    the query's keys, aggregates or bins differ from those in the log
    ├── ReplayMismatch           Spark replays an epoch with other input than it was recorded with
    ├── ArithmeticOverflow       a sum or count exceeds its type; state is unchanged
    ├── UserFunctionFailed       the user's own function raised; the end of its traceback is in the message
    └── MigrationRefused         the requested move is impossible; the message has the reason
        ├── TargetOutdated       its owner has already set a newer target
        ├── TargetOwned          an operator owns the target; change it there
        ├── DrainRefused         a worker's bins have nowhere to go: it is the last one, or the query is stopping
        └── NoSuchMigration      no migration of this run has that number
```
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Self

FIELDS = "binshift: "
"""Begins the note that holds an error's fields as JSON, where errors are handed on as the text of a traceback."""


class BinshiftError(Exception):
    """Root of the tree."""

    @property
    def fields(self) -> dict[str, str | int]:
        """What the error is about, by name, for programs; empty for most kinds."""
        return {}


class Retryable(BinshiftError):
    """Waiting and retrying can help."""


class GiveUp(BinshiftError):
    """Only a manual change can help."""


class EpochFailed(Retryable):
    """A run of an epoch ended early; nothing it did counts."""


class TaskFailed(EpochFailed):
    """A Spark task failed for a reason that is neither binshift's nor the user's Python: a source, a sink, the JVM."""


class WrongExecutor(EpochFailed):
    """A pinned task ran elsewhere: its executor was lost or stayed busy beyond ``spark.locality.wait``."""


class SparkRetried(EpochFailed):
    """Spark re-ran a single task, which would mix the rows of two attempts."""


class NeedsBringUp(EpochFailed):
    """A store is empty, behind or ahead, and the task has no files to bring it to the expected state."""


class StoreBusy(Retryable):
    """Another task holds the write lock of a local store for longer than the time-out."""


class StoreDamaged(Retryable):
    """A local store is torn or altered. The next task that opens it finds it empty and rebuilds it from the log."""


class StorageUnavailable(Retryable):
    """The log's file system returned an error or did not respond."""


class DiskFull(Retryable):
    """No space is left under the log or under a local store: nothing was lost, and work continues once there is."""


class NoQueryYet(Retryable):
    """The control API is running, but the program has not started its query yet."""


class ControlUnreachable(Retryable):
    """Nothing responds at the control API's address, or the response is not valid."""


class Unsupported(GiveUp):
    """A PySpark feature that binshift does not have."""


class InvalidQuery(GiveUp):
    """An argument of a query or of its writer does not fit the rest of the query."""


class InvalidSettings(GiveUp):
    """A setting or the Spark conf is wrong."""


class NoSuchQuery(GiveUp):
    """A request to the control API names no query of the program."""


class SnapshotRefused(GiveUp):
    """A snapshot of a dataflow cannot be made or removed at a location, which has something else."""


class NoSuchSnapshot(SnapshotRefused):
    """This run of the query has no snapshot of that name."""


class NoRun(GiveUp):
    """There is no run to control, or several and none was named."""


class RunFailed(GiveUp):
    """A run failed, or a request to it did."""


class InvalidRoute(GiveUp):
    """A control update does not fit the route it is meant for."""


class StateTooLarge(GiveUp):
    """A stated limit on keys, values, undo or epochs would be exceeded; nothing was written."""


class Fenced(GiveUp):
    """A newer driver or run owns the state."""


class LogError(GiveUp):
    """The log cannot be used as it is."""


class LogOwned(LogError):
    """Another dataflow's driver uses this log."""


class ForeignLog(LogError):
    """The directory holds something that is not this query's log."""


class LogDamaged(LogError):
    """A log file is missing, torn or altered.

    Attributes:
        file: the log's file that it is about, if it is about one.
        operator: the operator whose state is affected, if it is one's.
        epoch: the epoch whose state or record is affected, if it is one's.
    """

    file: str | None = None
    operator: str | None = None
    epoch: int | None = None

    def about(self, *, file: str | None = None, operator: str | None = None, epoch: int | None = None) -> Self:
        """The same error with its fields, if it has none yet. A note has them too: it ends the traceback, and crosses Spark."""
        if not self.fields:
            self.file, self.operator, self.epoch = file, operator, epoch
            if self.fields:
                self.add_note(FIELDS + json.dumps(self.fields))
        return self

    @property
    def fields(self) -> dict[str, str | int]:
        """The known ones."""
        known = {"file": self.file, "operator": self.operator, "epoch": self.epoch}
        return {name: value for name, value in known.items() if value is not None}


@contextmanager
def reading(file: str, *, operator: str | None = None, epoch: int | None = None) -> Iterator[None]:
    """While this file is read: damage gets these fields."""
    try:
        yield
    except LogDamaged as error:
        error.about(file=file, operator=operator, epoch=epoch)
        raise


class LogFileMissing(LogDamaged):
    """A log file does not exist: deleted manually, or by the retention while a slow copy still read it."""


class IncompatibleState(LogError):
    """The query does not match the state in the log."""


class ReplayMismatch(GiveUp):
    """An epoch is replayed with other input than its record names."""


class ArithmeticOverflow(GiveUp):
    """An aggregate exceeds its type, where Spark's ANSI mode requires an error; nothing was written."""


class UserFunctionFailed(GiveUp):
    """The user's function raised inside an epoch."""


class MigrationRefused(GiveUp):
    """A requested move is impossible."""


class TargetOutdated(MigrationRefused):
    """Its owner has already set a newer target, or a different one of the same generation."""


class TargetOwned(MigrationRefused):
    """The target belongs to an operator; change it there."""


class DrainRefused(MigrationRefused):
    """No worker would remain to take over the bins."""


class NoSuchMigration(MigrationRefused):
    """This run of the query has no migration of that number."""
