"""The end of state variables with a time to live: rows that are due by the index are deleted at the end of an epoch.

Reads hide what is over from the moment on at which it is; this only removes it.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from binshift import binary
from binshift.operators.contract import EpochContext, EpochState
from binshift.operators.processor.contract import StateOf
from binshift.operators.processor.due import due_rows
from binshift.operators.processor.keygroup import KeyGroup
from binshift.operators.processor.layout import indexed_key, key_of, variable_of
from binshift.operators.processor.lists import Lists
from binshift.operators.processor.view import EpochView


def end_expired(state: EpochState, view: EpochView, states: Mapping[str, StateOf], context: EpochContext) -> None:
    """Delete what has outlived its time to live at the batch's time."""
    due = due_rows(state, state.times.expiries, context.owned, context.batch_time_ms)
    if not due:
        return
    lists = {each.variable.number: each for each in states.values() if isinstance(each, Lists)}
    rows = [(bin, key) for bin, key in due if variable_of(indexed_key(key)) not in lists]
    bins = np.array([bin for bin, _ in rows], dtype=np.int32)
    for keys in ([key for _, key in rows], [indexed_key(key) for _, key in rows]):
        state.put(bins, binary.of(keys), pa.nulls(len(keys), pa.binary()))
    for number, each in lists.items():
        own = [(bin, row) for bin, key in due if variable_of(row := indexed_key(key)) == number]
        if own:
            packed = binary.of([key_of(row) for _, row in own])
            view.look_back(packed)
            each.bind(KeyGroup(np.array([bin for bin, _ in own], dtype=np.int32), packed))
            each.end_elements()
            each.flush()
