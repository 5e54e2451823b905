"""What a function of `applyInPandasWithState` can do wrong: PySpark's errors."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pandas as pd
from pyspark.sql import DataFrame

from conformance.program import Kind
from conformance.programs.pandas_state import PYSPARK, WORDS

case = Kind("pandas_state errors")

Frames = Iterator[pd.DataFrame]


def failing(
    function: Any, *, schema: str = "n long", timeout: str = "NoTimeout", source: str, fails: bool = True
) -> None:
    """Register a program whose function fails, unless Spark accepts what it does; its docstring is the purpose."""

    def build(words: DataFrame) -> DataFrame:
        return words.groupBy("k").applyInPandasWithState(function, "k string, n long", schema, "update", timeout)

    build.__name__, build.__doc__ = function.__name__, function.__doc__
    case(WORDS, mode="update", fails=fails, source=source)(build)


def returns_a_frame(key: Any, frames: Frames, state: Any) -> Any:
    """The function returns a frame."""
    return pd.DataFrame({"k": [key[0]], "n": [1]})


def returns_a_number(key: Any, frames: Frames, state: Any) -> Any:
    """The function returns no iterator."""
    return 1


def yields_a_list(key: Any, frames: Frames, state: Any) -> Any:
    """The function yields no frame."""
    yield [1]


def yields_too_few_columns(key: Any, frames: Frames, state: Any) -> Any:
    """A frame lacks a column."""
    yield pd.DataFrame({"k": [key[0]]})


def yields_other_columns(key: Any, frames: Frames, state: Any) -> Any:
    """A frame has a column of another name: the declared one is null."""
    yield pd.DataFrame({"k": [key[0]], "m": [1]})


def yields_text_for_numbers(key: Any, frames: Frames, state: Any) -> Any:
    """A column has values of another type."""
    yield pd.DataFrame({"k": [key[0]], "n": ["one"]})


def gets_a_missing_state(key: Any, frames: Frames, state: Any) -> Any:
    """A state is read that does not exist."""
    yield pd.DataFrame({"k": [key[0]], "n": [state.get[0]]})


def updates_to_nothing(key: Any, frames: Frames, state: Any) -> Any:
    """A state is set to None."""
    state.update(None)
    yield pd.DataFrame({"k": [key[0]], "n": [1]})


def updates_too_many_values(key: Any, frames: Frames, state: Any) -> Any:
    """A state is set to more values than it has columns."""
    state.update((1, 2))
    yield pd.DataFrame({"k": [key[0]], "n": [1]})


def raises_an_error(key: Any, frames: Frames, state: Any) -> Any:
    """The function raises an error of its own."""
    raise ValueError(f"no {key[0]}")


def sets_a_duration(key: Any, frames: Frames, state: Any) -> Any:
    """A duration is set without timeouts."""
    state.setTimeoutDuration(1)
    yield pd.DataFrame({"k": [key[0]], "n": [1]})


def sets_a_timestamp(key: Any, frames: Frames, state: Any) -> Any:
    """A time is set without timeouts."""
    state.setTimeoutTimestamp(1)
    yield pd.DataFrame({"k": [key[0]], "n": [1]})


def reads_the_watermark(key: Any, frames: Frames, state: Any) -> Any:
    """The watermark is read where there is none."""
    yield pd.DataFrame({"k": [key[0]], "n": [state.getCurrentWatermarkMs()]})


def sets_no_duration(key: Any, frames: Frames, state: Any) -> Any:
    """A duration of nothing is set."""
    state.setTimeoutDuration(0)
    yield pd.DataFrame({"k": [key[0]], "n": [1]})


def sets_a_text(key: Any, frames: Frames, state: Any) -> Any:
    """A duration is given as text."""
    state.setTimeoutDuration("1 second")
    yield pd.DataFrame({"k": [key[0]], "n": [1]})


for each in (
    returns_a_frame, returns_a_number, yields_a_list, yields_too_few_columns, yields_text_for_numbers,
    gets_a_missing_state, updates_to_nothing, updates_too_many_values, raises_an_error, sets_a_duration, sets_a_timestamp,
    reads_the_watermark,
):  # fmt: skip
    failing(each, source=f"{PYSPARK}: errors")
for each in (sets_no_duration, sets_a_text):
    failing(each, timeout="ProcessingTimeTimeout", source=f"{PYSPARK}: errors")
failing(yields_other_columns, source=f"{PYSPARK}: columns", fails=False)
