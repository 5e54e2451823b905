"""Calls an ordinary function of ``applyInPandasWithState`` for one key after the other, as PySpark's worker does.

The function sees PySpark's own `GroupState`, and what it does wrong raises PySpark's errors. Only what surrounds a call differs:
keys, rows, states and results are converted for many keys at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from pyspark.errors import PySparkRuntimeError, PySparkTypeError
from pyspark.serializers import CPickleSerializer
from pyspark.sql.streaming.state import GroupState
from pyspark.sql.types import StructType
from pyspark.util import fail_on_stopiteration

from binshift.operators.contract import EpochContext
from binshift.operators.group_states import Called, Calls, Groups
from binshift.operators.timed_states import Changed, Stored
from binshift.spark.tasks.frame_parts import FrameConf
from binshift.spark.tasks.pandas_frames import Frames, ReturnedFrames, keys_of
from binshift.spark.tasks.state_values import StateValues


@dataclass(frozen=True)
class PandasFunction:
    """A user's function; see `binshift.operators.group_states.GroupFunction`.

    Attributes:
        command: the function, as PySpark has pickled it.
        state: the declared columns of a state.
        returned: the declared columns of what the function returns.
        output: the same in Arrow.
        timeout: Spark's name of the kind of timeout.
        watermark: whether the input has one.
        conf: of the user's session.
    """

    command: bytes
    state: StructType
    returned: StructType
    output: pa.Schema
    timeout: str
    watermark: bool
    conf: FrameConf

    def begin(self, context: EpochContext) -> Calls:
        """The function is unpickled for each run, as in Spark: what it keeps to itself begins again."""
        pickles: Any = CPickleSerializer()
        function = pickles.loads(self.command)[0]
        values = StateValues(self.state)
        return lambda groups: _Call(self, fail_on_stopiteration(function), values, groups, context).made()


@dataclass(frozen=True)
class _Call:
    """The calls for some keys."""

    declared: PandasFunction
    function: Any
    values: StateValues
    groups: Groups
    context: EpochContext

    def made(self) -> Called:
        """Call the function for each key in turn."""
        returned = ReturnedFrames(self.declared.returned, self.declared.output, self.declared.conf)
        frames = Frames(self.groups.rows, self.declared.conf)
        keys, states = keys_of(self.groups.keys, self.declared.conf), self._states()
        starts = self.groups.starts.tolist()
        for key, state, start, end in zip(keys, states, starts[:-1], starts[1:], strict=True):
            rows = [frames.none()] if self.groups.timed_out else frames.of(start, end)
            for frame in self._results(self.function(key, rows, state)):
                returned.add(frame)
        returned.flush()
        return Called(returned.batches, self._changed(states))

    def _states(self) -> list[GroupState]:
        stored = self.groups.states
        times = (self.context.batch_time_ms, self.context.watermark_ms, self.declared.timeout)
        seen = (self.groups.timed_out, self.declared.watermark)
        # A call sees its timeout unset.
        return [
            GroupState(value, *times, *seen, exists, False, False, GroupState.NO_TIMESTAMP, b"", self.declared.state)
            for value, exists in zip(self.values.rows(stored.values), stored.exists.to_pylist(), strict=True)
        ]

    def _results(self, results: Any) -> Iterator[pd.DataFrame]:
        """The frames of a result, drained while the state is the key's.

        Raises:
            PySparkTypeError, PySparkRuntimeError: PySpark's, about what was returned.
        """
        kind = type(results).__name__
        if isinstance(results, pd.DataFrame):
            raise _wrong_type("iterable of pandas.DataFrame", kind)
        try:
            frames = iter(results)
        except TypeError:
            raise _wrong_type("iterable", kind) from None
        for frame in frames:
            if not isinstance(frame, pd.DataFrame):
                raise _wrong_type("iterator of pandas.DataFrame", f"iterator of {type(frame).__name__}")
            expected, found = len(self.declared.returned), len(frame.columns)
            if found != expected and (found or not frame.empty):
                wrong = {"expected": str(expected), "actual": str(found)}
                raise PySparkRuntimeError(errorClass="RESULT_COLUMN_SCHEMA_MISMATCH", messageParameters=wrong)
            yield frame

    def _changed(self, states: Sequence[GroupState]) -> Changed:
        """What the calls have done with the states.

        As in Spark, a call that neither updates nor removes the state, nor sets a timeout, changes nothing, so that the timeout
        from before it is still in force.
        """
        timeouts = [int(state._timeout_timestamp) for state in states]
        none = GroupState.NO_TIMESTAMP
        changed = [
            state._updated or state._removed or timeout != none for state, timeout in zip(states, timeouts, strict=True)
        ]
        values = [state._value if state._defined else None for state in states]
        after = Stored(
            self.values.columns(values, self.groups.states.values.schema),
            pa.array([state._defined for state in states], pa.bool_()),
            pa.array([None if timeout == none else timeout for timeout in timeouts], pa.int64()),
        )
        return Changed(after, np.array(changed, dtype=np.bool_))


def _wrong_type(expected: str, actual: str) -> PySparkTypeError:
    return PySparkTypeError(errorClass="UDF_RETURN_TYPE", messageParameters={"expected": expected, "actual": actual})
