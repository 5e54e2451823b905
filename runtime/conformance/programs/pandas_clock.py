"""`applyInPandasWithState` with timeouts of processing time, after Spark's suites of the same kind.

They run without batches without data: each step is one batch, a timeout of a millisecond ends before the next step, and one of a day
never.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pandas as pd
from pyspark.sql import DataFrame

from conformance.program import Kind, stream
from conformance.programs.pandas_timeouts import NO_DATA_OFF, START_MS, SUITE

case = Kind("pandas_state processing time")

DAY_MS = 86_400_000

Frames = Iterator[pd.DataFrame]

TIMES = stream("k string", [("a",), ("b",)], [("b",)], [("c",)], [("a",), ("c",)], [("d",)], [("d",)])


def processing(first_ms: int, later_ms: int | None) -> Any:
    """A function that sets one timeout for a new key, and another one, or none, afterwards."""

    def function(key: Any, frames: Frames, state: Any) -> Frames:
        rows, calls = sum(map(len, frames)), (state.getOption or (0,))[0] + 1
        now = state.getCurrentProcessingTimeMs()
        if state.hasTimedOut and calls > 3:
            state.remove()
        else:
            state.update((calls,))
            wait = first_ms if calls == 1 else later_ms
            if wait is not None:
                state.setTimeoutDuration(wait)
        yield pd.DataFrame({"k": [key[0]], "what": [f"{state.hasTimedOut} {calls} {rows} {now > START_MS}"]})

    return function


def with_processing_time(rows: DataFrame, function: Any) -> DataFrame:
    """Group by the key."""
    return rows.groupBy("k").applyInPandasWithState(
        function, "k string, what string", "n long", "append", "ProcessingTimeTimeout"
    )


@case(
    TIMES,
    conf=NO_DATA_OFF,
    calm=True,
    source=f"{SUITE}: applyInPandasWithState - streaming with processing time timeout",
)
def processing_time(rows: DataFrame) -> DataFrame:
    """Keys time out in the next batch."""
    return with_processing_time(rows, processing(1, 1))


@case(TIMES, conf=NO_DATA_OFF, calm=True, source=f"{SUITE}: a long timeout")
def processing_time_extended(rows: DataFrame) -> DataFrame:
    """A timeout can be set again, to a time that does not come."""
    return with_processing_time(rows, processing(1, DAY_MS))


@case(TIMES, conf=NO_DATA_OFF, calm=True, source=f"{SUITE}: an update without a timeout")
def processing_time_cleared(rows: DataFrame) -> DataFrame:
    """An update without a timeout clears the one before."""
    return with_processing_time(rows, processing(1, None))


@case(TIMES, conf=NO_DATA_OFF, calm=True, source="own: a call that sets nothing")
def processing_time_left_standing(rows: DataFrame) -> DataFrame:
    """A call that sets nothing leaves the old timeout in force: the key times out in every batch, also one with its rows."""

    def function(key: Any, frames: Frames, state: Any) -> Frames:
        if not state.exists:
            state.update((1,))
            state.setTimeoutDuration(1)
        yield pd.DataFrame({"k": [key[0]], "what": [f"{state.hasTimedOut} {sum(map(len, frames))}"]})

    return with_processing_time(rows, function)


@case(
    stream("k string", [("a",), ("b",)], [("c",)], [("d",), ("e",)], [("z",)]),
    conf=NO_DATA_OFF,
    whole=True,
    source=f"{SUITE}: applyInPandasWithState - streaming with processing time timeout, each key once",
)
def processing_time_once(rows: DataFrame) -> DataFrame:
    """Each key times out once, in whichever batch comes next."""

    def function(key: Any, frames: Frames, state: Any) -> Frames:
        if state.hasTimedOut:
            state.remove()
        else:
            state.update((1,))
            state.setTimeoutDuration(DAY_MS if key[0] == "z" else 1)
        yield pd.DataFrame({"k": [key[0]], "what": [f"{state.hasTimedOut} {sum(map(len, frames))}"]})

    return with_processing_time(rows, function)
