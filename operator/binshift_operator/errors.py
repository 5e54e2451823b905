"""What can go wrong around the operator; its own mistakes are exceptions of other kinds, and end the look they happen in.

```
OperatorError
├── Unreachable         the API server or a control API does not answer; look again later
│   └── TimedOut        it took too long to do so
├── Refused             it answered no; the message says why
│   ├── NotThere        404
│   ├── Changed         409: it is not what was seen any more, or it exists already; look again
│   ├── Forbidden       401 or 403: the operator lacks a right, or the token is not that of the driver
│   └── Invalid         400 or 422: what was asked for does not fit
├── NotLeading          this process may change nothing now, as another one may be in its place
└── InvalidConfiguration  a variable of the operator's own environment does not fit
```
"""

from __future__ import annotations


class OperatorError(Exception):
    """Root of the tree."""


class Unreachable(OperatorError):
    """Nobody answers, or nothing that makes sense, or that it is too busy."""

    def __init__(self, message: str, retry_after: float = 0.0) -> None:
        super().__init__(message)
        self.retry_after = retry_after
        """Seconds after which whoever answered wants to be asked again; 0 if it did not say."""


class TimedOut(Unreachable):
    """There was no answer in time."""


class Refused(OperatorError):
    """The answer is no."""


class NotThere(Refused):
    """What was asked for is not there."""


class Changed(Refused):
    """It is not what was seen any more."""


class Forbidden(Refused):
    """The caller may not do this."""


class Invalid(Refused):
    """What was asked for does not fit."""


class NotLeading(OperatorError):
    """This process may change nothing now."""


class InvalidConfiguration(OperatorError):
    """The operator's own environment is wrong."""


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
