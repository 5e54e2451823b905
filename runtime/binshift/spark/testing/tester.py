"""`TwsTester`: PySpark's tester of stateful processors, with its interface, over binshift's states.

Unlike PySpark's, which keeps whatever objects a processor gives it, state has the types of its schemas, converted as in a query; it ends
with its time to live; and timers fire in the order of their times. Errors are PySpark's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from pyspark.errors import PySparkValueError
from pyspark.errors.exceptions.base import IllegalArgumentException
from pyspark.sql.streaming.stateful_processor import ExpiredTimerInfo, StatefulProcessor, TimerValues
from pyspark.sql.types import Row

from binshift.operators.processor.operator import TimeMode
from binshift.spark.tasks.processor_states import List, Map, Value
from binshift.spark.testing.handle import KeyHandle

if TYPE_CHECKING:
    import pandas as pd

MODES = {"none": TimeMode.NONE, "processingtime": TimeMode.PROCESSING, "eventtime": TimeMode.EVENT}
"""By their names in lower case."""


class TwsTester:
    """Calls a processor for one key at a time; see `pyspark.sql.streaming.TwsTester`, whose parameters and methods it has.

    Args:
        processor: what is tested; ``init`` is called once.
        initialStateRow: for each key a row for ``handleInitialState``.
        initialStatePandas: the same with frames; only one of the two.
        timeMode: "None", "ProcessingTime" or "EventTime", in any case.
        outputMode: has no effect.
        eventTimeExtractor: in event time: the time of an input row, milliseconds since 1970; late rows are dropped.

    Raises:
        PySparkValueError: event time without an extractor.
    """

    def __init__(
        self,
        processor: StatefulProcessor,
        initialStateRow: list[tuple[Any, Row]] | None = None,
        initialStatePandas: list[tuple[Any, pd.DataFrame]] | None = None,
        timeMode: str = "None",
        outputMode: str = "Append",
        eventTimeExtractor: Callable[[Any], int] | None = None,
    ) -> None:
        assert timeMode.lower() in MODES, f"timeMode is {timeMode!r}; it is None, ProcessingTime or EventTime"
        assert initialStateRow is None or initialStatePandas is None, (
            "Cannot specify both Row and Pandas initial states."
        )
        self.processor = processor
        self._time = MODES[timeMode.lower()]
        self._event_time = eventTimeExtractor
        self._now_ms = self._watermark_ms = 0
        self._pandas = initialStatePandas is not None
        if self._time is TimeMode.EVENT and eventTimeExtractor is None:
            raise PySparkValueError(
                errorClass="ARGUMENT_REQUIRED",
                messageParameters={"arg_name": "eventTimeExtractor", "condition": "timeMode is EventTime"},
            )
        self.handle = KeyHandle(self._time)
        processor.init(self.handle)
        for key, state in initialStateRow or initialStatePandas or ():
            self.handle.setGroupingKey(key)
            processor.handleInitialState((key,), state, self._times)
        self.handle.commit()

    def test(self, key: Any, input: list[Row]) -> list[Row]:
        """What ``handleInputRows`` returns for rows of a key that are not late."""
        self._pandas = False
        if self._time is TimeMode.EVENT and self._event_time is not None:
            input = [row for row in input if self._event_time(row) > self._watermark_ms]
        return self._handled(key, iter(input))

    def testInPandas(self, key: Any, input: pd.DataFrame) -> pd.DataFrame:
        """What ``handleInputRows`` returns for a frame with rows of a key; the ones that are late are dropped."""
        self._pandas = True
        extractor = self._event_time
        if self._time is TimeMode.EVENT and extractor is not None:
            on_time = input.apply(lambda row: extractor(row) > self._watermark_ms, axis=1)
            input = input[on_time].reset_index(drop=True)
        return _frame(self._handled(key, iter([input])))

    def setProcessingTime(self, currentTimeMs: int) -> list[Row] | pd.DataFrame:
        """Let it be a later time, and return what timers that are due return.

        Raises:
            PySparkValueError: not in processing time.
            IllegalArgumentException: the time is not later.
        """
        self._require(TimeMode.PROCESSING, "setProcessingTime with TimeMode other than ProcessingTime")
        self._require_later("Processing time", self._now_ms, currentTimeMs)
        self._now_ms = currentTimeMs
        self.handle.set_time(currentTimeMs)
        return self._fired(currentTimeMs)

    def setWatermark(self, currentWatermarkMs: int) -> list[Row] | pd.DataFrame:
        """Let the watermark be a later one, and return what timers that are due return.

        Raises:
            PySparkValueError: not in event time.
            IllegalArgumentException: the watermark is not later.
        """
        self._require(TimeMode.EVENT, "setWatermark with TimeMode other than EventTime")
        self._require_later("Watermark", self._watermark_ms, currentWatermarkMs)
        self._watermark_ms = self.handle.watermark_ms = currentWatermarkMs
        return self._fired(currentWatermarkMs)

    def peekValueState(self, stateName: str, key: Any) -> tuple[Any, ...] | None:
        """The value of a key; None if there is none."""
        found: tuple[Any, ...] | None = self._state(stateName, key, Value).get()
        return found

    def updateValueState(self, stateName: str, key: Any, value: tuple[Any, ...]) -> None:
        """Set the value of a key."""
        self._state(stateName, key, Value).update(value)

    def peekListState(self, stateName: str, key: Any) -> list[tuple[Any, ...]]:
        """The elements of a key's list."""
        return list(self._state(stateName, key, List).get())

    def updateListState(self, stateName: str, key: Any, value: list[tuple[Any, ...]]) -> None:
        """Set the elements of a key's list."""
        found = self._state(stateName, key, List)
        if value:
            found.put(value)
        else:
            found.clear()

    def peekMapState(self, stateName: str, key: Any) -> dict[tuple[Any, ...], tuple[Any, ...]]:
        """The entries of a key's map."""
        return dict(self._state(stateName, key, Map).iterator())

    def updateMapState(
        self,
        stateName: str,
        key: Any,
        value: dict[tuple[Any, ...], tuple[Any, ...]],
    ) -> None:
        """Set the entries of a key's map."""
        found = self._state(stateName, key, Map)
        found.clear()
        for at, each in value.items():
            found.updateValue(at, each)

    def deleteState(self, stateName: str, key: Any) -> None:
        """Delete the state of a key.

        Raises:
            PySparkAssertionError: there is no such variable.
        """
        self.handle.setGroupingKey(key)
        self.handle.delete_state(stateName)

    def _state(self, name: str, key: Any, kind: type[Any]) -> Any:
        found = self.handle.state(name, kind)
        self.handle.setGroupingKey(key)
        return found

    @property
    def _times(self) -> TimerValues:
        match self._time:
            case TimeMode.NONE:
                return TimerValues(-1, -1)
            case TimeMode.PROCESSING:
                return TimerValues(self._now_ms, -1)
            case TimeMode.EVENT:
                return TimerValues(self._now_ms, self._watermark_ms)

    def _handled(self, key: Any, rows: Any) -> list[Any]:
        self.handle.setGroupingKey(key)
        found = list(self.processor.handleInputRows((key,), rows, self._times))
        self.handle.commit()
        return found

    def _fired(self, threshold_ms: int) -> Any:
        found: list[Any] = []
        for time_ms, key in self.handle.due(threshold_ms):
            self.handle.setGroupingKey(key)
            found += self.processor.handleExpiredTimer((key,), self._times, ExpiredTimerInfo(time_ms))
            self.handle.deleteTimer(time_ms)
        self.handle.commit()
        return _frame(found) if self._pandas else found

    def _require(self, mode: TimeMode, operation: str) -> None:
        if self._time is not mode:
            raise PySparkValueError(errorClass="UNSUPPORTED_OPERATION", messageParameters={"operation": operation})

    def _require_later(self, what: str, now_ms: int, then_ms: int) -> None:
        if then_ms <= now_ms:
            raise IllegalArgumentException(
                message=f"{what} must move forward. Current: {now_ms} ms, provided: {then_ms} ms."
            )


def _frame(frames: Iterable[Any]) -> pd.DataFrame:
    import pandas as pd

    parts = list(frames)
    return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame()
