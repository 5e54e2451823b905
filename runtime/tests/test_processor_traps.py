"""What user classes of `StatefulProcessor` depend on without knowing it: lifecycle, names, errors, time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from processor_scripted import SEEN, N, Scripted, seen
from processor_world import World, struct
from pyspark.errors import PySparkRuntimeError
from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import (
    ListState,
    MapState,
    StatefulProcessorHandle,
    ValueState,
)
from pyspark.sql.types import LongType, StringType

from binshift.errors import UserFunctionFailed
from binshift.operators.processor.operator import TimeMode
from binshift.spark.stages.definitions import defined
from binshift.spark.testing.processing import command_of

INIT_CLOSED: list[str] = []


def counted(processor: Any, *_: Any) -> int:
    """Keeps a number on the processor itself."""
    processor.number = getattr(processor, "number", 0) + 1
    return int(processor.number)


def test_every_run_has_a_fresh_instance() -> None:
    """What a processor keeps on itself is gone in the next run (trap 1)."""
    world = World(Scripted(counted), SEEN)
    assert [seen(world, ("a", 1), ("a", 2)) for _ in range(3)] == [["1"], ["1"], ["1"]]


class Recorded(Scripted):
    """Notes what is called."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        super().init(handle)
        INIT_CLOSED.append("init")

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Row]:
        INIT_CLOSED.append("rows")
        return iter(())

    def close(self) -> None:
        INIT_CLOSED.append("close")


def test_init_runs_on_the_driver_and_in_every_task() -> None:
    """Init comes before the first key, close behind the last one, in a task without rows too (trap 2)."""
    INIT_CLOSED.clear()
    world = World(Recorded(), SEEN)
    assert INIT_CLOSED == ["init", "close"]
    INIT_CLOSED.clear()
    world.epoch([("a", 1)])
    assert sorted(INIT_CLOSED) == sorted(["init", "close", "init", "rows", "close"])
    assert INIT_CLOSED[-1] == "close"


def test_a_deleted_variable_is_an_error_when_used() -> None:
    """`deleteIfExists` in init has the effect and the message of Spark's (trap 3)."""
    world = World(Scripted(lambda p, *_: p.value.exists(), lambda _, handle: handle.deleteIfExists("value")), SEEN)
    assert [each.name for each in world.operator.variables] == ["list", "map"]
    with pytest.raises(PySparkRuntimeError, match="Error checking value state exists: Value state value is not init"):
        seen(world)


def again(kind: str) -> Callable[..., Any]:
    """Defines the value's name again."""
    return lambda _, handle: handle.getValueState("value", N) if kind == "value" else handle.getListState("value", N)


@pytest.mark.parametrize(
    ("init", "time", "message"),
    [
        (again("value"), TimeMode.NONE, "Value state value already exists"),
        (again("list"), TimeMode.NONE, "STATEFUL_PROCESSOR_DUPLICATE_STATE_VARIABLE_DEFINED"),
        (lambda _, h: h.getValueState("t", N, 5), TimeMode.EVENT, "INCORRECT_TIME_MODE_TO_ASSIGN_TTL.*EventTime"),
        (lambda _, h: h.getValueState("t", N, -5), TimeMode.PROCESSING, "TTL_DURATION_MUST_BE_POSITIVE"),
        (
            lambda _, h: h.registerTimer(1),
            TimeMode.EVENT,
            "operation=register_timer with invalid handle state=PRE_INIT",
        ),
        (lambda _, h: h.deleteTimer(1), TimeMode.NONE, "operation=delete_timer with invalid timeMode=None"),
        (lambda _, h: h.listTimers(), TimeMode.NONE, "operation=list_timers with invalid timeMode=None"),
    ],
)
def test_what_init_may_not_do(init: Callable[..., Any], time: TimeMode, message: str) -> None:
    """Init's mistakes are found on the driver, with Spark's conditions (trap 3)."""
    with pytest.raises(PySparkRuntimeError, match=message):
        defined(command_of(Scripted(init=init), time), time)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (lambda p, *_: p.handle.getValueState("late", N), "get_value_state with invalid handle state=INITIALIZED"),
        (lambda p, *_: p.handle.registerTimer(1), "STATEFUL_PROCESSOR_CANNOT_PERFORM_OPERATION_WITH_INVALID_TIME_MODE"),
        (lambda p, *_: p.list.put([]), "ILLEGAL_STATE_STORE_VALUE.EMPTY_LIST_VALUE.*StateName list"),
        (lambda p, *_: p.list.appendList([]), "ILLEGAL_STATE_STORE_VALUE.EMPTY_LIST_VALUE"),
        (lambda p, *_: p.value.update((1, 2)), "1 fields are required while 2 values are provided"),
        (lambda p, *_: p.map.updateValue((), (1,)), "1 fields are required while 0 values are provided"),
    ],
)
def test_what_a_task_may_not_do(rows: Callable[..., Any], message: str) -> None:
    """Mistakes in a task have Spark's conditions (trap 3)."""
    with pytest.raises(PySparkRuntimeError, match=message):
        seen(World(Scripted(rows), SEEN))


