"""`applyInPandasWithState` with timeouts of event time, after Spark's suites of the same kind."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any

import pandas as pd
from pyspark.sql import DataFrame

from conformance.program import START, Kind, stream

case = Kind("pandas_state timeouts")

SUITE = "FlatMapGroupsInPandasWithStateSuite"
NO_DATA_OFF = {"spark.sql.streaming.noDataMicroBatches.enabled": "false"}
START_MS = int(START.timestamp() * 1000)

Frames = Iterator[pd.DataFrame]

EVENTS = stream(
    "k string, ts timestamp, v long",
    [("a", 10, 1), ("b", 12, 2)],  # the watermark becomes 2
    [("a", 20, 3), ("b", 5, 4)],  # 10; not late, as 2 < 5
    [("c", 25, 5), ("b", 9, 6)],  # 15; late
    [],
    [("d", 40, 7)],  # 30
    [("a", 41, 8), ("c", 31, 9)],
    [("e", 100, 0)],
    [("e", 101, 0)],
)


def timed(key: Any, frames: Frames, state: Any) -> Frames:
    """Ends five seconds after a key's newest event."""
    if state.hasTimedOut:
        rows = [len(each) for each in frames]
        names = f"timed out with {rows}, {state.getOption}, {state.oldTimeoutTimestamp}"
        state.remove()
    else:
        parts = list(frames)
        latest = max(int(each["ts"].max().timestamp() * 1000) for each in parts)
        seen = (state.getOption or (0,))[0] + sum(map(len, parts))
        state.update((seen,))
        state.setTimeoutTimestamp(max(latest + 5000, state.getCurrentWatermarkMs() + 1))
        names = f"{seen} rows"
    yield pd.DataFrame({"k": [key[0]], "what": [names], "watermark": [state.getCurrentWatermarkMs()]})


OUTPUT = "k string, what string, watermark long"


@case(EVENTS, mode="update", source=f"{SUITE}: applyInPandasWithState - streaming with event time timeout")
def event_time(events: DataFrame) -> DataFrame:
    """Keys time out by the watermark; late rows are dropped."""
    return (
        events.withWatermark("ts", "10 seconds")
        .groupBy("k")
        .applyInPandasWithState(timed, OUTPUT, "n long", "update", "EventTimeTimeout")
    )


@case(EVENTS, source=f"{SUITE}: applyInPandasWithState - event time timeout, append mode")
def event_time_appended(events: DataFrame) -> DataFrame:
    """The same in append mode."""
    return (
        events.withWatermark("ts", "10 seconds")
        .groupBy("k")
        .applyInPandasWithState(timed, OUTPUT, "n long", "append", "EventTimeTimeout")
    )


@case(EVENTS, conf=NO_DATA_OFF, calm=True, source=f"{SUITE}: event time timeout without batches without data")
def event_time_with_data_only(events: DataFrame) -> DataFrame:
    """Without batches without data, a key times out in the next batch with data."""
    return (
        events.withWatermark("ts", "10 seconds")
        .groupBy("k")
        .applyInPandasWithState(timed, OUTPUT, "n long", "append", "EventTimeTimeout")
    )


@case(
    stream(
        "k string, ts timestamp",
        [("a", 10), ("b", 11)],  # timeouts at 14 and 15
        [("z", 24)],  # 14
        [("z", 25)],  # 15
        [("z", 26)],  # 16
    ),
    source="GroupStateImpl: a timeout at the watermark has not passed",
)
def event_time_boundary(events: DataFrame) -> DataFrame:
    """A key times out when the watermark has passed its timeout, not when it has reached it."""

    def four_later(key: Any, frames: Frames, state: Any) -> Frames:
        if not state.hasTimedOut:
            latest = max(int(each["ts"].max().timestamp() * 1000) for each in frames)
            state.update((latest,))
            state.setTimeoutTimestamp(latest + 4000)
        else:
            state.remove()
        yield pd.DataFrame({"k": [key[0]], "out": [state.hasTimedOut], "watermark": [state.getCurrentWatermarkMs()]})

    return (
        events.withWatermark("ts", "10 seconds")
        .groupBy("k")
        .applyInPandasWithState(
            four_later, "k string, out boolean, watermark long", "n long", "append", "EventTimeTimeout"
        )
    )


