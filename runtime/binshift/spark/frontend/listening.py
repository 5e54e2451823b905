# ruff: noqa: N802 (PySpark's own names)
"""Listeners that see the state: a user's `StreamingQueryListener` with ``stateOperators`` in its progress events.

Spark creates its events in the JVM, where binshift cannot extend them: `StreamingQueryProgress` is immutable, and the
bus passes one object to all listeners. A listener added with ``spark.streams.addListener(mine)`` therefore sees Spark's report with
an empty ``stateOperators``, and so do Java listeners and the event log. Wrapped, ``addListener(state_listener(mine))``,
a Python listener gets the completed reports; for queries of plain Spark it gets Spark's report unchanged. After
`binshift.install`, every listener that a program adds is wrapped.
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
from pyspark.sql.streaming.query import StreamingQueryManager

from binshift.spark.session.progress import filled_by_id

_add, _remove = StreamingQueryManager.addListener, StreamingQueryManager.removeListener
"""PySpark's own."""

_WRAPPED = "_binshift_wrapped"
"""The attribute of a program's listener with what Spark knows in its place."""


def install() -> None:
    """Wrap every listener that is added from here on."""
    StreamingQueryManager.addListener = _add_wrapped  # type: ignore[method-assign,assignment]
    StreamingQueryManager.removeListener = _remove_wrapped  # type: ignore[method-assign,assignment]


def _add_wrapped(manager: StreamingQueryManager, listener: StreamingQueryListener) -> None:
    if isinstance(listener, StreamingQueryListener) and not isinstance(listener, _Filling):
        listener = vars(listener).setdefault(_WRAPPED, _Filling(listener))
    _add(manager, listener)


def _remove_wrapped(manager: StreamingQueryManager, listener: StreamingQueryListener) -> None:
    _remove(manager, vars(listener).pop(_WRAPPED, listener))


def state_listener(listener: StreamingQueryListener) -> StreamingQueryListener:
    """``listener`` with ``stateOperators`` of binshift queries; pass it to ``spark.streams.addListener``.

    Keep the returned object: ``removeListener`` needs the same one.
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