def every_kind(processor: Any, *_: Any) -> list[bool]:
    """Whether states are of PySpark's classes."""
    pairs = ((processor.value, ValueState), (processor.list, ListState), (processor.map, MapState))
    return [isinstance(state, kind) for state, kind in (*pairs, (processor.handle, StatefulProcessorHandle))]


def test_states_are_of_pysparks_classes() -> None:
    """Checks of types in user code hold."""
    assert seen(World(Scripted(every_kind), SEEN)) == ["[True, True, True, True]"]


def numpy_scalars(processor: Any, *_: Any) -> Any:
    """Writes scalars of NumPy and pandas."""
    processor.value.update((np.int64(3),))
    processor.list.put([pd.Series([4]).iloc[0:1].to_numpy()])
    processor.map.updateValue(Row(n=np.int32(5)), Row(n=np.int8(6)))
    value = processor.map.getValue((5,))
    return processor.value.get(), list(processor.list.get()), value.n, list(processor.map.iterator())


def test_values_come_back_as_pythons_own() -> None:
    """Scalars of NumPy are normalised, states return tuples, and a map's value has names (trap 5)."""
    assert seen(World(Scripted(numpy_scalars), SEEN)) == ["((3,), [(4,)], 6, [((5,), (6,))])"]


def test_a_lazy_result_reads_the_state_of_its_own_key() -> None:
    """A generator that reads state while it is drained sees the key it was made for (trap 10)."""

    class Lazy(Scripted):
        def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Row]:
            self.value.update((ord(key[0]),))
            return (Row(k=key[0], seen=str(self.value.get())) for _ in rows)

    found = World(Lazy(), SEEN).epoch([("a", 1), ("b", 1), ("c", 1), ("b", 2)])
    assert sorted(row["seen"] for row in found) == ["(97,)", "(98,)", "(98,)", "(99,)"]


def test_times_of_each_mode() -> None:
    """Without a mode there is no time; with one there are both, and the watermark is 0 before the first."""

    def times(_: Any, __: Any, ___: Any, values: Any) -> tuple[int, int]:
        return values.getCurrentProcessingTimeInMs(), values.getCurrentWatermarkInMs()

    for mode, expected in ((TimeMode.NONE, "(-1, -1)"), (TimeMode.PROCESSING, "(7, 0)"), (TimeMode.EVENT, "(7, 0)")):
        assert seen(World(Scripted(times), SEEN, mode), time=7) == [expected]


def registering(processor: Any, _: Any, rows: Any, times: Any) -> None:
    """Registers the rows' numbers."""
    for row in rows:
        processor.handle.registerTimer(row.v)


