"""The end of state variables with a time to live: rows that are due by the index are deleted at the end of an epoch.

Reads hide what is over from the moment on at which it is; this only removes it.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from binshift import binary
from binshift.operators.contract import EXPIRY_SPACE, EpochContext
from binshift.operators.processor.contract import StateOf
from binshift.operators.processor.keygroup import KeyGroup
from binshift.operators.processor.layout import indexed_key, key_of, variable_of
from binshift.operators.processor.lists import Lists
from binshift.operators.processor.timers import due_rows
from binshift.operators.processor.view import EpochView


def end_expired(view: EpochView, states: Mapping[str, StateOf], context: EpochContext) -> None:
    """Delete what has outlived its time to live at the batch's time."""
    view.look_back(EXPIRY_SPACE)
    due = list(due_rows(view, context.owned, EXPIRY_SPACE, context.batch_time_ms))
    if not due:
        return
    lists = {each.variable.number: each for each in states.values() if isinstance(each, Lists)}
    rows = [(bin, key) for bin, key in due if variable_of(indexed_key(key)) not in lists]
    bins = np.array([bin for bin, _ in rows], dtype=np.int32)
    view.delete(bins, binary.of([key for _, key in rows]))
    view.delete(bins, binary.of([indexed_key(key) for _, key in rows]))
    for number, each in lists.items():
        own = [(bin, row) for bin, key in due if variable_of(row := indexed_key(key)) == number]
        if own:
            view.look_back()
            each.bind(
                KeyGroup(np.array([bin for bin, _ in own], dtype=np.int32), binary.of([key_of(row) for _, row in own]))
            )
            each.end_elements()
            each.flush()
