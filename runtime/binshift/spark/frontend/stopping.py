"""Stops a query, also when the user's own function requests it in the middle of an epoch.

A stop waits for the running epoch, and Spark's stop waits for the thread that runs it. A caller in that thread would wait for
itself, and so would a caller that this thread waits for. The first case is recognised by the thread's id; another thread then
does the work. The second case cannot be recognised, so every wait here has a limit.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Any

from binshift.engine.epoch_loop import EpochLoop

log = logging.getLogger(__name__)

SPARK_STOP_SECONDS_MAX = 60.0
"""How long the thread of an abandoned epoch may take to end."""


def stop_query(epochs: EpochLoop[Any], query: Any, end: Callable[[], None], before: Callable[[], None]) -> None:
    """Stop after the running epoch.

    Args:
        epochs: the query's epoch loop.
        query: Spark's query.
        end: called once the stream has ended.
        before: called first; no epoch begins meanwhile.

    Raises:
        TimeoutError: the epoch's function does not return.
    """

    def stop() -> None:
        before()
        if not epochs.quiesce():
            log.warning("the running epoch is abandoned: Spark runs no job for it, and its function does not return")
        _stop_spark(query)
        end()

    epochs.stopping.set()
    _aside(epochs, stop)


def abort_query(epochs: EpochLoop[Any], query: Any, end: Callable[[], None]) -> None:
    """Stop at once; arguments and errors as for `stop_query`."""

    def stop() -> None:
        _stop_spark(query)
        end()

    epochs.stopping.set()
    _aside(epochs, stop)


def _aside(epochs: EpochLoop[Any], stop: Callable[[], None]) -> None:
    """Run it here, or in another thread if the caller is the epoch itself."""
    if not epochs.within:
        stop()
        return

    def logged() -> None:
        try:
            stop()
        except Exception:  # outermost frame of a thread: no caller waits for it
            log.exception("stopping the query failed")

    threading.Thread(target=logged, name="binshift-stop", daemon=True).start()


def _stop_spark(query: Any) -> None:
    """Spark's own stop, which has no time limit by default."""
    failures: list[Exception] = []

    def stop() -> None:
        try:
            query.stop()
        except Exception as error:  # raised below, in the calling thread
            failures.append(error)

    thread = threading.Thread(target=stop, name="binshift-stop-spark", daemon=True)
    thread.start()
    thread.join(SPARK_STOP_SECONDS_MAX)
    if thread.is_alive():
        raise TimeoutError(
            f"the stream has not ended within {SPARK_STOP_SECONDS_MAX:.0f} s: its foreachBatch function must return. Does "
            "it wait for the thread that calls stop()?"
        )
    if failures:
        raise failures[0]
