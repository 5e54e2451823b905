"""What a sink is, and what it promises when an epoch runs twice.

An epoch is run again after a failure, with the same rows if the user's functions are deterministic. A sink therefore
states its guarantee; it never tries to be cleverer than that. The action it runs is what makes the epoch happen: S
commits only when its last row was taken.
"""

from __future__ import annotations

import enum
from typing import Protocol

from pyspark.sql import DataFrame


class Guarantee(enum.StrEnum):
    """What the outside sees of an epoch that ran more than once."""

    IDEMPOTENT = "idempotent by epoch"
    """The later run replaces the earlier one: exactly once."""

    FILES = "files, one directory per epoch"
    """One run's files are the epoch's, and stay: exactly once for readers of finished directories."""

    AT_LEAST_ONCE = "at least once, duplicates recognisable by epoch"
    """Rows may come again; they belong to the same epoch as before."""


class Sink(Protocol):
    """Takes the result of each epoch.

    Attributes:
        name: of the format, for messages.
        guarantee: one of `Guarantee`.
        drains: the sink may run several actions or none, or take only some rows, so binshift materialises the result
            before `write`. Without it, `write` runs exactly one action that takes every row.
    """

    @property
    def name(self) -> str:
        """See the class."""

    @property
    def guarantee(self) -> str:
        """See the class."""

    @property
    def drains(self) -> bool:
        """See the class."""

    def write(self, result: DataFrame, epoch: int) -> None:
        """Write one epoch. May be called again for the same epoch, and then has to keep the guarantee.

        Raises:
            UserFunctionFailed: the user's own function raised.
        """

    def close(self) -> None:
        """The query has ended."""
