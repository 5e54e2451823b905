"""Assertions that stay enabled: `python -O` removes `assert`, and a broken invariant must never write state."""

from __future__ import annotations


class InvariantViolated(AssertionError):
    """A bug in binshift, not caused by the user; the state in the log is unchanged."""


def invariant(holds: object, meaning: str) -> None:
    """Raise `InvariantViolated` with ``meaning`` unless ``holds``.

    >>> invariant(1 + 1 == 2, "arithmetic works")
    """
    if not holds:
        raise InvariantViolated(f"{meaning}. This is a bug in binshift: please report it with this traceback.")
