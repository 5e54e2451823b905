"""What a sink is, and its guarantee when an epoch runs twice.

An epoch runs again after a failure, with the same rows if the user's functions are deterministic. A sink therefore states its
guarantee and does not try to strengthen it. The action that the sink runs drives the epoch: S commits only when its last row
was taken.
"""

from __future__ import annotations

import enum
from typing import Protocol

from pyspark.sql import DataFrame


class Guarantee(enum.StrEnum):
    """What readers see of an epoch that ran more than once."""

    IDEMPOTENT = "idempotent by epoch"
    """The later run replaces the earlier one: exactly once."""

    FILES = "files, as Spark's sink writes them"
    """One run's files are the epoch's and never change: exactly once for Spark's readers, which see an epoch's files at once."""

    FILES_BY_EPOCH = "files, one directory per epoch"
    """The same, and an epoch's files appear at once for all readers of finished directories."""

    AT_LEAST_ONCE = "at least once, duplicates recognisable by epoch"
    """Rows may be delivered again, with the same epoch number."""


class Sink(Protocol):
    """Takes the result of each epoch.

    Attributes:
        name: the name of the format, for messages.
        guarantee: one of `Guarantee`.
        drains: the sink may run several actions or none, or take only some rows, so binshift materialises the result
            before `write`. If not, `write` runs exactly one action that takes every row.
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
        """Write one epoch. It may be called again for the same epoch and must then keep the guarantee.

        Raises:
            UserFunctionFailed: the user's own function raised.
        """

    def close(self) -> None:
        """The query has ended."""
