"""Processors with time: timers, time to live, initial state, and processors before and behind other operators."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pandas as pd
from pyspark.sql import DataFrame, Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from conformance.program import START, Kind, stream
from conformance.programs.aggregation import WORDS
from conformance.programs.processors import ROCKSDB, Count, CountFrames

case = Kind("processors and time")

EVENTS = stream(
    "k string, ts timestamp, v long",
    [("a", 10, 1), ("b", 12, 2)],
    [("a", 30, 3)],
    [("b", 15, 4), ("c", 45, 5)],
    [("a", 5, 6), ("a", 60, 0)],
    [("d", 100, 7)],
)
"""With a delay of 10 s, some rows are late and timers become due at different steps."""

QUIET = {**ROCKSDB, "spark.sql.streaming.noDataMicroBatches.enabled": "false"}
"""Without it, Spark runs batches without pause where a processor has processing time."""

HOUR_MS = 3_600_000
START_MS = int(START.timestamp() * 1000)


class Alarm(StatefulProcessor):
    """Registers a timer ten seconds after each row, and lists them."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self.handle = handle
        self.count = handle.getValueState("count", "n long")

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:
        for row in rows:
            self.handle.registerTimer(int(row.ts.timestamp() * 1000) + 10_000)
            if row.v == 3:
                self.handle.deleteTimer(START_MS + 20_000)
            if row.v == 0:
                self.handle.registerTimer(1)
            self.count.update(((self.count.get() or (0,))[0] + 1,))
        yield self.row("rows", key[0], timerValues)

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Any]:
        due = expiredTimerInfo.getExpiryTimeInMs()
        if due == 1:
            self.handle.registerTimer(2)
            self.handle.registerTimer(timerValues.getCurrentWatermarkInMs())
        yield self.row(f"timer {due - START_MS}", key.k, timerValues)
        if due == START_MS + 55_000:
            self.count.clear()

    def row(self, what: str, key: str, times: Any) -> Row:
        """What is visible."""
        timers = sorted(each - START_MS for each in self.handle.listTimers())
        return Row(k=key, what=what, seen=f"{self.count.get()} {timers} {times.getCurrentWatermarkInMs()}")


@case(
    EVENTS,
    conf=ROCKSDB,
    source="TransformWithStateSuite: event time timers; python: test_transform_with_state_event_time",
)
def event_timers(events: DataFrame) -> DataFrame:
    """Timers fire when the watermark reaches them; late rows are dropped."""
    timed = events.withWatermark("ts", "10 seconds")
    return timed.groupBy("k").transformWithState(Alarm(), "k string, what string, seen string", "Append", "EventTime")


class AlarmFrames(Alarm):
    """`Alarm` with frames."""

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:
        given = (Row(**row._asdict()) for frame in rows for row in frame.itertuples(index=False))
        utc = (Row(**{**row.asDict(), "ts": row.ts.tz_localize("UTC")}) for row in given)
        yield from (frame_of(row) for row in super().handleInputRows(key, utc, timerValues))

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Any]:
        yield from (frame_of(row) for row in super().handleExpiredTimer(key, timerValues, expiredTimerInfo))


def frame_of(row: Row) -> pd.DataFrame:
    """A frame with that row."""
    return pd.DataFrame([row.asDict()])


@case(EVENTS, mode="update", conf=ROCKSDB, source="python: test_transform_with_state_in_pandas_event_time")
def event_timers_in_frames(events: DataFrame) -> DataFrame:
    """The same with frames, in update mode."""
    timed = events.withWatermark("ts", "10 seconds")
    schema = "k string, what string, seen string"
    return timed.groupBy("k").transformWithStateInPandas(AlarmFrames(), schema, "Update", "EventTime")


@case(EVENTS, conf=ROCKSDB, source="python: test_transform_with_state_with_wmark_and_non_event_time")
def late_rows_without_event_time(events: DataFrame) -> DataFrame:
    """Without event time mode no row is late."""
    timed = events.withWatermark("ts", "10 seconds")
    schema = "k string, n long, known boolean, times string"
    return timed.groupBy("k").transformWithState(Count(), schema, "Append", "None")


