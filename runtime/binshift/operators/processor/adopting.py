"""Stores the variables and timers of keys that have no state: what another engine has kept.

Rows arrive as columns of all variables together, all rows of a bin in one batch. A row belongs to one variable, whose number it has.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from binshift import binary
from binshift.model import IntArray
from binshift.operators.contract import BIN_COLUMN, STATE_SPACE, EpochState
from binshift.operators.processor.chunks import Elements
from binshift.operators.processor.keygroup import KeyGroup, Turn
from binshift.operators.processor.layout import index_keys, variable_keys
from binshift.operators.processor.lists import Lists
from binshift.operators.processor.timers import Timers
from binshift.operators.processor.variables import (
    NEVER_MS,
    Kind,
    Variable,
    inner_type,
    tuples_of,
)
from binshift.operators.processor.view import EpochView
from binshift.rows import RowCodec

VARIABLE_COLUMN = "variable"
"""The number of a row's variable; `TIMER` for a timer."""

TIMER = -1

EXPIRY_COLUMN = "ends"
"""When a value or an entry ends, and the time of a timer; milliseconds since 1970."""


def value_column(variable: Variable) -> str:
    """A struct: a value, or a map's value; for a list an array of all elements."""
    return f"v{variable.number}"


def user_key_column(variable: Variable) -> str:
    """A struct: the key of an entry of a map."""
    return f"u{variable.number}"


def ends_column(variable: Variable) -> str:
    """For a list: an array with the end of each element, milliseconds since 1970."""
    return f"e{variable.number}"


def adopt_rows(variables: Sequence[Variable], packed: pa.BinaryArray, rows: pa.RecordBatch, state: EpochState) -> None:
    """Store rows of some keys.

    Args:
        variables: of the processor.
        packed: the grouping key of each row.
        rows: with `BIN_COLUMN` and the columns of this module.
        state: gets them.
    """
    bins, of = rows.column(BIN_COLUMN).to_numpy(), rows.column(VARIABLE_COLUMN).to_numpy()
    view = EpochView(state)
    for each in variables:
        at = np.flatnonzero(of == each.number)
        if len(at):
            chosen = pa.array(at)
            group = KeyGroup(bins[at], packed.take(chosen))
            if each.kind is Kind.LIST:
                _lists(each, group, rows.take(chosen), view)
            else:
                _tuples(each, group, rows.take(chosen), state)
    at = np.flatnonzero(of == TIMER)
    if len(at):
        chosen = pa.array(at)
        _timers(bins[at], packed.take(chosen), rows.column(EXPIRY_COLUMN).take(chosen), view)


def _tuples(variable: Variable, group: KeyGroup, rows: pa.RecordBatch, state: EpochState) -> None:
    """Values, and entries of maps."""
    names = group.sized
    if variable.user_key is not None:
        users = rows.column(user_key_column(variable)).flatten()
        names = binary.join([names, RowCodec(variable.user_key).pack_columns(_inner(users), len(group))])
    keys = variable_keys(STATE_SPACE, variable.number, names)
    ends = rows.column(EXPIRY_COLUMN)
    values = _inner(rows.column(value_column(variable)).flatten())
    state.put(group.bins, keys, variable.codec.pack_columns(values, len(group), ends))
    if variable.ttl_ms is not None:
        state.put(group.bins, index_keys(ends, keys), pa.repeat(pa.scalar(b"", pa.binary()), len(group)))


def _lists(variable: Variable, group: KeyGroup, rows: pa.RecordBatch, view: EpochView) -> None:
    """One row for each key."""
    turn = Turn(0)
    lists, column = Lists(variable, view, turn), rows.column(value_column(variable))
    lists.bind(group)
    elements = tuples_of(_inner(column.flatten().flatten()), len(column.flatten()))
    ends = [NEVER_MS] * len(elements)
    if variable.ttl_ms is not None:
        ends = rows.column(ends_column(variable)).flatten().to_pylist()
    bounds = np.concatenate(([0], np.cumsum(pc.list_value_length(column).to_numpy()))).tolist()
    for at, (start, stop) in enumerate(pairwise(bounds)):
        turn.at = at
        lists.restore(Elements(elements[start:stop], ends[start:stop]))
    lists.flush()


def _timers(bins: IntArray, packed: pa.BinaryArray, times: pa.Int64Array, view: EpochView) -> None:
    """One row for each timer."""
    known = packed.dictionary_encode()
    places = known.indices.to_numpy()
    _, first = np.unique(places, return_index=True)
    turn = Turn(0)
    timers = Timers(view, turn, Counter())
    timers.bind(KeyGroup(bins[first], known.dictionary))
    for at, time_ms in zip(places.tolist(), times.to_pylist(), strict=True):
        turn.at = at
        timers.register(time_ms)
    timers.flush()


def _inner(columns: Sequence[pa.Array]) -> list[pa.Array]:
    """The columns in Spark's inner form."""
    return [column.cast(inner_type(column.type)) for column in columns]
