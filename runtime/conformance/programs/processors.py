"""Processors: ``transformWithState`` with rows and with frames, and every kind of state."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pandas as pd
from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from conformance.program import Kind, stream
from conformance.programs.aggregation import WORDS

case = Kind("processors")

ROCKSDB = {
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    )
}
"""Spark's own processors need it."""

GAPS = stream(
    "k string, v int, w double, f float, b boolean, s string",
    [("a", 1, 1.5, 0.1, True, "x"), ("a", 2, None, None, False, None)],
    [("b", None, 2.5, 0.2, None, "y")],
    [("c", None, None, None, None, None), ("c", 7, float("nan"), 0.5, True, "z")],
)
"""Columns with gaps, one key in each step: the type of a frame's column depends on its rows."""


class Count(StatefulProcessor):
    """Counts the rows of a key."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self.count = handle.getValueState("count", "n long")

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:
        before = self.count.get()
        number = sum(1 for _ in rows) + (0 if before is None else before[0])
        self.count.update((number,))
        times = (timerValues.getCurrentProcessingTimeInMs(), timerValues.getCurrentWatermarkInMs())
        yield Row(k=key[0], n=number, known=before is not None, times=str(times))


@case(WORDS, mode="update", conf=ROCKSDB, source="TransformWithStateSuite: simple count with value state")
def rows_count(words: DataFrame) -> DataFrame:
    """A value for each key."""
    schema = "k string, n long, known boolean, times string"
    return words.groupBy("k").transformWithState(Count(), schema, "Update", "None")


class CountFrames(StatefulProcessor):
    """Counts and sums in frames."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self.total = handle.getValueState("total", "n long, total long")

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:
        n, total = self.total.get() or (0, 0)
        for frame in rows:
            n, total = n + len(frame), total + frame["v"].sum()  # a scalar of NumPy
        self.total.update((n, total))
        yield pd.DataFrame({"total": [total], "k": key[0], "n": [n]})


@case(WORDS, mode="update", conf=ROCKSDB, source="python: test_transform_with_state_basic")
def frames_count(words: DataFrame) -> DataFrame:
    """A value of two columns for each key; columns of the output are found by name."""
    schema = "k string, n long, total long"
    return words.groupBy("k").transformWithStateInPandas(CountFrames(), schema, "Update", "None")


class Types(StatefulProcessor):
    """Returns the types of what it gets."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        pass

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:
        for frame in rows:
            types = [str(each) for each in frame.dtypes]
            values = [repr(each) for each in frame.itertuples(index=False, name=None)]
            yield pd.DataFrame({"got": [f"{key!r} {list(frame.columns)} {types} {values} {list(frame.index)}"]})


@case(GAPS, conf=ROCKSDB, source="python: ArrowBatchTransformer.to_pandas, then pd.DataFrame(rows)")
def frames_with_gaps(rows: DataFrame) -> DataFrame:
    """The types of columns with missing values."""
    return rows.groupBy("k").transformWithStateInPandas(Types(), "got string", "Append", "None")


@case(GAPS, conf=ROCKSDB, source="python: columns whose names are no names in Python")
def frames_with_odd_names(rows: DataFrame) -> DataFrame:
    """Names as named tuples have them, and two grouping columns that are not the first ones."""
    odd = rows.select("w", F.col("v").alias("a b"), F.col("s").alias("class"), "k", F.upper("k").alias("K K"))
    return odd.groupBy("K K", "k").transformWithStateInPandas(Types(), "got string", "Append", "None")


class Rows(StatefulProcessor):
    """Returns what it gets."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        pass

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:
        yield Row(got=f"{key!r} {list(rows)!r}")


@case(GAPS, conf=ROCKSDB, source="python: SQL_TRANSFORM_WITH_STATE_PYTHON_ROW_UDF")
def rows_with_gaps(rows: DataFrame) -> DataFrame:
    """Rows and keys as users get them."""
    nested = rows.select("*", F.struct("v", "s").alias("t"), F.array("v").alias("a"), F.create_map("k", "v").alias("m"))
    timed = nested.withColumn("at", F.timestamp_seconds(F.lit(1_700_000_000.25)))
    return timed.groupBy("s", "k").transformWithState(Rows(), "got string", "Append", "None")


