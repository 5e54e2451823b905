"""Assertions that stay on: `python -O` removes `assert`, and a broken invariant must never write state."""

from __future__ import annotations


class InvariantViolated(AssertionError):
    """binshift has a bug. Nothing a user did; the state on the log is as it was before."""


def invariant(holds: object, meaning: str) -> None:
    """Raise `InvariantViolated` with ``meaning`` unless ``holds``.

    >>> invariant(1 + 1 == 2, "arithmetic works")
    """
    if not holds:
        raise InvariantViolated(f"{meaning}. This is a bug in binshift: please report it with this traceback.")
