"""Runs the user's program in a process of its own, and answers for its query: ``python -m binshift.hosting.pod.program APP ...``.

Started by `binshift.hosting.pod.supervisor`, which holds the control API's sockets and answers on them until there is a query. The
program knows nothing of this: it finds its master and its conf as under ``spark-submit``, and binshift runs its stateful
queries. Tokens come through a pipe and
are in no environment. When the driver's process is gone, however that happened, this one ends too.
"""

from __future__ import annotations

import contextlib
import io
import os
import queue
import socket
import sys
import threading
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, TextIO

from binshift.control import Control, ControlSettings, Listeners, QueryService, Tokens
from binshift.control.models import State
from binshift.control.serving import tls_directory
from binshift.errors import BinshiftError
from binshift.hosting.pod import channel, lifecycle
from binshift.hosting.pod.conf import prepare
from binshift.hosting.pod.daemons import await_name, await_port, configure_logging
from binshift.hosting.pod.settings import DriverSettings, address_of
from binshift.hosting.program import run_script, watch_parent
from binshift.model import Worker
from binshift.spark.frontend.host import Host, hosting
from binshift.spark.frontend.installing import install

if TYPE_CHECKING:
    from binshift.spark.frontend.dataflow import StreamingQuery

LOOK_SECONDS: Final = 0.25
"""How often to check whether a stopping query has stopped."""
REMEMBERED_CHARACTERS: Final = 1000
"""Of the end of standard error."""


class Child:
    """The program's side of the channel.

    Args:
        writer: to the driver.
        control: not started yet.
        standby: whether queries wait until the driver is activated.
    """

    def __init__(self, writer: channel.ChannelWriter, control: Control, *, standby: bool = False) -> None:
        self._writer, self._control = writer, control
        self._activated = threading.Event()
        if not standby:
            self._activated.set()
        self._services: list[QueryService] = []
        self._reported = self._gone = False
        self._serving = self._over = False
        self._parked = ""
        self._lock = threading.Lock()

    def admitted(self, application: str, seconds: float | None) -> bool:
        """Whether the program's queries can start within so many seconds; None: as long as it takes."""
        with self._lock:
            news = not self._activated.is_set() and self._parked != application
            self._parked = application
        if news:
            self._writer.send(channel.Parked(application))
        return self._activated.wait(seconds)

    def rehearsed(self, workers: frozenset[Worker]) -> None:
        """Workers whose executors are ready for a take-over."""
        self._writer.send(channel.Rehearsed(tuple(sorted(workers))))

    def recorded(self, workers: frozenset[Worker]) -> None:
        """Workers without which the first epoch cannot be."""
        if workers and not self._running():  # if another query runs, there are workers already
            self._writer.send(channel.Recorded(tuple(sorted(workers))))

    def started(self, started: StreamingQuery) -> None:
        """The program has a query, perhaps one of several: serve the API for it as soon as the driver has released it."""
        with self._lock:
            service, alone = self._control.attach(started), not self._running()
            self._services = [*self._running(), service]
            self._reported = self._gone = False
        threading.Thread(target=self._watch, args=(service,), name="binshift-stopped", daemon=True).start()
        if alone:
            self._writer.send(channel.Started(started.application))

    def _running(self) -> list[QueryService]:
        return [each for each in self._services if each.state()[0] is State.RUNNING]

    def receive(self, line: bytes) -> None:
        """The driver wishes something."""
        with self._lock:
            if line.strip() == channel.ACTIVATE:
                self._activated.set()
            elif line.strip() == channel.SERVE and not (self._over or self._serving):
                self._serving = True
                self._control.start()
            elif line.strip() == channel.STOP and self._services:
                for each in self._services:
                    each.stop()
            elif line.strip() == channel.STOP and not self._over:
                # Without a query no epoch can be under way.
                self._writer.send(channel.Ended(State.STOPPED, "", True))
                os._exit(0)

    def ended(self, error: BaseException | None, text: str) -> None:
        """The program has ended: leave the sockets to the driver, and report the outcome."""
        seen, stop_requested = self._seen(), self._stop_requested()
        outcome = lifecycle.of_program(seen, stop_requested, error, text)
        with self._lock:
            self._over = True
            self._control.stop()
        self._writer.send(channel.Ended(outcome.state, outcome.reason, stop_requested))

    def _seen(self) -> tuple[State, str] | None:
        """What the queries did last, and why: of one that runs, else of one that failed; None if there was none."""
        states = [each.state() for each in self._services]
        running = [each for each in states if each[0] is State.RUNNING]
        failed = [each for each in states if each[0] in (State.FAILED, State.FENCED)]
        return next(iter((*running, *failed, *states)), None)

    def _stop_requested(self) -> bool:
        """Whether a stop of every query was requested from outside."""
        return bool(self._services) and all(each.stop_requested for each in self._services)

    def _watch(self, service: QueryService) -> None:
        """Report that the queries are stopping, and when the last of them has ended."""
        never = threading.Event()
        while not never.wait(LOOK_SECONDS):
            ended = service.state()[0] is not State.RUNNING
            with self._lock:
                news = self._stop_requested() and not self._reported
                self._reported |= news
                last = ended and service in self._services and not self._gone and not self._running()
                self._gone |= last
            if news:
                self._writer.send(channel.Stopping())
            if last:
                self._writer.send(channel.Over(self._stop_requested()))
            if ended:
                return


