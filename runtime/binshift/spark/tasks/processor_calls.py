"""A user's `StatefulProcessor` in a task: unpickled again for each run of an epoch, and called once a key."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, cast

import pyarrow as pa
from pyspark import cloudpickle
from pyspark.sql.streaming.stateful_processor import ExpiredTimerInfo, StatefulProcessor, TimerValues
from pyspark.sql.types import StructType

from binshift.operators.processor.contract import Calls, Firing, InputGroup, States
from binshift.operators.processor.operator import TimeMode
from binshift.operators.processor.variables import tuples_of
from binshift.spark.tasks.processor_format import Format
from binshift.spark.tasks.processor_handle import Phase
from binshift.spark.tasks.processor_states import TaskHandle
from binshift.spark.tasks.processor_types import to_python
from binshift.spark.tasks.user_rows import row_maker


@dataclass(frozen=True)
class PickledProcessor:
    """See `binshift.operators.processor.contract.UserProcessor`.

    Attributes:
        command: PySpark's pickled function, which has the processor.
        time: the mode.
        keys: the grouping columns.
        format: how users get and return rows.
        parsed: schemas that the processor gives as DDL.
    """

    command: bytes
    time: TimeMode
    keys: StructType
    format: Format
    parsed: Mapping[str, StructType]

    def open(self, states: States) -> Calls:
        """A new instance, initialised."""
        return ProcessorCalls(self, states)


def unpickled(command: bytes) -> StatefulProcessor:
    """A new instance of the processor in PySpark's pickled function."""
    method = cast(Any, cloudpickle).loads(command)[0]
    processor: StatefulProcessor = method.__self__._stateful_processor
    return processor


class ProcessorCalls:
    """See `binshift.operators.processor.contract.Calls`."""

    def __init__(self, pickled: PickledProcessor, states: States) -> None:
        self._processor = unpickled(pickled.command)
        self._format = pickled.format
        self._states = states
        self._output = pickled.format.output()
        none = pickled.time is TimeMode.NONE
        self._times = TimerValues(*((-1, -1) if none else (states.turn.time_ms, states.watermark_ms)))
        self._key_row = row_maker(pickled.keys.names)
        self._python_key = to_python(pickled.keys)
        handle = TaskHandle(states, pickled.time, pickled.parsed)
        self._processor.init(handle)
        handle.phase = Phase.INITIALIZED

    def inputs(self, group: InputGroup) -> Iterator[pa.RecordBatch]:
        """See `Calls`."""
        turn, output, processor, times = self._states.turn, self._output, self._processor, self._times
        rows, starts = self._format.input(group.rows), group.starts.tolist()
        initial = None if group.initial is None else self._format.initial(group.initial)
        initial_starts = [] if group.initial_starts is None else group.initial_starts.tolist()
        for at, key in enumerate(self._format.keys(group.keys)):
            turn.at = at
            if initial is not None:
                for state in initial.between(initial_starts[at], initial_starts[at + 1]):
                    processor.handleInitialState(key, state, times)
            start, stop = starts[at], starts[at + 1]
            if start < stop:  # keys of the initial state need not have rows
                output.add(processor.handleInputRows(key, rows.between(start, stop), times))
            if output.is_full:
                yield from output.take()
        yield from output.take()

    def expired(self, firing: Firing) -> Iterator[pa.RecordBatch]:
        """See `Calls`."""
        turn, output, timers = self._states.turn, self._output, self._states.timers
        keys = tuples_of(firing.keys.columns, firing.keys.num_rows)
        python = self._python_key
        for at, time_ms in zip(firing.places, firing.times_ms, strict=True):
            turn.at = at
            key = self._key_row(keys[at] if python is None else python(keys[at]))
            output.add(
                self._processor.handleExpiredTimer(
                    key=key, timerValues=self._times, expiredTimerInfo=ExpiredTimerInfo(time_ms)
                )
            )
            if timers is not None:
                timers.delete(time_ms)
            if output.is_full:
                yield from output.take()
        yield from output.take()

    def close(self) -> None:
        """See `Calls`."""
        self._processor.close()
