"""Why a query failed, as an error of two types: its own, and Spark's `StreamingQueryException`, which is what PySpark programs catch.

The new error has the name, message, cause and attributes of the old one. An error whose class cannot have a second base stays as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from pyspark.errors import StreamingQueryException

CONDITION = "STREAM_FAILED"
"""Spark's condition of a query that has failed."""


def of_query(error: Exception) -> Exception:
    """The error that a failed query shows.

    >>> found = of_query(ValueError("no such user"))
    >>> isinstance(found, ValueError), isinstance(found, StreamingQueryException), str(found), found.getCondition()
    (True, True, 'no such user', 'STREAM_FAILED')
    """
    if isinstance(error, StreamingQueryException):
        return error
    try:
        both = _both(type(error))
        made: Any = both.__new__(both, *error.args)
    except TypeError:
        return error
    StreamingQueryException.__init__(made, str(error), CONDITION, {})
    made.args = error.args
    vars(made).update(vars(error))
    made.__cause__, made.__context__ = error.__cause__, error.__context__
    made.__suppress_context__ = error.__suppress_context__
    made.__traceback__ = error.__traceback__
    return made  # type: ignore[no-any-return]


@contextmanager
def failing(end: Callable[[], None], exception: Callable[[], Exception | None]) -> Iterator[None]:
    """Raise the query's error in the place of Spark's wrapper around it, which is shorter; nothing if the query was stopped.

    Args:
        end: releases what a query that has failed holds.
        exception: why it failed, None if it was stopped.
    """
    try:
        yield
    except Exception as failed:  # any error of the query
        end()
        error = exception()
        if error is not None:
            raise error from (None if error is not failed else failed.__cause__)


def _both(own: type[Exception]) -> type[Exception]:
    def message(self: StreamingQueryException) -> str:
        return str(self._message)

    names = {"__module__": own.__module__, "__qualname__": own.__qualname__, "__doc__": own.__doc__, "__str__": message}
    return type(own.__name__, (own, StreamingQueryException), names)
