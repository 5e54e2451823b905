"""A requested savepoint as callers see it: its state, and how far its copy is. Written by the shelf and the copy, read by any thread."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from dataclasses import dataclass, field

from binshift.model import Epoch
from binshift.savepoints.records import CopiedFile, Savepoint
from binshift.savepoints.states import SavepointState


@dataclass
class Progress:
    """How far a copy is; written by its threads, read by any.

    Attributes:
        trouble: why it waits; empty if it does not.
        epoch: None until it is chosen.
        files: how many there are.
        bytes: of all of them.
        copied_files: how many are copied.
        copied_bytes: of these.
    """

    trouble: str = ""
    epoch: Epoch | None = None
    files: int = 0
    bytes: int = 0
    copied_files: int = 0
    copied_bytes: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def planned(self, plan: Savepoint, present: Iterable[CopiedFile]) -> None:
        """This is to be copied, and the target has these files of it."""
        there = list(present)
        with self._lock:
            self.epoch, self.files, self.bytes = Epoch(plan.epoch), len(plan.files), plan.bytes
            self.copied_files, self.copied_bytes = len(there), sum(each.bytes for each in there)

    def copied(self, file: CopiedFile) -> None:
        """The target has one more."""
        with self._lock:
            self.copied_files += 1
            self.copied_bytes += file.bytes


@dataclass
class Requested:
    """A requested savepoint.

    Attributes:
        name: of it.
        location: where it is to be.
        state: of it.
        reason: why it is in this state, apart from what troubles the copy; empty if that is plain.
        progress: of its copy.
        started_at: when the copy began, in seconds since 1970; None before.
        finished_at: when it ended; None before.
        stop: ends the copy.
        idle: set while no thread works on it.
        checked: set once it is known whether it was complete already.
    """

    name: str
    location: str
    state: SavepointState = SavepointState.PENDING
    reason: str = ""
    progress: Progress = field(default_factory=Progress)
    started_at: float | None = None
    finished_at: float | None = None
    stop: threading.Event = field(default_factory=threading.Event)
    idle: threading.Event = field(default_factory=threading.Event)
    checked: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        self.idle.set()

    @property
    def why(self) -> str:
        """Why it waits or has failed; empty if neither."""
        return self.reason or self.progress.trouble

    @property
    def ended(self) -> bool:
        """Whether nothing more happens to it."""
        return self.state in (SavepointState.COMPLETE, SavepointState.FAILED)
