"""The threads that look: some that take dataflows off the schedule, and one that lists all of them every now and then.

The listing is what makes lost, doubled and stale watch events harmless: whoever is not on the schedule is put there.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from binshift_operator.errors import OperatorError, Unreachable
from binshift_operator.kube import Kube
from binshift_operator.metrics import OperatorMetrics
from binshift_operator.model.names import KIND
from binshift_operator.reconcile import GONE_SECONDS
from binshift_operator.schedule import Place, Schedule

log = logging.getLogger(__name__)
TAKE_SECONDS = 5.0
LISTING_RETRY_SECONDS = 5.0
STANDBY_SECONDS = 1.0
LOOK_SECONDS_MAX = 900.0
"""A thread that looks at one dataflow for longer hangs. A look makes up to two dozen requests of at most 35 s each (`kube.SECONDS_MAX`): an
API server that is slow is no reason to restart the operator."""


@dataclass
class Looking:
    """Runs looks on threads of its own.

    Attributes:
        schedule: which dataflow is next.
        look: looks at one; seconds until the next look.
        kube: lists dataflows.
        metrics: what is counted.
        namespaces: to list; all if empty.
        resync_seconds: between two listings.
        workers: threads that look.
        selector: of the dataflows to list; all if empty.
        leading: whether this process may act; while it may not, nothing is looked at, and what is due stays due.
    """

    schedule: Schedule
    look: Callable[[str, str], float]
    kube: Kube
    metrics: OperatorMetrics
    namespaces: Sequence[str]
    resync_seconds: float
    workers: int
    selector: str = ""
    leading: Callable[[], bool] = lambda: True
    _listed: float | None = None
    _beats: dict[int, float] = field(default_factory=dict)
    _ended: threading.Event = field(default_factory=threading.Event)
    _threads: list[threading.Thread] = field(default_factory=list)

    def start(self) -> None:
        """Begin."""
        for number in range(self.workers):
            self._beats[number] = time.monotonic()
            name = f"look-{number}"
            self._threads.append(threading.Thread(target=self._work, args=(number,), name=name, daemon=True))
        self._threads.append(threading.Thread(target=self._list, name="list", daemon=True))
        for thread in self._threads:
            thread.start()

    def stop(self, seconds: float = 10.0) -> None:
        """End after the looks under way, or after that time."""
        self._ended.set()
        self.schedule.close()
        deadline = time.monotonic() + seconds
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))

    def stuck(self) -> str:
        """Why this is not alive; empty if it is."""
        late = [n for n, beat in self._beats.items() if time.monotonic() - beat > LOOK_SECONDS_MAX]
        dead = [thread.name for thread in self._threads if not thread.is_alive()]
        return f"threads {late} hang, {dead} have ended" if late or dead else ""

    def unready(self) -> str:
        """Why this is not ready; empty if it is."""
        if self._listed is None:
            return "dataflows could not be listed yet"
        ago = time.monotonic() - self._listed
        return f"dataflows were last listed {ago:.0f} s ago" if ago > 3 * self.resync_seconds + 60 else ""

    def _work(self, number: int) -> None:
        while not self.schedule.closed:
            self._beats[number] = time.monotonic()
            if not self.leading():
                self._ended.wait(STANDBY_SECONDS)
                continue
            place = self.schedule.take(TAKE_SECONDS)
            if place is not None:
                self._look(place)

    def _look(self, place: Place) -> None:
        began = time.monotonic()
        try:
            again = self.look(*place)
        except Exception as error:  # the edge of a thread: whatever goes wrong with one dataflow is that one's
            known = isinstance(error, OperatorError)
            log.log(
                logging.WARNING if known else logging.ERROR,
                "the look failed: %s",
                error,
                exc_info=not known,
                extra={"dataflow": "/".join(place)},
            )
            self.metrics.looks.labels("failed").inc()
            self.metrics.failures.labels(type(error).__name__).inc()
            self.schedule.failed(place, error.retry_after if isinstance(error, Unreachable) else 0.0)
        else:
            self.schedule.done(place, None if again == GONE_SECONDS else again)
        self.metrics.look_seconds.observe(time.monotonic() - began)

    def _list(self) -> None:
        while not self._ended.is_set():
            wait = self.resync_seconds
            try:
                self.schedule.known(self._places())
                self._listed = time.monotonic()
            except Exception as error:  # the edge of a thread: the next listing may succeed
                log.warning("dataflows cannot be listed: %s", error)
                wait = min(LISTING_RETRY_SECONDS, wait)
            self._ended.wait(wait)

    def _places(self) -> set[Place]:
        found: set[Place] = set()
        for namespace in self.namespaces or (None,):
            listed = self.kube.list(KIND, namespace, self.selector)
            found |= {(each["metadata"]["namespace"], each["metadata"]["name"]) for each in listed}
        return found