def standing(set_nothing_after: int) -> Any:
    """A function that sets a timeout in its first calls only."""

    def function(key: Any, frames: Frames, state: Any) -> Frames:
        calls = (state.getOption or (0,))[0] + 1
        if calls <= set_nothing_after:
            state.update((calls,))
            state.setTimeoutTimestamp(max(START_MS + 20_000, state.getCurrentWatermarkMs() + 1))
        yield pd.DataFrame({"k": [key[0]], "what": [f"{state.hasTimedOut} {calls} {sum(map(len, frames))}"]})

    return function


@case(EVENTS, calm=True, source="own: a call that sets nothing")
def timeout_left_standing(events: DataFrame) -> DataFrame:
    """A call that neither updates nor sets a timeout changes nothing: the old timeout is in force, also one that has passed."""
    return (
        events.withWatermark("ts", "10 seconds")
        .groupBy("k")
        .applyInPandasWithState(standing(1), "k string, what string", "n long", "append", "EventTimeTimeout")
    )


@case(EVENTS, source="own: an update without a timeout")
def timeout_cleared(events: DataFrame) -> DataFrame:
    """An update without a timeout clears the one before."""

    def function(key: Any, frames: Frames, state: Any) -> Frames:
        calls = (state.getOption or (0,))[0] + 1
        state.update((calls,))
        if calls == 1:
            state.setTimeoutTimestamp(max(START_MS + 20_000, state.getCurrentWatermarkMs() + 1))
        yield pd.DataFrame({"k": [key[0]], "what": [f"{state.hasTimedOut} {calls}"]})

    return (
        events.withWatermark("ts", "10 seconds")
        .groupBy("k")
        .applyInPandasWithState(function, "k string, what string", "n long", "append", "EventTimeTimeout")
    )


@case(EVENTS, source="GroupStateSuite: remove with a timeout")
def removed_with_timeout(events: DataFrame) -> DataFrame:
    """A removed state with a timeout stays without a value, and times out."""

    def function(key: Any, frames: Frames, state: Any) -> Frames:
        was = f"{state.hasTimedOut} {state.exists} {state.getOption}"
        if not state.hasTimedOut:
            state.update((1,))
            state.remove()
            state.setTimeoutTimestamp(datetime.fromtimestamp(START.timestamp() + 150))
        yield pd.DataFrame({"k": [key[0]], "what": [was]})
        if state.hasTimedOut:
            state.remove()

    return (
        events.withWatermark("ts", "10 seconds")
        .groupBy("k")
        .applyInPandasWithState(function, "k string, what string", "n long", "append", "EventTimeTimeout")
    )


@case(EVENTS, source="own: a timeout without a value")
def timeout_without_value(events: DataFrame) -> DataFrame:
    """A timeout may be set without a value."""

    def function(key: Any, frames: Frames, state: Any) -> Frames:
        yield pd.DataFrame({"k": [key[0]], "what": [f"{state.hasTimedOut} {state.exists}"]})
        if state.hasTimedOut:
            state.remove()
        else:
            state.setTimeoutTimestamp(max(START_MS + 20_000, state.getCurrentWatermarkMs() + 1))

    return (
        events.withWatermark("ts", "10 seconds")
        .groupBy("k")
        .applyInPandasWithState(function, "k string, what string", "n long", "append", "EventTimeTimeout")
    )


@case(EVENTS, source=f"{SUITE}: behind other operations")
def between_operators(events: DataFrame) -> DataFrame:
    """Behind a deduplication and a filter, and before a projection."""
    rows = events.withWatermark("ts", "10 seconds").dropDuplicates(["k", "ts"]).where("v != 4")
    found = rows.groupBy("k").applyInPandasWithState(timed, OUTPUT, "n long", "append", "EventTimeTimeout")
    return found.selectExpr("upper(k) AS k", "what")


@case(EVENTS, fails=True, source=f"{SUITE}: event time timeout without watermark")
def event_time_without_watermark(events: DataFrame) -> DataFrame:
    """Event-time timeouts need a watermark."""
    return events.groupBy("k").applyInPandasWithState(timed, OUTPUT, "n long", "append", "EventTimeTimeout")