class Lists(StatefulProcessor):
    """Uses a list in every way."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self.list = handle.getListState("list", "v long, text string")

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:
        values = [row.v for row in rows]
        before = self.list.exists()
        if 5 in values:
            self.list.put([(v, "put") for v in values] * 40)
        elif 4 in values:
            self.list.clear()
        else:
            self.list.appendList([(v, None) for v in values])
            self.list.appendValue((len(values), "sum"))
        yield Row(k=key[0], before=before, after=self.list.exists(), all=str(list(self.list.get())))


@case(WORDS, WORDS, conf=ROCKSDB, source="TransformWithListStateSuite: put, append, get, clear")
def rows_list(words: DataFrame, others: DataFrame) -> DataFrame:
    """A list for each key."""
    both = words.union(others.where("v = 4"))
    schema = "k string, before boolean, after boolean, all string"
    return both.groupBy("k").transformWithState(Lists(), schema, "Append", "None")


class Maps(StatefulProcessor):
    """Uses a map in every way."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self.map = handle.getMapState("map", "u string, n int", "total long, last long")

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:
        before = self.map.exists()
        for row in rows:
            user = (f"u{row.v % 2}", row.v % 2)
            known: Any = self.map.getValue(user)
            self.map.updateValue(user, (row.v if known is None else known.total + row.v, row.v))
            if row.v < 0:
                self.map.removeKey(user)
            if row.v == 0:
                self.map.clear()
        entries = sorted((tuple(u), tuple(value)) for u, value in self.map.iterator())
        seen = (sorted(self.map.keys()), sorted(self.map.values()), self.map.containsKey(("u1", 1)))
        yield Row(k=key[0], before=before, after=self.map.exists(), all=f"{entries} {seen}")


@case(WORDS, conf=ROCKSDB, source="TransformWithMapStateSuite: update, contains, iterate, remove, clear")
def rows_map(words: DataFrame) -> DataFrame:
    """A map for each key."""
    schema = "k string, before boolean, after boolean, all string"
    return words.groupBy("k").transformWithState(Maps(), schema, "Append", "None")


class Everything(StatefulProcessor):
    """Writes values of many types, and values of other types than declared, and reads them."""

    schema = (
        "i int, b byte, l long, d double, f float, dec decimal(10,2), s string, y binary, day date, at timestamp,"
        " local timestamp_ntz, list array<int>, map map<string,int>, row struct<x:int,days:array<date>>, yes boolean"
    )

    def init(self, handle: StatefulProcessorHandle) -> None:
        self.state = handle.getValueState("state", self.schema)

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:
        before = self.state.get()
        for row in rows:
            self.state.update(values(row.v))
        yield Row(k=key[0], before=repr(before), after=repr(self.state.get()))


def values(v: int) -> tuple[Any, ...]:
    """One for each column of `Everything`."""
    from datetime import UTC, date, datetime
    from decimal import Decimal

    import numpy as np

    at, day = datetime(2024, 3, 31, 1, 30, 0, 123456), date(1969, 12, 31)
    match v:
        case 1 | 2:
            plain = (v, 7, 1 << 40, 0.1, 0.1, Decimal("1.25"), "ä", b"\x00\xff", day, at, at)
            return (*plain, [1, None], {"a": 1, "b": None}, (1, [day, None]), True)
        case 3:
            other = (np.int64(3), 300, np.int32(5), 1, 2, Decimal("1.255"), 5, "text", None, at.replace(tzinfo=UTC), at)
            return (*other, (1, 2), {}, Row(x=2, days=[]), 1)
        case 4:
            return (
                1.5,
                True,
                "1",
                np.float64(2.5),
                float("nan"),
                1.5,
                True,
                7,
                day,
                pd.Timestamp(at),
                None,
                *[None] * 4,
            )
        case _:
            return (None,) * 15


@case(WORDS, conf=ROCKSDB, source="python: StateServer, EvaluatePython.makeFromJava")
def state_of_every_type(words: DataFrame) -> DataFrame:
    """What is read is what the types make of what was written."""
    schema = "k string, before string, after string"
    return words.groupBy("k").transformWithState(Everything(), schema, "Append", "None")
