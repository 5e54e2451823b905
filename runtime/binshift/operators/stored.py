"""What an operator keeps, described for readers outside of it: which rows, with which columns.

An operator (or its stage, which knows the user's names) describes its state as a few `StoredRows`; the description is on the
log, so that tools read the state without Spark and without the program (`binshift.operators.decoding`). Columns are named as those of
Spark's ``statestore`` source where it has them.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import chain, count
from typing import Protocol

import pyarrow as pa

from binshift import binary
from binshift.binary import BoolArray
from binshift.invariants import invariant
from binshift.operators.contract import EpochState
from binshift.operators.join_pairs import LEFT, RIGHT

SINGLE_STORE = "default"
"""Spark's name of the rows of an operator that has one kind."""

SIDES = {"left": LEFT, "right": RIGHT}
"""Names of the sides of a join."""

DUMMY = pa.field("__dummy__", pa.null())
"""Spark's column of a value without content."""

NO_KEY = pa.field("key", pa.null())
"""Spark's key of an operator without keys that is no aggregation."""

EXPIRES = pa.field("expiresAtMicros", pa.int64())
"""Spark's column of the end of a row, microseconds since 1970."""

OPAQUE_KEY, OPAQUE_VALUE = pa.schema([("key", pa.binary())]), pa.schema([("value", pa.binary())])
"""The columns of rows that nothing describes."""


class Form(enum.Enum):
    """How one kind of row is stored; each comment has its key and its value."""

    PACKED = "packed"  # the packed key; the packed value
    SINGLE = "single"  # a constant, for the only row; the packed value
    KEY = "key"  # the packed key; nothing
    EXPIRY = "expiry"  # the packed key; when the row ends, in milliseconds
    SESSION = "session"  # the packed key and the start of a session; its end and its buffers, packed
    SIDE = "side"  # of a chunk of rows of one side of a join; see `join_chunks`
    VALUE = "value"  # of a processor's variable; see `processor.layout`
    LIST = "list"  # likewise
    MAP = "map"  # likewise
    TIMER = "timer"  # of a processor; likewise
    OPAQUE = "opaque"  # any; any


VARIABLES = (Form.VALUE, Form.LIST, Form.MAP)
"""The forms of a processor's variables."""

COLLECTED = {Form.LIST: "list_value", Form.MAP: "map_value"}
"""The columns in which Spark has all that a key has in a variable."""

TTL = "ttlExpirationMs"
"""Spark's name of the end of what has a time to live."""


@dataclass(frozen=True)
class StoredRows:
    """One kind of row in the state of an operator.

    Attributes:
        name: unique in the operator.
        form: how they are stored.
        keys: the columns of the key.
        values: the columns of the value.
        hidden: how many of the last columns of ``values`` are not the user's.
        delay_ms: how far the watermark that ends the rows is behind the query's, in milliseconds.
        number: of a processor's variable.
        expires: whether each row of a processor's variable has an end, the last column of the value, or of its last struct.
        collected: whether all that a key has is shown in one row.
        older: what earlier programs have written into a processor's variable, in their order: the user's columns.
    """

    name: str
    form: Form
    keys: pa.Schema
    values: pa.Schema
    hidden: int = 0
    delay_ms: int = 0
    number: int = 0
    expires: bool = False
    collected: bool = False
    older: tuple[pa.Schema, ...] = ()

    def named(self, keys: Sequence[str], values: Sequence[str]) -> StoredRows:
        """The same rows with other names of columns; repeated names get a number."""
        return replace(self, keys=_renamed(self.keys, keys), values=_renamed(self.values, values))

    @property
    def key_type(self) -> pa.StructType:
        """The columns of the key, as a reader has them."""
        return pa.struct(list(self.keys))

    @property
    def value_type(self) -> pa.StructType:
        """The columns of the value, as a reader has them."""
        return pa.struct(list(self.values)[: len(self.values) - self.hidden])

    @property
    def columns(self) -> pa.Schema:
        """What a reader has for each row."""
        key = pa.field("key", self.key_type)
        if self.collected:
            return pa.schema([key, pa.field(COLLECTED[self.form], self.collected_type)])
        if self.form in (Form.LIST, Form.MAP, Form.TIMER):
            return pa.schema([key, *self.values])
        return pa.schema([key, pa.field("value", self.value_type)])

    @property
    def collected_type(self) -> pa.DataType:
        """All that a key has in a list or a map."""
        *keys, element = self.values.types
        return pa.map_(keys[0], element) if keys else pa.list_(pa.field("element", element))


OPAQUE_ROWS = StoredRows("opaque", Form.OPAQUE, OPAQUE_KEY, OPAQUE_VALUE)
"""The rows of an operator whose description the log lacks, as bytes."""


@dataclass(frozen=True)
class Decoded:
    """Rows of the state, or changes of it.

    Attributes:
        bins: of each row.
        columns: those of `StoredRows.columns`.
        exists: false for a deleted row.
    """

    bins: pa.Int32Array
    columns: Sequence[pa.Array]
    exists: BoolArray


class Adoptable(Protocol):
    """An operator that can take over rows that Spark has kept."""

    def adopt(self, rows: pa.RecordBatch, state: EpochState) -> None:
        """Store rows of keys that have no state; all rows of a bin come together."""


def _renamed(schema: pa.Schema, names: Sequence[str]) -> pa.Schema:
    invariant(len(names) == len(schema), f"{len(names)} names for {len(schema)} columns")
    return pa.schema(
        [pa.field(name, each.type, each.nullable) for name, each in zip(distinct(names), schema, strict=True)]
    )


def distinct(names: Iterable[str]) -> list[str]:
    """The names; a repeated one gets a number.

    >>> distinct(["k", "n", "k", "k"])
    ['k', 'n', 'k_2', 'k_3']
    """
    made: list[str] = []
    for name in names:
        numbered = (f"{name}_{number}" for number in count(2))
        made.append(next(each for each in chain([name], numbered) if each not in made))
    return made


def struct_of(
    columns: Sequence[pa.Array], type: pa.StructType, length: int, present: BoolArray | None = None
) -> pa.StructArray:
    """A struct of columns, null where it is not present.

    Not by `pa.StructArray.from_arrays`, which takes the number of rows from the columns.
    """
    validity = None if present is None else binary.validity(present)
    return pa.Array.from_buffers(type, length, [validity], children=list(columns))