def main(arguments: Sequence[str]) -> int:
    """Run a program; returns its exit status."""
    configure_logging()
    api, health, pipe = channel.inherited(os.environ)
    os.environ.pop(channel.DESCRIPTORS_VARIABLE)
    lines: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    watch_parent(lines.put)
    hello = channel.HELLO.decode(lines.get())
    listeners = Listeners(socket.socket(fileno=api), socket.socket(fileno=health))
    settings = ControlSettings(tokens=Tokens(hello.admin, hello.drain), tls=tls_directory(os.environ))
    given = replace(DriverSettings.from_environment(os.environ), secret=hello.secret)
    child = Child(channel.ChannelWriter(pipe), Control(settings, listeners), standby=given.standby)
    threading.Thread(target=_hear, args=(lines, child), name="binshift-wishes", daemon=True).start()
    app = Path(arguments[0])
    try:
        os.environ.update(prepare(given, app, os.environ.get("PYTHONPATH", ""), Path(hello.folder)))
    except (BinshiftError, OSError) as error:
        child.ended(error, f"{type(error).__name__}: {error}")
        return 1
    # Otherwise Spark would end at a name that does not resolve yet, and retry a master only after twenty seconds.
    await_name(given.host)
    await_port(*address_of(given.master))
    with hosting(Host(child.admitted, child.rehearsed, child.recorded, child.started)):
        install()
        return _run(app, arguments[1:], child)


class StderrTee(io.TextIOBase):
    """Standard error, whose end is kept: it has the reason if a program ends with nothing but an exit status."""

    def __init__(self, out: TextIO) -> None:
        self._out, self.end = out, ""

    def write(self, text: str) -> int:
        """Write on, and remember."""
        self.end = (self.end + text)[-REMEMBERED_CHARACTERS:]
        return self._out.write(text)

    def flush(self) -> None:
        """Flush what is written to."""
        self._out.flush()

    def fileno(self) -> int:
        """That of what is written to."""
        return self._out.fileno()


def _run(app: Path, arguments: Sequence[str], child: Child) -> int:
    stderr = StderrTee(sys.stderr)
    try:
        with contextlib.redirect_stderr(stderr):
            failure = run_script(app, arguments)
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else 0 if end.code is None else 1
        message = "" if isinstance(end.code, int) or end.code is None else str(end.code)
        if message:
            sys.stderr.write(f"{message}\n")
        silent = f"the program ended with exit status {status}; the end of its output:\n{stderr.end.strip()}"
        child.ended(None, message if message or not status else silent)
        return status
    if failure is not None:
        sys.stderr.write(failure.traceback)
        sys.stderr.flush()
        child.ended(failure.error, failure.traceback)
        return 1
    child.ended(None, "")
    return 0


def _hear(lines: queue.SimpleQueue[bytes], child: Child) -> None:
    while True:
        child.receive(lines.get())


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
