"""How long to wait after failures in a row: one rule for all that is tried again.

Pure: the caller counts failures, knows the time, and adds jitter where many callers would come at once.
"""

from __future__ import annotations


def backoff_seconds(failures: int, first_seconds: float, last_seconds: float) -> float:
    """The wait after so many failures in a row: ``first_seconds``, then twice as long each time, up to ``last_seconds``.

    >>> [backoff_seconds(failures, 1.0, 5.0) for failures in (0, 1, 2, 3, 4, 10_000)]
    [0.0, 1.0, 2.0, 4.0, 5.0, 5.0]
    """
    # An exponent without a bound would overflow after some weeks.
    return min(first_seconds * 2.0 ** min(failures - 1, 60), last_seconds) if failures > 0 else 0.0
