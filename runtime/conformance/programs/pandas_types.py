"""The types that a function of `applyInPandasWithState` sees and sets: of frames, keys, states and results."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pandas as pd
from pyspark.sql import DataFrame

from conformance.program import Kind, stream
from conformance.programs.pandas_state import PYSPARK, total

case = Kind("pandas_state types")

Frames = Iterator[pd.DataFrame]

INPUT = (
    "i int, l long, d double, s string, b boolean, t timestamp, u date, m decimal(10,2), a array<int>, y binary, "
    "r struct<x:int,z:string>, p map<string,int>"
)


@case(
    stream(
        f"k string, {INPUT}",
        [
            (
                "full",
                1,
                2,
                0.5,
                "x",
                True,
                10,
                datetime(2024, 1, 2, tzinfo=UTC).date(),
                1,
                [1, 2],
                b"\x00\x01",
                (1, "z"),
                {"a": 1},
            ),
            ("full", 3, 4, 1.5, "y", False, 11, datetime(2024, 1, 3, tzinfo=UTC).date(), 2, [], b"", (2, "w"), {}),
            ("mixed", 5, None, None, None, True, None, None, None, None, None, None, None),
            (
                "mixed",
                None,
                6,
                2.5,
                "v",
                None,
                12,
                datetime(2024, 1, 4, tzinfo=UTC).date(),
                3,
                [3],
                b"q",
                (None, "z"),
                {"b": 2},
            ),
            ("none", None, None, None, None, None, None, None, None, None, None, None, None),
        ],
        [("none", 1, None, None, "x", None, None, None, None, None, None, None, None)],
    ),
    mode="update",
    source="own: the types that a function sees",
)
def types_of_frames(rows: DataFrame) -> DataFrame:
    """The types of columns and values in pandas, with and without nulls in the key's own rows."""

    def described(key: Any, frames: Frames, state: Any) -> Frames:
        for each in frames:
            for name in each.columns:
                values = [f"{type(value).__name__}:{value}" for value in each[name]]
                yield pd.DataFrame(
                    {"k": [f"{type(key[0]).__name__} {key[0]}"], "c": [f"{name} {each[name].dtype} {values}"]}
                )

    return rows.groupBy("k").applyInPandasWithState(described, "k string, c string", "n long", "update", "NoTimeout")


@case(
    stream(
        "i int, t timestamp, m decimal(10,2), b boolean, d double, v long",
        [
            (1, 10, 1, True, 0.5, 1),
            (2, 11, 2, False, 1.5, 2),
            (None, None, None, None, None, 3),
            (1, 10, 1, True, 0.5, 4),
        ],
        [(None, None, None, None, None, 5), (2, 11, 2, False, 1.5, 6)],
    ),
    mode="update",
    source="own: the types of keys",
)
def types_of_keys(rows: DataFrame) -> DataFrame:
    """The Python types of the parts of a key, null among them."""

    def described(key: Any, frames: Frames, state: Any) -> Frames:
        state.update(((state.getOption or (0,))[0] + total(frames),))
        yield pd.DataFrame({"k": [" ".join(f"{type(each).__name__}:{each}" for each in key)], "n": [state.get[0]]})

    return rows.groupBy("i", "t", "m", "b", "d").applyInPandasWithState(
        described, "k string, n long", "n long", "update", "NoTimeout"
    )


@case(
    stream("k string", [("a",)], [("a",)], [("a",)]),
    mode="update",
    source="own: the types of states",
)
def types_of_states(rows: DataFrame) -> DataFrame:
    """Values come back as Python's own types. Arrays and maps are absent: Spark 4.3 cannot read their types in its worker."""
    schema = "i int, l long, d double, f float, s string, b boolean, t timestamp, u date, m decimal(10,2), y binary, r struct<x:int,z:string>"
    values = (
        1, 2, 0.5, 0.5, "x", True, datetime(2024, 1, 2, 3, 4, 5, 6), datetime(2024, 1, 2).date(), Decimal("1.5"),
        bytearray(b"y"), (1, "z"),
    )  # fmt: skip

    def described(key: Any, frames: Frames, state: Any) -> Frames:
        held = "nothing" if not state.exists else [f"{type(each).__name__}:{each}" for each in state.get]
        state.update((None,) * len(values) if state.exists and state.get[0] else values)
        yield pd.DataFrame({"k": [key[0]], "s": [f"{held} {state}"]})

    return rows.groupBy("k").applyInPandasWithState(described, "k string, s string", schema, "update", "NoTimeout")


@case(
    stream("k string, v long", [("a", 0)], [("a", 1)], [("a", 2)], [("a", 0)]),
    mode="update",
    source="own: values of other types than the state's",
)
def unlike_states(rows: DataFrame) -> DataFrame:
    """A value of another type than the state's column is kept as Spark keeps it."""
    schema = "i int, l long, d double, f float, s string, b boolean, m decimal(10,2), y binary, r struct<x:int>"
    values = [
        ("x", 1.5, 1, 1, 1, 1, 1, "text", [1]),
        (True, True, True, True, 1.5, "true", 1.5, b"bytes", (2,)),
        (1 << 40, 1 << 70, 1e300, 1e300, True, None, Decimal("1.005"), 5, None),
    ]

    def kept(key: Any, frames: Frames, state: Any) -> Frames:
        yield pd.DataFrame({"k": [key[0]], "s": [str(state)]})
        state.update(values[int(total(frames))])

    return rows.groupBy("k").applyInPandasWithState(kept, "k string, s string", schema, "update", "NoTimeout")


@case(
    stream("k string, v long", [("a", 1), ("b", 2)], [("a", 1)]),
    mode="update",
    conf={"spark.sql.execution.pythonUDF.pandas.intToDecimalCoercionEnabled": "true"},
    source=f"{PYSPARK}: int to decimal coercion",
)
def decimals(rows: DataFrame) -> DataFrame:
    """Whole numbers become decimals where the conf allows it."""

    def one(key: Any, frames: Frames, state: Any) -> Frames:
        yield pd.DataFrame({"k": [key[0]], "m": [1]})

    return rows.groupBy("k").applyInPandasWithState(one, "k string, m decimal(10,2)", "n long", "update", "NoTimeout")
