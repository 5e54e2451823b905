"""`binshift.testing.Dataflow`: processors through moves, losses, replays and changes of schemas give what they give undisturbed."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from binshift.errors import IncompatibleState, InvalidQuery
from binshift.testing import Dataflow

INPUT, OUTPUT = "k string, v long", "k string, total long"


class Total(StatefulProcessor):
    """Adds up, with a timer that reports and forgets.

    Args:
        schema: of the total.
        after_ms: until the timer; 0: none.
    """

    def __init__(self, schema: str = "total long", after_ms: int = 0) -> None:
        self.schema, self.after_ms = schema, after_ms

    def init(self, handle: StatefulProcessorHandle) -> None:
        self.handle = handle
        self.total = handle.getValueState("total", self.schema)
        self.values = handle.getListState("values", "v long")
        self.seen = handle.getMapState("seen", "v long", "times int")

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Row]:
        total = (self.total.get() or (0,))[0]
        for row in rows:
            total += row.v
            self.values.appendValue((row.v,))
            times = self.seen.getValue((row.v,))
            self.seen.updateValue((row.v,), ((0 if times is None else times[0]) + 1,))
        self.total.update((total,))
        if self.after_ms:
            self.handle.registerTimer(timerValues.getCurrentProcessingTimeInMs() + self.after_ms)
        yield Row(k=key[0], total=total)

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Row]:
        yield Row(k=key[0], total=-(self.total.get() or (0,))[0])
        self.total.clear()


def flow(processor: StatefulProcessor | None = None, **more: Any) -> Dataflow:
    """A dataflow of totals."""
    return Dataflow(processor or Total(), input=INPUT, keys="k", output=OUTPUT, **more)


def test_epochs_return_rows_and_keep_state() -> None:
    """Rows are tuples or dictionaries; state can be read by key."""
    run = flow()
    assert sorted(run.epoch([("a", 1), ("b", 2), ("a", 3)])) == [Row(k="a", total=4), Row(k="b", total=2)]
    assert run.epoch([{"k": "a", "v": 1}]) == [Row(k="a", total=5)]
    assert run.epoch() == []
    assert run.state("total") == {("a",): (5,), ("b",): (2,)}
    assert run.state("values") == {("a",): [(1,), (3,), (1,)], ("b",): [(2,)]}
    assert run.state("seen") == {("a",): {(1,): (2,), (3,): (1,)}, ("b",): {(2,): (1,)}}


def test_a_bin_moves_with_its_state() -> None:
    """The flip is in the next epoch."""
    run = flow()
    run.epoch([("a", 1)])
    bin = run.bin_of("a")
    other = 1 - run.owners[bin]
    run.move(bin, other)
    assert run.owners[bin] != other
    assert run.epoch([("a", 2)]) == [Row(k="a", total=3)]
    assert run.owners[bin] == other
    assert run.state("total") == {("a",): (3,)}


def test_workers_come_and_go() -> None:
    """All bins are shared by the workers that a test requests."""
    run = flow(bins=16)
    run.epoch([(str(key), key) for key in range(40)])
    for count in (4, 1, 3):
        run.rescale(count)
        run.epoch([("0", 1)])
        assert set(run.owners) == set(range(count))
    assert run.state("total") == {(str(key),): (key or 3,) for key in range(40)}


def test_a_lost_worker_changes_nothing() -> None:
    """Its bins are built from the log, and the epoch runs again."""
    run = flow()
    run.epoch([("a", 1), ("b", 1), ("c", 1)])
    for worker in (0, 1):
        run.kill(worker)
        assert len(run.epoch([("a", 1), ("b", 1), ("c", 1)])) == 3
    assert set(run.state("total").values()) == {(3,)}


COUNTED = [0]


class Unstable(Total):
    """Depends on something else than its rows and its state."""

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Row]:
        COUNTED[0] += 1
        yield Row(k=key[0], total=COUNTED[0])


def test_a_replay_with_other_rows_is_an_error() -> None:
    """A restart replays the last epoch and compares."""
    run = flow()
    run.epoch([("a", 1)])
    run.restart()
    assert run.epoch([("a", 1)]) == [Row(k="a", total=2)]
    unstable = flow(Unstable())
    unstable.epoch([("a", 1)])
    with pytest.raises(AssertionError, match="epoch 0 ran again and has returned other rows"):
        unstable.restart()


def test_timers_fire_by_the_batch_time() -> None:
    """Time is the test's; the earliest timer is when an epoch is due."""
    run = flow(Total(after_ms=50), time_mode="ProcessingTime")
    run.epoch([("a", 1)], time_ms=100)
    assert run.wake_at_ms == 150
    assert run.epoch(time_ms=149) == []
    assert run.epoch(time_ms=150) == [Row(k="a", total=-1)]
    assert run.state("total") == {}
    assert run.wake_at_ms is None


