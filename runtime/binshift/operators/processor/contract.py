"""What the operator and a user's processor know of each other.

The operator owns time, keys and state; it calls the processor through `Calls`, which converts rows to what users get, and sees its
state through `States`. A new instance of a processor is opened in every run of an epoch, because user classes keep data on themselves.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final, Protocol

import pyarrow as pa

from binshift.model import IntArray
from binshift.operators.processor.keygroup import Turn
from binshift.operators.processor.lists import Lists
from binshift.operators.processor.maps import Maps
from binshift.operators.processor.timers import Timers
from binshift.operators.processor.values import Values

StateOf = Values | Lists | Maps


DELETED_VARIABLES: Final = "numDeletedStateVars"
"""Spark's custom metric of the variables that a processor has deleted in ``init``."""


@dataclass(frozen=True)
class States:
    """The state of the key whose turn it is.

    Attributes:
        turn: the key's position; `Calls` advances it.
        variables: by name.
        timers: of the key; None if the processor has no time.
        watermark_ms: the watermark of this epoch, milliseconds since 1970; 0 before the first.
        counts: by the names of Spark's custom metrics.
    """

    turn: Turn
    variables: Mapping[str, StateOf]
    timers: Timers | None
    watermark_ms: int
    counts: Counter[str]


@dataclass(frozen=True)
class InputGroup:
    """Rows of some keys, all of each.

    Attributes:
        keys: each once, with the columns of the grouping keys.
        rows: the user's columns, sorted by key.
        starts: for each key the position of its first row, and at the end the number of rows.
        initial: the rows of the initial state in the same form, with a start for each key, too; None without them.
        initial_starts: as ``starts``.
    """

    keys: pa.RecordBatch
    rows: pa.RecordBatch
    starts: IntArray
    initial: pa.RecordBatch | None = None
    initial_starts: IntArray | None = None


@dataclass(frozen=True)
class Firing:
    """Timers that are due, in the order in which they fire.

    Attributes:
        keys: each once, with the columns of the grouping keys in Spark's inner form.
        places: for each timer, the position of its key.
        times_ms: of each timer, milliseconds since 1970.
    """

    keys: pa.RecordBatch
    places: list[int]
    times_ms: list[int]


class Calls(Protocol):
    """An opened processor: calls the user's methods and converts what they return.

    Every method is a generator; it sets the turn before it calls the user, and takes everything that the user's method returns for a
    key before it takes the next.
    """

    def inputs(self, group: InputGroup) -> Iterator[pa.RecordBatch]:
        """Handle the initial state and the rows of each key."""

    def expired(self, firing: Firing) -> Iterator[pa.RecordBatch]:
        """Handle timers; each is deleted after the user's method."""

    def close(self) -> None:
        """The end of the epoch for the processor."""


class UserProcessor(Protocol):
    """A user's processor, as it is pickled into tasks."""

    def open(self, states: States) -> Calls:
        """A new instance, initialised."""
