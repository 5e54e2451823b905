"""Pandas' answer to the question that the query answers, and the comparison of the two.

Deliberately written another way than the program: per scope, over all rows at once, by another library. Counts, sums and
extremes have to be equal; means and deviations, which depend on the order of additions, to nine digits.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np
import pandas as pd

KEYS: Final = ("scope", "key")
EXACT: Final = ("flights", "departed", "cancelled", "late", "delay_sum", "delay_min", "delay_max")
CLOSE: Final = ("delay_mean", "delay_deviation", "arrival_delay_mean")
STATISTICS: Final = (*EXACT, *CLOSE)
TOLERANCE: Final = 1e-9
"""Relative to the larger of the value and one minute."""

LATE_MINUTES: Final = 15
DIFFERENCES_MAX: Final = 5
"""Differences of each kind that are named."""


def expected(flights: pd.DataFrame) -> pd.DataFrame:
    """The statistics of flights as `flights_demo.dataset` gives them, by scope and key."""
    keys = {
        "aircraft": flights["tailnum"],
        "route": flights["origin"] + "-" + flights["dest"],
        "hour": flights["event_time"].dt.floor("h"),
    }
    scopes = {scope: _statistics(flights, scope, key) for scope, key in keys.items()}
    scopes["hour"]["key"] = scopes["hour"]["key"].dt.strftime("%Y-%m-%d %H:00")
    return typed(pd.concat(scopes.values(), ignore_index=True))


def _statistics(flights: pd.DataFrame, scope: str, key: pd.Series) -> pd.DataFrame:
    values = pd.DataFrame(
        {
            "key": key,
            "delay": flights["dep_delay"].astype("Float64"),
            "arrival": flights["arr_delay"].astype("Float64"),
            "cancelled": flights["dep_delay"].isna(),
            "late": (flights["dep_delay"] > LATE_MINUTES).fillna(False),
        }
    )
    groups = values.groupby("key", dropna=False, sort=False)
    delay = groups["delay"]
    return (
        pd.DataFrame(
            {
                "flights": groups.size(),
                "departed": delay.count(),
                "cancelled": groups["cancelled"].sum(),
                "late": groups["late"].sum(),
                "delay_sum": delay.sum(min_count=1),
                "delay_min": delay.min(),
                "delay_max": delay.max(),
                "delay_mean": delay.mean(),
                "delay_deviation": delay.std(),
                "arrival_delay_mean": groups["arrival"].mean(),
            }
        )
        .reset_index()
        .assign(scope=scope)
    )


def typed(statistics: pd.DataFrame) -> pd.DataFrame:
    """The columns in their order, with types that distinguish an absent number from zero."""
    kinds = dict.fromkeys(KEYS, "object") | dict.fromkeys(EXACT, "Int64") | dict.fromkeys(CLOSE, "Float64")
    return statistics[[*KEYS, *STATISTICS]].astype(kinds)


def differences(found: pd.DataFrame, wanted: pd.DataFrame) -> list[str]:
    """A text of the differences between two sets of statistics; empty if they are equal."""
    doubled = found[found.duplicated(list(KEYS))]
    merged = found.drop_duplicates(list(KEYS)).merge(
        wanted, on=list(KEYS), how="outer", suffixes=("", "_wanted"), indicator="side"
    )
    both = merged[merged["side"] == "both"]
    kinds = [
        _named("found twice", doubled),
        _named("missing", merged[merged["side"] == "right_only"]),
        _named("not in the input", merged[merged["side"] == "left_only"]),
        *(_values(both, name) for name in STATISTICS),
    ]
    return [line for lines in kinds for line in lines]


def _named(problem: str, rows: pd.DataFrame) -> Iterator[str]:
    if len(rows):
        keys = ", ".join(f"{row.scope} {row.key}" for row in rows.head(DIFFERENCES_MAX).itertuples())
        yield f"{len(rows)} keys {problem}: {keys}"


def _values(both: pd.DataFrame, name: str) -> Iterator[str]:
    found, wanted = both[name], both[f"{name}_wanted"]
    one_absent = found.isna() != wanted.isna()
    a, b = (each.astype("Float64").to_numpy(float, na_value=0.0) for each in (found, wanted))
    if name in EXACT:
        a, b = (each.to_numpy("int64", na_value=0) for each in (found, wanted))
        apart = a != b
    else:
        apart = ~(np.abs(a - b) <= TOLERANCE * np.maximum(np.abs(b), 1.0))
    wrong = both[one_absent.to_numpy(bool) | apart]
    if len(wrong):
        shown = wrong.head(DIFFERENCES_MAX)
        pairs = zip(shown["scope"], shown["key"], shown[name], shown[f"{name}_wanted"], strict=True)
        values = "; ".join(f"{scope} {key}: {mine}, not {theirs}" for scope, key, mine, theirs in pairs)
        yield f"{len(wrong)} keys with another {name}: {values}"
