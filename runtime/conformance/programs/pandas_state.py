"""`applyInPandasWithState` with ordinary functions: after Spark's suites of the same kind."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pandas as pd
from pyspark.sql import DataFrame

from conformance.program import Kind, stream

case = Kind("pandas_state")

SUITE = "FlatMapGroupsInPandasWithStateSuite"
PYSPARK = "test_pandas_grouped_map_with_state"

Frames = Iterator[pd.DataFrame]

WORDS = stream("k string, v long", [("a", 1), ("a", 2), ("b", 3)], [("a", 4)], [], [("b", 5), ("c", 6), ("c", 7)])


def total(frames: Frames) -> int:
    """The sum of all values."""
    return int(sum(int(each["v"].sum()) for each in frames))


def count_rows(key: Any, frames: Frames, state: Any) -> Frames:
    """The rows of a key so far."""
    seen = (state.getOption or (0,))[0] + sum(map(len, frames))
    state.update((seen,))
    yield pd.DataFrame({"k": [key[0]], "n": [seen]})


@case(WORDS, mode="update", source=f"{SUITE}: flatMapGroupsWithState - streaming")
def counts(words: DataFrame) -> DataFrame:
    """A count for each key."""
    return words.groupBy("k").applyInPandasWithState(count_rows, "k string, n long", "n long", "update", "NoTimeout")


@case(WORDS, source=f"{SUITE}: applyInPandasWithState - streaming, append mode")
def counts_appended(words: DataFrame) -> DataFrame:
    """Append mode runs the function in the same way."""
    return words.groupBy("k").applyInPandasWithState(count_rows, "k string, n long", "n long", "append", "NoTimeout")


@case(
    stream("k string", [("a",), ("b",)], [("a",), ("b",)], [("a",)], [("a",), ("b",)]),
    mode="update",
    source=f"{SUITE}: applyInPandasWithState - streaming, multiple groups in partition",
)
def removed(words: DataFrame) -> DataFrame:
    """A removed state is gone: the key begins again."""

    def thrice(key: Any, frames: Frames, state: Any) -> Frames:
        seen = (state.get[0] if state.exists else 0) + sum(map(len, frames))
        state.remove() if seen == 3 else state.update((seen,))
        yield pd.DataFrame({"k": [key[0]], "n": [-1 if seen == 3 else seen], "known": [state.exists]})

    return words.groupBy("k").applyInPandasWithState(
        thrice, "k string, n long, known boolean", "n long", "update", "NoTimeout"
    )


@case(WORDS, mode="update", source=f"{PYSPARK}: no state, more data, fewer data")
def frames_of_all_sizes(words: DataFrame) -> DataFrame:
    """A key may emit no frame, an empty one, one without columns, or several; a function need not read its rows."""

    def several(key: Any, frames: Frames, state: Any) -> Frames:
        if key[0] == "a":
            yield pd.DataFrame({"k": [], "n": []})
            yield pd.DataFrame()
            yield pd.DataFrame({"k": ["a", None], "n": [1, 2]})
            yield pd.DataFrame({"n": [3], "k": ["other order"]})
        elif key[0] == "c":
            state.update((None,))
            yield pd.DataFrame({"k": ["c"], "n": [None]})

    return words.groupBy("k").applyInPandasWithState(several, "k string, n long", "n long", "update", "NoTimeout")


@case(WORDS, mode="update", source="own: columns are numbered")
def numbered_columns(words: DataFrame) -> DataFrame:
    """Columns without names."""

    def numbered(key: Any, frames: Frames, state: Any) -> Frames:
        yield pd.DataFrame([[key[0], total(frames)]])

    return words.groupBy("k").applyInPandasWithState(numbered, "k string, n long", "n long", "update", "NoTimeout")


@case(WORDS, mode="update", source="own: a list instead of an iterator")
def list_of_frames(words: DataFrame) -> DataFrame:
    """Anything that can be iterated is accepted."""

    def listed(key: Any, frames: Frames, state: Any) -> Any:
        return [pd.DataFrame({"k": [key[0]], "n": [len(each)]}) for each in frames]

    return words.groupBy("k").applyInPandasWithState(listed, "k string, n long", "n long", "update", "NoTimeout")


@case(
    stream(
        "k string, v long", [("a", each) for each in range(7)] + [("b", 1)], [("a", 1), ("b", 1), ("b", 2), ("b", 3)]
    ),
    mode="update",
    conf={"spark.sql.execution.arrow.maxRecordsPerBatch": "2"},
    source=f"{SUITE}: applyInPandasWithState - records per batch",
)
def small_frames(words: DataFrame) -> DataFrame:
    """No frame has more rows than the user's session allows in a batch, and each counts from zero."""

    def sizes(key: Any, frames: Frames, state: Any) -> Frames:
        found = [(len(each), list(each.index) == list(range(len(each)))) for each in frames]
        state.update((sum(size for size, _ in found) + (state.getOption or (0,))[0],))
        small = all(size <= 2 for size, _ in found) and all(numbered for _, numbered in found)
        yield pd.DataFrame({"k": [key[0]], "n": [state.get[0]], "small": [small]})

    return words.groupBy("k").applyInPandasWithState(
        sizes, "k string, n long, small boolean", "n long", "update", "NoTimeout"
    )