class Clock(StatefulProcessor):
    """Timers in processing time that are due at once, or never."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self.handle = handle
        self.count = handle.getValueState("count", "n long")

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:
        now = timerValues.getCurrentProcessingTimeInMs()
        timers = len(list(self.handle.listTimers()))
        self.handle.registerTimer(now)
        self.handle.registerTimer(now - 5)
        self.handle.registerTimer(now + HOUR_MS)
        self.handle.registerTimer(now + HOUR_MS)
        yield Row(k=key[0], what=f"rows {len(list(rows))} {timers} {timerValues.getCurrentWatermarkInMs()}")

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Any]:
        late = timerValues.getCurrentProcessingTimeInMs() - expiredTimerInfo.getExpiryTimeInMs()
        self.count.update(((self.count.get() or (0,))[0] + 1,))
        yield Row(k=key.k, what=f"timer {late} {self.count.get()} {len(list(self.handle.listTimers()))}")


@case(
    WORDS,
    conf=QUIET,
    source="TransformWithStateSuite: processing time timers; python: test_transform_with_state_proc_timer",
)
def processing_timers(words: DataFrame) -> DataFrame:
    """Timers that are due fire after the rows of their batch, and once."""
    return words.groupBy("k").transformWithState(Clock(), "k string, what string", "Append", "ProcessingTime")


class Ending(StatefulProcessor):
    """States that end before the next step, and others that stay."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self.short = handle.getValueState("short", "n long", 1)
        self.long = handle.getValueState("long", "n long", HOUR_MS)
        self.list = handle.getListState("list", "n long", 1)
        self.stays = handle.getListState("stays", "n long", HOUR_MS)
        self.map = handle.getMapState("map", "u string", "n long", 1)
        self.keeps = handle.getMapState("keeps", "u string", "n long", HOUR_MS)

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:
        yield Row(k=key[0], before=self.seen(), after=self.write([row.v for row in rows]))

    def write(self, values: list[int]) -> str:
        """Write all; what is visible then."""
        for v in values:
            for value in (self.short, self.long):
                value.update((v,))
            for elements in (self.list, self.stays):
                elements.appendValue((v,))
            for entries in (self.map, self.keeps):
                entries.updateValue((str(v),), (v,))
        return self.seen()

    def seen(self) -> str:
        """What is visible."""
        lists, maps = (self.list, self.stays), (self.map, self.keeps)
        exist = [each.exists() for each in (self.short, self.long, *lists, *maps)]
        items = [sorted(map(tuple, each.keys())) for each in maps]
        return f"{exist} {self.short.get()} {self.long.get()} {[list(each.get()) for each in lists]} {items}"


@case(
    WORDS, conf=QUIET, source="TransformWithValueStateTTLSuite, ...ListStateTTLSuite, ...MapStateTTLSuite: time to live"
)
def time_to_live(words: DataFrame) -> DataFrame:
    """Values, elements and entries end by themselves."""
    schema = "k string, before string, after string"
    return words.groupBy("k").transformWithState(Ending(), schema, "Append", "ProcessingTime")


class Starting(Count):
    """Counts on from an initial state."""

    def handleInitialState(self, key: Any, initialState: Any, timerValues: Any) -> None:
        self.count.update(((self.count.get() or (0,))[0] + initialState.n0,))


@case(
    WORDS, mode="update", conf=ROCKSDB, source="TransformWithStateInitialStateSuite: initial state, several rows a key"
)
def initial_state(words: DataFrame) -> DataFrame:
    """State from a static frame, in the first batch only."""
    first = words.sparkSession.createDataFrame([("a", 100), ("a", 1), ("d", 50), ("x", 7)], "name string, n0 long")
    schema = "k string, n long, known boolean, times string"
    return words.groupBy("k").transformWithState(Starting(), schema, "Update", "None", first.groupBy("name"))


class StartingFrames(CountFrames):
    """The same with frames, and a timer for each key of the initial state."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        super().init(handle)
        self.handle = handle

    def handleInitialState(self, key: Any, initialState: Any, timerValues: Any) -> None:
        self.total.update((len(initialState), int(initialState["n0"].sum())))
        self.handle.registerTimer(timerValues.getCurrentProcessingTimeInMs() - 1)

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Any]:
        yield pd.DataFrame({"k": [f"timer {key.k}"], "n": [0], "total": [(self.total.get() or (0, 0))[1]]})


@case(WORDS, conf=QUIET, source="python: test_transform_with_state_init_state_with_timers")
def initial_state_in_frames(words: DataFrame) -> DataFrame:
    """Keys without input emit nothing, but their timers fire."""
    first = words.sparkSession.createDataFrame([(100, "a"), (1, "a"), (50, "d"), (7, "x")], "n0 long, name string")
    schema, state = "k string, n long, total long", first.groupBy("name")
    return words.groupBy("k").transformWithStateInPandas(StartingFrames(), schema, "Append", "ProcessingTime", state)
