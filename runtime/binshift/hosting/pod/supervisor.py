"""Runs the user's program as a child process as long as required, and answers for it otherwise.

One run after another: `lifecycle` decides what the end of one means and whether there is another. A stop (requested over HTTP,
or by SIGTERM) lets the query finish its epoch; if the program then does not end, or a second signal comes, its whole process
group is killed. After the last run the control API stays up until a signal comes.

The sockets of the API are open for as long as this process lives. It answers on them while the program has no query, and the
program's process does so otherwise, both on copies: when one hands over to the other, callers wait for a moment and are never refused.
"""

from __future__ import annotations

import logging
import os
import queue
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, assert_never

import msgspec

from binshift.control import Control, ControlSettings, Listeners
from binshift.control.models import State
from binshift.control.services import ControlService
from binshift.hosting.pod import channel, lifecycle
from binshift.hosting.pod.activation import Activation
from binshift.hosting.pod.lifecycle import Again, Outcome
from binshift.hosting.pod.program_run import Event, Lost, ProgramRun
from binshift.hosting.processes import ChildProcess, Interrupts
from binshift.model import Worker

log = logging.getLogger(__name__)

STEP_SECONDS: Final = 0.2
END_SECONDS: Final = 20.0
"""How long a program may take to end after its query has stopped, and its process after the program."""
LOST_SECONDS: Final = 10.0
"""How long a program that has lost its master may take to stop: without one its executors may be gone, and then its epoch
never ends. It is run again anyway."""
STATUS_SECONDS: Final = 5.0
"""How long a process that has closed its pipe may take to be gone."""


