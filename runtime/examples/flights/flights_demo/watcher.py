"""Notes when each epoch was committed, and what it had taken, while the query runs.

A thread that polls the query's newest recorded epoch some hundred times a second: the time it notes is that much late at most.
It makes no call that could delay an epoch.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from binshift.model import Epoch
from binshift.routing import Route
from flights_demo.consumed import Consumed
from flights_demo.latency_log import LatencyLog

if TYPE_CHECKING:
    from binshift.spark.frontend.dataflow import StreamingQuery

LOOK_EVERY_SECONDS = 0.005


class Watcher:
    """Fills a log until stopped.

    Args:
        query: to poll.
        consumed: has the files of each epoch.
        log: to fill.
        now: seconds since the replay began.
    """

    def __init__(self, query: StreamingQuery, consumed: Consumed, log: LatencyLog, now: Callable[[], float]) -> None:
        self._query = query
        self._consumed = consumed
        self._ledger = log
        self._now = now
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="demo-watcher", daemon=True)
        self.error: Exception | None = None
        """What ended it early."""

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """End; waits for the thread."""
        self._stopped.set()
        if self._thread.ident is not None:
            self._thread.join()

    def _watch(self) -> None:
        try:
            while not self._stopped.wait(LOOK_EVERY_SECONDS):
                self._poll()
        except Exception as error:  # the edge of a thread: the one who waits for its notes raises it
            self.error = error

    def _poll(self) -> None:
        newest, at, route = self._query.epoch, self._now(), self._query.route
        for number in range(len(self._ledger.entries), newest + 1):
            epoch = Epoch(number)
            self._ledger.commit(epoch, at, self._consumed.files(epoch), bins_by_worker(route))


def bins_by_worker(route: Route | None) -> tuple[int, ...]:
    """How many bins each slot has, from slot 0 on.

    >>> bins_by_worker(Route(np.array([0, 0, 2, 0])))
    (3, 0, 1)
    """
    return () if route is None else tuple(np.bincount(route.owners).tolist())
