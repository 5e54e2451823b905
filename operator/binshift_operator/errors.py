"""The operator's errors. Its own mistakes are exceptions of other types, and end the reconciliation in which they occur.

```
OperatorError
├── Unreachable         the API server or a control API does not answer; retry later
│   └── TimedOut        the request timed out
├── Refused             the request was rejected; the message has the reason
│   ├── NotThere        404
│   ├── Changed         409: the object has changed since it was observed, or exists already; observe again
│   ├── Forbidden       401 or 403: the operator lacks a right, or has the token of another driver
│   └── Invalid         400 or 422: the request is invalid
├── NotLeading          this process must not write now, as another one may hold the Lease
└── InvalidConfiguration  an environment variable of the operator is invalid
```
"""

from __future__ import annotations


class OperatorError(Exception):
    """Root of the tree."""


class Unreachable(OperatorError):
    """There is no response, or none that can be parsed, or the server is too busy."""

    def __init__(self, message: str, retry_after: float = 0.0) -> None:
        super().__init__(message)
        self.retry_after = retry_after
        """Seconds after which the server accepts a retry; 0 if it named none."""


class TimedOut(Unreachable):
    """The request timed out."""


class Refused(OperatorError):
    """The request was rejected."""


class NotThere(Refused):
    """The object does not exist."""


class Changed(Refused):
    """The object has changed since it was observed."""


class Forbidden(Refused):
    """The operator has no right to do this."""


class Invalid(Refused):
    """The request is invalid."""


class NotLeading(OperatorError):
    """This process must not write now."""


class InvalidConfiguration(OperatorError):
    """An environment variable of the operator is invalid."""


def refused(status: int, message: str, retry_after: float = 0.0) -> OperatorError:
    """The error of an HTTP status.

    >>> refused(409, "x"), refused(503, "y")
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
