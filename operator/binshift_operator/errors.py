"""The operator's errors. Its own mistakes are exceptions of other types, and end the reconciliation in which they occur."""

from __future__ import annotations


class OperatorError(Exception):
    """Root of the tree."""


class Unreachable(OperatorError):
    """The API server or a control API gives no response, or none that can be parsed, or is too busy (429, 5xx); retry later."""

    def __init__(self, message: str, retry_after: float = 0.0) -> None:
        super().__init__(message)
        self.retry_after = retry_after
        """Seconds after which the server accepts a retry; 0 if it named none."""


class TimedOut(Unreachable):
    """The request timed out."""


class Refused(OperatorError):
    """The request was rejected; the message has the reason."""


class NotThere(Refused):
    """404: the object does not exist."""


class Changed(Refused):
    """409: the object has changed since it was observed, or exists already; observe again."""


class Forbidden(Refused):
    """401 or 403: the operator lacks a right, or has the token of another driver."""


class Invalid(Refused):
    """400 or 422: the request is invalid."""


class NotLeading(OperatorError):
    """This process must not write now, as another one may hold the Lease."""


class InvalidConfiguration(OperatorError):
    """An environment variable of the operator is invalid."""


def error_of(status: int, message: str, retry_after: float = 0.0) -> OperatorError:
    """The error of an HTTP status.

    >>> error_of(409, "x"), error_of(503, "y")
    (Changed('x'), Unreachable('y'))
    """
    match status:
        case 404:
            return NotThere(message)
        case 409:
            return Changed(message)
        case 401 | 403:
            return Forbidden(message)
        case 400 | 422:
            return Invalid(message)
        case _ if status >= 500 or status == 429:
            return Unreachable(message, retry_after)
        case _:
            return Refused(f"{status}: {message}")