def more_timers(processor: Any, _: Any, due: int, times: Any) -> tuple[int, list[int]]:
    """A timer that registers another one before itself, and deletes one that is due as well."""
    if due == 10:
        processor.handle.registerTimer(5)
        processor.handle.deleteTimer(20)
    return due, list(processor.handle.listTimers())


def test_timers_fire_once_up_to_the_threshold() -> None:
    """Timers at the threshold fire, also those registered in the epoch; what fires is decided before the first does."""
    world = World(Scripted(registering, timer=more_timers), SEEN, TimeMode.EVENT)
    assert seen(world, ("a", 10), ("a", 20), ("a", 21), watermark=9) == ["None"]
    assert seen(world, ("b", 3), watermark=20)[1:] == ["(3, [3])", "(10, [5, 10, 21])", "(20, [5, 21])"]
    timers = [world.counts[f"num{what}Timers"] for what in ("Registered", "Expired", "Deleted")]
    assert timers == [2, 3, 4]  # as in Spark, a timer that fires is also deleted
    assert world.counts["numValueStateVars"] == 2  # one for each worker
    assert seen(world, ("z", 99), watermark=20)[1:] == ["(5, [5, 21])"]
    assert seen(world, ("z", 99), watermark=21)[1:] == ["(21, [21])"]
    assert seen(world, ("z", 99), watermark=90)[1:] == []


def test_late_rows_are_dropped_by_event_time() -> None:
    """Rows at or before the watermark of the epoch before are late."""
    world = World(Scripted(lambda p, k, rows, t: [row.v for row in rows]), SEEN, TimeMode.EVENT, event_time="v")
    assert seen(world, ("a", 5), watermark=10) == ["[5]"]
    assert seen(world, ("a", 10), ("a", 11), watermark=10) == ["[11]"]
    assert world.late == 1


class Started(Scripted):
    """Adds up the initial state."""

    def handleInitialState(self, key: Any, initialState: Any, timerValues: Any) -> None:
        self.value.update(((self.value.get() or (0,))[0] + initialState.n,))
        if timerValues.getCurrentProcessingTimeInMs() >= 0:
            self.handle.registerTimer(1)


def test_initial_state_comes_before_rows() -> None:
    """All initial rows of a key come before its input; keys without input return nothing, and their timers fire."""
    initial = struct(k=StringType(), n=LongType())
    world = World(
        Started(lambda p, *_: p.value.get(), timer=lambda p, *_: p.value.get()),
        SEEN,
        TimeMode.PROCESSING,
        initial=initial,
    )
    found = world.epoch([("a", 1)], initial=[("a", 10), ("a", 5), ("b", 7)], time=1)
    assert sorted((row["k"], row["seen"]) for row in found) == [("a", "(15,)"), ("a", "(15,)"), ("b", "(7,)")]
    assert seen(world, ("b", 1), time=1) == ["(7,)"]


def test_rows_older_than_the_watermark_are_an_error_in_a_chain() -> None:
    """The output's own event time must be later than the watermark of the epoch before."""

    class Echo(Scripted):
        def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Row]:
            yield from (Row(k=key[0], at=row.v * 1000) for row in rows)

    world = World(Echo(), struct(k=StringType(), at=LongType()), TimeMode.EVENT)
    world.operator = replace(world.operator, event_time="at")
    assert world.epoch([("a", 11)], watermark=10) == [{"k": "a", "at": 11000}]
    with pytest.raises(UserFunctionFailed, match="EMITTING_ROWS_OLDER_THAN_WATERMARK_NOT_ALLOWED"):
        world.epoch([("a", 10)], watermark=10)


def test_rows_are_returned_by_name() -> None:
    """Rows with other fields, or in another order, are read by name (trap 7)."""

    class Odd(Scripted):
        def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Row]:
            yield Row(seen="s", k=key[0])
            yield Row(k=key[0])

    assert World(Odd(), SEEN).epoch([("a", 1)]) == [{"k": "a", "seen": "s"}, {"k": "a", "seen": None}]
