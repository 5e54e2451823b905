"""Processors with frames: how many rows they have, their types, and what is returned."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pandas as pd
import pytest
from processor_scripted import SEEN, Scripted, seen
from processor_world import CONF, World
from pyspark.errors import PySparkValueError


class Frames(Scripted):
    """Returns the shapes of its frames."""

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:
        shapes = [[*frame["v"].tolist(), str(frame["v"].dtype)] for frame in rows]
        yield self.do_rows(key[0], shapes)


def framed(key: str, shapes: list[Any]) -> pd.DataFrame:
    """Columns in another order than the schema's."""
    return pd.DataFrame({"seen": [repr(shapes)], "k": [key]})


def test_frames_are_cut_at_the_users_limits() -> None:
    """No frame has more rows than the user's conf allows (trap 6)."""
    world = World(Frames(framed), SEEN, frames=True, conf=replace(CONF, records_max=2))
    assert seen(world, ("a", 1), ("a", 2), ("a", 3)) == ["[[1, 2, 'int64'], [3, 'int64']]"]
    small = World(Frames(framed), SEEN, frames=True, conf=replace(CONF, bytes_max=1))
    assert seen(small, ("a", 1), ("a", 2)) == ["[[1, 'int64'], [2, 'int64']]"]


def test_types_of_frames_depend_on_their_rows_alone() -> None:
    """A missing number makes floats in its own frame only, whatever keys are processed together (trap 5)."""
    world = World(Frames(framed), SEEN, frames=True)
    found = {row["k"]: row["seen"] for row in world.epoch([("a", 1), ("a", None), ("b", 2), ("i", 3)])}
    assert found == {"a": "[[1.0, nan, 'float64']]", "b": "[[2, 'int64']]", "i": "[[3, 'int64']]"}


def test_what_frames_must_be() -> None:
    """Something else than a frame is an error with PySpark's message (trap 7)."""
    with pytest.raises(PySparkValueError, match="Please make sure that the UDF returns"):
        seen(World(Frames(lambda *_: [1]), SEEN, frames=True))


def test_columns_of_frames_by_position() -> None:
    """With the legacy conf, or without names, columns are assigned by position (trap 7)."""

    def unnamed(key: str, shapes: list[Any]) -> pd.DataFrame:
        return pd.DataFrame([[key, "x"]])

    world = World(Frames(unnamed), SEEN, frames=True, conf=replace(CONF, by_name=False))
    assert world.epoch([("a", 1), ("b", 1)]) == [{"k": "a", "seen": "x"}, {"k": "b", "seen": "x"}]
