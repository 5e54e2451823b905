"""The threads of a controller: workers that reconcile the objects of its work queue, and one that lists all objects periodically.

The periodic listing makes lost, duplicate and stale watch events harmless: an object that is missing from the queue is added.

A worker is stuck if it makes no progress (`Heartbeats`). Progress is counted in requests, not in reconciliations: one reconciliation can
delete a thousand pods, and a slow API server is no reason to restart the operator.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from binshift_operator.errors import Forbidden, NotThere, OperatorError, Unreachable
from binshift_operator.kube import Kube, Object
from binshift_operator.metrics import OperatorMetrics
from binshift_operator.model.names import KIND
from binshift_operator.reconcile import Result
from binshift_operator.work_queue import ObjectKey, WorkQueue

log = logging.getLogger(__name__)
GET_SECONDS = 5.0
LIST_RETRY_SECONDS = 5.0
STANDBY_SECONDS = 1.0
PROGRESS_SECONDS_MAX = 300.0
"""A worker that has begun nothing and ended no request for longer is stuck. A request ends after at most 35 s (`kube.SECONDS_MAX`)."""


@dataclass
class Heartbeats:
    """When each worker thread last made progress: it began a reconciliation, or a request of it ended, successfully or not.

    Attributes:
        clock: monotonic seconds.
    """

    clock: Callable[[], float] = time.monotonic
    _at: dict[int, tuple[str, float]] = field(default_factory=dict)

    def watch(self) -> None:
        """Count the calling thread's progress from now on."""
        self._at[threading.get_ident()] = threading.current_thread().name, self.clock()

    def beat(self) -> None:
        """The calling thread has made progress; ignored for a thread that is not watched."""
        if threading.get_ident() in self._at:
            self.watch()

    def stuck(self) -> list[str]:
        """The names of the threads that have made no progress for too long."""
        now = self.clock()
        return sorted(name for name, at in tuple(self._at.values()) if now - at > PROGRESS_SECONDS_MAX)


@dataclass
class Controller:
    """Reconciles objects of one kind on its own threads.

    Attributes:
        queue: the objects to reconcile.
        reconcile: reconciles one object, by namespace and name.
        kube: lists objects.
        metrics: counts reconciliations.
        namespaces: to list; empty: all.
        resync_seconds: between two listings.
        workers: number of worker threads.
        selector: label selector of the objects to list; empty: all.
        is_leader: whether this process is the leader; otherwise nothing is reconciled, and the queue stays as it is.
        heartbeats: of the workers; the clients that they use report each request to it.
        kind: of the objects; ``noun``: the field of log records with their name.
        is_due: whether an object that was listed needs to be reconciled.
    """

    queue: WorkQueue
    reconcile: Callable[[str, str], Result]
    kube: Kube
    metrics: OperatorMetrics
    namespaces: Sequence[str]
    resync_seconds: float
    workers: int
    selector: str = ""
    is_leader: Callable[[], bool] = lambda: True
    heartbeats: Heartbeats = field(default_factory=Heartbeats)
    kind: str = KIND
    noun: str = "dataflow"
    is_due: Callable[[Object], bool] = lambda found: True
    _listed_at: float | None = None
    _stopping: threading.Event = field(default_factory=threading.Event)
    _threads: list[threading.Thread] = field(default_factory=list)

    def start(self) -> None:
        """Start the threads."""
        for number in range(self.workers):
            self._threads.append(threading.Thread(target=self._work, name=f"{self.noun}-{number}", daemon=True))
        self._threads.append(threading.Thread(target=self._list_periodically, name=f"{self.noun}-list", daemon=True))
        for thread in self._threads:
            thread.start()

    def stop(self, timeout_seconds: float = 10.0) -> None:
        """Stop after the running reconciliations, or after the timeout."""
        self._stopping.set()
        self.queue.shut_down()
        deadline = time.monotonic() + timeout_seconds
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))

    def liveness_problem(self) -> str:
        """Why the controller is not alive; empty if it is."""
        stuck, dead = self.heartbeats.stuck(), [thread.name for thread in self._threads if not thread.is_alive()]
        problems = (("without progress", stuck), ("dead", dead))
        return "; ".join(f"threads {what}: {', '.join(names)}" for what, names in problems if names)

    def readiness_problem(self) -> str:
        """Why the controller is not ready; empty if it is."""
        if self._listed_at is None:
            return "dataflows have not been listed yet"
        ago = time.monotonic() - self._listed_at
        return f"dataflows were last listed {ago:.0f} s ago" if ago > 3 * self.resync_seconds + 60 else ""

    def _work(self) -> None:
        while not self.queue.shutting_down:
            self.heartbeats.watch()
            if not self.is_leader():
                self._stopping.wait(STANDBY_SECONDS)
                continue
            key = self.queue.get(GET_SECONDS)
            if key is not None:
                self._process(key)

    def _process(self, key: ObjectKey) -> None:
        started = time.monotonic()
        try:
            result = self.reconcile(*key)
        except Exception as error:  # the edge of a thread: an error in one dataflow must not stop the others
            expected = isinstance(error, OperatorError)
            log.log(
                logging.WARNING if expected else logging.ERROR,
                "reconciliation failed: %s",
                error,
                exc_info=not expected,
                extra={self.noun: "/".join(key)},
            )
            self.metrics.reconciles.labels("failed").inc()
            self.metrics.failures.labels(type(error).__name__).inc()
            self.queue.add_rate_limited(key, error.retry_after if isinstance(error, Unreachable) else 0.0)
        else:
            self.queue.forget(key, result.requeue_after)
        self.metrics.reconcile_seconds.observe(time.monotonic() - started)

    def _list_periodically(self) -> None:
        lacking = ""
        while not self._stopping.is_set():
            wait = self.resync_seconds
            try:
                self.queue.add_missing(self._list())
                self._listed_at, lacking = time.monotonic(), ""
            except (NotThere, Forbidden) as error:  # without the CRD or the right: neither comes soon
                if lacking != str(error):
                    log.warning("%s objects cannot be listed, without their CRD or the right: %s", self.kind, error)
                lacking = str(error)
            except Exception as error:  # the edge of a thread: the next listing may succeed
                log.warning("listing %s failed: %s", self.kind, error)
                wait = min(LIST_RETRY_SECONDS, wait)
            self._stopping.wait(wait)

    def _list(self) -> set[ObjectKey]:
        keys: set[ObjectKey] = set()
        for namespace in self.namespaces or (None,):
            listed = filter(self.is_due, self.kube.list(self.kind, namespace, self.selector))
            keys |= {(each["metadata"]["namespace"], each["metadata"]["name"]) for each in listed}
        return keys
