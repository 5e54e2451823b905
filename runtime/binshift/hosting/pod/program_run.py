"""One run of the program as the supervisor sees it: its process, its messages, and how it is meant to end."""

from __future__ import annotations

import queue
from dataclasses import dataclass

import msgspec

from binshift.hosting.pod import channel
from binshift.hosting.pod.connection import MasterWatch
from binshift.hosting.pod.lifecycle import Outcome
from binshift.hosting.processes import ChildProcess


class Lost(msgspec.Struct, frozen=True):
    """The master does not know the program any more."""


Event = channel.Message | Lost


@dataclass
class ProgramRun:
    """One run of the program.

    Attributes:
        process: its group.
        reason: why the previous run failed; empty if it did not.
        failures: how many previous runs have failed in a row.
        events: its messages that are not processed yet.
        served_at: since when it has a query.
        activated: whether its queries can start: this driver is the active one.
        ended: its report of its end.
        stop_requested: whether it was stopped from here.
        why: the reason to restart it, if it is to be.
        deadline: when it is ended by force.
    """

    process: ChildProcess
    reason: str
    failures: int
    events: queue.Queue[Event]
    served_at: float | None = None
    activated: bool = False
    ended: Outcome | None = None
    stop_requested: bool = False
    why: str = ""
    deadline: float = float("inf")
    watch: MasterWatch | None = None

    def by(self, moment: float) -> None:
        """It must have ended by then."""
        self.deadline = min(self.deadline, moment)

    def watch_master(self, status_port: int, application: str) -> None:
        """Put `Lost` among its events if the master forgets it."""
        self.unwatch()
        self.watch = MasterWatch(status_port, application, lambda: self.events.put(Lost()))
        self.watch.start()

    def unwatch(self) -> None:
        """It needs its master no longer."""
        if self.watch is not None:
            self.watch.stop()
            self.watch = None

    def activate(self) -> None:
        """Its queries can start."""
        self.activated = True
        self.process.write_line(channel.ACTIVATE)

    def next(self, seconds: float) -> Event | None:
        """The next event, if there is one within so many seconds."""
        try:
            return self.events.get(timeout=seconds)
        except queue.Empty:
            return None