def test_rows_are_late_by_the_watermark() -> None:
    """The watermark follows the newest row of earlier epochs; rows at or before that of the epoch before are dropped."""
    run = flow(time_mode="EventTime", event_time="v", delay_ms=5)
    run.epoch([("a", 20)])
    run.epoch([("a", 1)])
    assert run.rows_late == 0
    assert run.epoch([("a", 15), ("a", 16)]) == [Row(k="a", total=37)]
    assert run.rows_late == 1


class Frames(Total):
    """With frames."""

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:
        import pandas as pd

        total = (self.total.get() or (0,))[0] + sum(int(frame["v"].sum()) for frame in rows)
        self.total.update((total,))
        yield pd.DataFrame({"k": [key[0]], "total": [total]})


def test_frames() -> None:
    """A processor of `transformWithStateInPandas` works the same way."""
    run = flow(Frames(), pandas=True)
    assert run.epoch([("a", 1), ("a", 2)]) == [Row(k="a", total=3)]
    run.restart()
    assert run.epoch([("a", 1)]) == [Row(k="a", total=4)]


def test_schemas_evolve() -> None:
    """A restart with another processor continues with the state, or is refused."""
    run = flow(Total("total int"), avro=True)
    run.epoch([("a", 1)])
    run.restart(Total("total long"))
    assert run.epoch([("a", 1 << 40)]) == [Row(k="a", total=(1 << 40) + 1)]
    with pytest.raises(IncompatibleState, match="STATE_STORE_INVALID_VALUE_SCHEMA_EVOLUTION"):
        run.restart(Total("total int"))
    with pytest.raises(IncompatibleState, match="STATE_STORE_VALUE_SCHEMA_NOT_COMPATIBLE"):
        flow(Total("total int")).restart(Total("total long"))


def test_mistakes_are_named() -> None:
    """A wrong column, bin, worker or state is an error, with a list of the right ones."""
    with pytest.raises(InvalidQuery, match="no column 'x'; it has k, v"):
        Dataflow(Total(), input=INPUT, keys="x", output=OUTPUT)
    with pytest.raises(InvalidQuery, match="time_mode is 'Tomorrow'"):
        flow(time_mode="Tomorrow")
    run = flow()
    with pytest.raises(InvalidQuery, match="before epoch 1"):
        run.move(0, 1)
    with pytest.raises(InvalidQuery, match="there is no worker 7"):
        run.kill(7)
    with pytest.raises(InvalidQuery, match="no state 'x'; there are seen, total, values"):
        run.state("x")


acts = st.one_of(
    st.tuples(st.just("move"), st.integers(0, 7), st.integers(0, 1)),
    st.tuples(st.just("rescale"), st.integers(1, 3)),
    st.tuples(st.just("kill"), st.integers(0, 1)),
    st.tuples(st.just("restart")),
)
rows = st.lists(st.tuples(st.sampled_from("abcde"), st.integers(0, 3)), max_size=6)


@settings(max_examples=20, deadline=None)
@given(st.lists(st.tuples(rows, st.lists(acts, max_size=2)), max_size=5))
def test_any_disturbance_gives_the_same_rows(
    history: list[tuple[list[tuple[str, int]], list[tuple[Any, ...]]]],
) -> None:
    """Output and state of each epoch equal those of a dataflow that is left alone."""
    calm, run = (flow(Total(after_ms=1500), time_mode="ProcessingTime") for _ in range(2))
    for given_rows, disturbances in [([], []), *history]:
        for name, *arguments in disturbances:
            getattr(run, name)(*arguments)
        assert sorted(run.epoch(given_rows)) == sorted(calm.epoch(given_rows))
        for state in ("total", "values", "seen"):
            assert run.state(state) == calm.state(state)


def test_importing_is_cheap() -> None:
    """Nothing is loaded before it is used."""
    code = "import sys, binshift.testing; print(sorted({'pyspark', 'pyarrow', 'pandas', 'numpy'} & set(sys.modules)))"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"
