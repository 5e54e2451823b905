# ruff: noqa: N802 (PySpark's own names)
"""Listeners that see the state: a user's `StreamingQueryListener` with ``stateOperators`` in its progress events.

Spark makes its events in the JVM, where nothing of ours can add to them: `StreamingQueryProgress` is immutable, and the
bus hands one object to all listeners. So a listener added with ``spark.streams.addListener(mine)`` sees what Spark knows,
an empty ``stateOperators``, and so do Java's listeners and the event log. Wrapped, ``addListener(state_listener(mine))``,
a Python listener gets the filled reports; of queries that are not binshift's it gets Spark's own.
"""

from __future__ import annotations

from pyspark.sql import SparkSession
from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)

from binshift.spark.progress import filled_by_id


def state_listener(listener: StreamingQueryListener) -> StreamingQueryListener:
    """``listener``, seeing ``stateOperators`` of binshift's queries; to be given to ``spark.streams.addListener``.

    Keep what is returned: ``removeListener`` wants the same object.
    """
    return _Filling(listener)


class _Filling(StreamingQueryListener):
    def __init__(self, listener: StreamingQueryListener) -> None:
        self._listener = listener

    def _set_spark_session(self, session: SparkSession) -> None:
        super()._set_spark_session(session)
        self._listener._set_spark_session(session)

    def onQueryStarted(self, event: QueryStartedEvent) -> None:
        self._listener.onQueryStarted(event)

    def onQueryProgress(self, event: QueryProgressEvent) -> None:
        self._listener.onQueryProgress(QueryProgressEvent(filled_by_id(event.progress)))

    def onQueryIdle(self, event: QueryIdleEvent) -> None:
        self._listener.onQueryIdle(event)

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:
        self._listener.onQueryTerminated(event)