@dataclass
class Supervisor:
    """Supervises one program; made by `binshift.hosting.pod.driver`.

    Attributes:
        command: starts the program's process.
        environment: of it.
        hello: the first message to it.
        control: access rules of the API.
        listeners: the API's sockets.
        interrupts: signals that have arrived.
        stop_seconds: how long a stop in order may take.
        status_port: of the master's status page.
        failed: receives the reason of each failure.
        clock: seconds that only grow.
        activation: whether the program's queries can start.
    """

    command: Sequence[str]
    environment: Mapping[str, str]
    hello: channel.Hello
    control: ControlSettings
    listeners: Listeners
    interrupts: Interrupts
    stop_seconds: float
    status_port: int
    failed: Callable[[str], None] = lambda reason: None
    clock: Callable[[], float] = time.monotonic
    activation: Activation = field(default_factory=lambda: Activation(active=True))
    _stop: threading.Event = field(default_factory=threading.Event, init=False)
    _forced: bool = field(default=False, init=False)
    _serving: bool = field(default=False, init=False)

    def __post_init__(self) -> None:
        self._api = Control(self.control, self.listeners)

    def run(self) -> int:
        """Run the program until it rests, then wait for a signal; 0, or 1 if it had to be killed in the end."""
        failures, reason = 0, ""
        while True:
            outcome = self._run_once(reason, failures)
            log.info("%s%s%s", outcome.state.value, outcome.reason and ": ", outcome.reason)
            if outcome.state in {State.FAILED, State.FENCED}:
                self.failed(outcome.reason)
            step = lifecycle.after(outcome, failures)
            if self.interrupts.seen or not isinstance(step, Again):
                break
            failures, reason = step.failures, lifecycle.again_reason(outcome, step.failures)
            log.info("the program is run again in %.0f s (failures in a row: %s)", step.after_seconds, failures)
            if not self._waited(step.after_seconds):
                self._show(State.STOPPED, outcome.reason)
                break
        while not self.interrupts.event.wait():
            pass
        self._release()
        return int(self._forced)

    def _waited(self, seconds: float) -> bool:
        """Whether so many seconds have passed without a signal or a stop."""
        until = self.clock() + seconds
        while not (self.interrupts.seen or self._stop.is_set()):
            if self.clock() >= until:
                return True
            self.interrupts.event.wait(STEP_SECONDS)
        return False

    # ----------------------------------------------------------------------------------------------- without a query

    def _show(
        self,
        state: State,
        reason: str = "",
        holding: Sequence[Worker] = (),
        failures: int = 0,
        registered: Sequence[int] = (),
    ) -> None:
        """Answer so from now on, for a program without a query. Errors as `ControlServer.start`."""
        known = {"workers": list(holding), "failures": failures, "registered": list(registered)}
        self._api.services.current = ControlService(state, reason, self._stop.set, self.activation, **known)
        if not self._serving:
            self._api.start()
            self._serving = True

    def _release(self) -> None:
        """Leave the sockets to the program, once requests under way are answered. May be called again."""
        if self._serving:
            self._serving = False
            self._api.stop()

    # -------------------------------------------------------------------------------------------------------- one run

    def _run_once(self, reason: str, failures: int) -> Outcome:
        self._forced = False
        self._show(State.LOADING, reason, failures=failures)
        events: queue.Queue[Event] = queue.Queue()
        run = ProgramRun(self._started(events), reason, failures, events, activated=not self.activation.is_standby)
        try:
            outcome = self._watched(run)
            self._show(outcome.state, outcome.reason)
        finally:
            run.unwatch()
            run.process.end_group()
        return outcome

    def _started(self, events: queue.Queue[Event]) -> ChildProcess:
        ours, theirs = os.pipe()
        inherited = (self.listeners.api.fileno(), self.listeners.health.fileno(), theirs)
        try:
            environment = dict(self.environment) | channel.described(inherited)
            process = ChildProcess(self.command, environment, inherited)
        finally:
            os.close(theirs)
        process.write_line(msgspec.json.encode(self.hello))
        channel.listen(ours, events.put)
        return process

    def _watched(self, run: ProgramRun) -> Outcome:
        """Until the process is gone, or has to go."""
        while True:
            event = run.next(STEP_SECONDS)
            if isinstance(event, channel.Gone):
                return self._outcome(run)
            if event is not None:
                self._note(run, event)
            if self.activation.active and not run.activated:
                run.activate()
                self._show(State.LOADING, run.reason, failures=run.failures)
            if (self.interrupts.seen or self._stop.is_set()) and not run.stop_requested:
                self._request_stop(run, self.stop_seconds)
            if self.interrupts.seen > 1 or self.clock() > run.deadline:
                self._forced = run.ended is None
                log.warning("the program has not ended in time: its processes are being stopped")
                run.ended = run.ended or Outcome(State.FAILED, run.why or "the program did not end in time")
                return self._outcome(run)

    def _note(self, run: ProgramRun, event: channel.Report | Lost) -> None:
        match event:
            case channel.Parked(application):
                run.watch_master(self.status_port, application)
                if not run.activated:
                    self._show(State.STANDBY)
            case channel.Rehearsed(workers):
                if not run.activated:
                    self._show(State.STANDBY, registered=workers)
            case channel.Recorded(workers):
                need = f"the query needs the workers that hold its bins: {', '.join(map(str, workers))}"
                self._show(State.LOADING, run.reason or need, tuple(map(Worker, workers)), run.failures)
            case channel.Started(application):
                run.served_at = self.clock()
                self._release()
                run.process.write_line(channel.SERVE)
                run.watch_master(self.status_port, application)
            case channel.Stopping():
                if not run.why:
                    self._stop.set()
            case channel.Over(stop_requested):
                run.unwatch()  # a program may end its session, and do something else
                if stop_requested:
                    run.by(self.clock() + END_SECONDS)
            case channel.Ended(state, reason, stop_requested):
                if stop_requested and not run.why:
                    self._stop.set()
                run.ended = Outcome(State(state), reason)
                run.by(self.clock() + END_SECONDS)
                shown = self._meant(run, run.ended)
                self._show(shown.state, shown.reason)
            case Lost():
                run.why = "Spark's master has not known the program for a minute: it is started again"
                log.warning("%s", run.why)
                self._request_stop(run, LOST_SECONDS)
            case _:
                assert_never(event)

    def _request_stop(self, run: ProgramRun, seconds: float) -> None:
        run.stop_requested = True
        run.by(self.clock() + seconds)
        run.process.write_line(channel.STOP)

    def _outcome(self, run: ProgramRun) -> Outcome:
        healthy = 0.0 if run.served_at is None else self.clock() - run.served_at
        outcome = run.ended
        if outcome is None:
            run.process.wait(STATUS_SECONDS)
            outcome = lifecycle.of_process(run.process.status or 0)
        meant = self._meant(run, outcome)
        return Outcome(meant.state, meant.reason, healthy)

    def _meant(self, run: ProgramRun, outcome: Outcome) -> Outcome:
        """What an end is taken for, which depends on who wanted it."""
        if self._stop.is_set() or self.interrupts.seen:
            return lifecycle.stopped(outcome)
        if run.why and outcome.state is State.STOPPED:
            return Outcome(State.FAILED, run.why)
        return outcome


def program_command(program: Path, arguments: Sequence[str]) -> list[str]:
    """The command line of the program's process."""
    return [sys.executable, "-m", "binshift.hosting.pod.program", str(program), *arguments]
