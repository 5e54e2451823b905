"""How a processor's users get rows and return them: one by one, or in frames of pandas."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Protocol

import pyarrow as pa


class Input(Protocol):
    """Rows sorted by key."""

    def between(self, start: int, stop: int) -> Iterator[Any]:
        """What the user's method gets for the rows of one key."""


class Output(Protocol):
    """Collects and converts what the user's methods return."""

    def add(self, returned: Iterable[Any]) -> None:
        """Take everything that a method returned."""

    @property
    def is_full(self) -> bool:
        """Whether it is time to `take`."""

    def take(self) -> Iterator[pa.RecordBatch]:
        """Everything added since the last call."""


class Format(Protocol):
    """A processor's form of rows; it is pickled into tasks."""

    def keys(self, batch: pa.RecordBatch) -> list[tuple[Any, ...]]:
        """Grouping keys as users get them."""

    def input(self, batch: pa.RecordBatch) -> Input:
        """Rows of the input."""

    def initial(self, batch: pa.RecordBatch) -> Input:
        """Rows of the initial state."""

    def output(self) -> Output:
        """For one run of an epoch."""
