"""Pandas' result is correct on a case computed manually, and the comparison detects every kind of difference."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pyarrow as pa
import pytest
from demo_flights import raw_flight, raw_flights

from flights_demo import dataset
from flights_demo.reference import CLOSE, EXACT, differences, expected
from flights_demo.results import Results, worst_routes

FLIGHTS = dataset.events(raw_flights(400, seed=3))
WANTED = expected(FLIGHTS)


def _row(statistics: pd.DataFrame, scope: str, key: str | None) -> dict[str, Any]:
    is_key = statistics["key"].isna() if key is None else statistics["key"] == key
    found: dict[str, Any]
    (found,) = statistics[(statistics["scope"] == scope) & is_key].to_dict("records")
    return found


def test_statistics_by_hand() -> None:
    """Counts, sums, extremes, mean and deviation of a few flights equal the values computed manually."""
    rows = [("N1", 4.0), ("N1", 20.0), ("N1", None), ("N2", 15.0), (None, None)]
    raw = pd.DataFrame([raw_flight("2013-01-01T10:00:00Z", 0, delay, tail) for tail, delay in rows])
    found = expected(dataset.events(raw))
    one = _row(found, "aircraft", "N1")
    assert [one[name] for name in EXACT] == [3, 2, 1, 1, 24, 4, 20]
    assert [one[name] for name in CLOSE] == pytest.approx([12.0, 128**0.5, 12.0])
    none = _row(found, "aircraft", None)
    assert [none[name] for name in ("flights", "departed", "cancelled", "late")] == [1, 0, 1, 0]
    assert pd.isna(none["delay_sum"])
    assert _row(found, "route", "JFK-LAX")["flights"] == 5
    assert _row(found, "hour", "2013-01-01 10:00")["flights"] == 5
    assert len(found) == 5


def test_every_flight_counts_once_per_scope() -> None:
    """In each scope the counts add up to all flights, and a delay of 15 minutes is not late."""
    assert WANTED.groupby("scope")["flights"].sum().to_dict() == dict.fromkeys(("aircraft", "hour", "route"), 400)
    late = int((FLIGHTS["dep_delay"] > 15).sum())
    assert WANTED.groupby("scope")["late"].sum().to_dict() == dict.fromkeys(("aircraft", "hour", "route"), late)


def test_equal_statistics_have_no_differences() -> None:
    """The order of rows and the last digits of a mean are ignored; the null key equals itself."""
    close = WANTED.sample(frac=1, random_state=1)
    close["delay_mean"] = close["delay_mean"] * (1 + 1e-13)
    assert differences(close, WANTED) == []


def _missing(found: pd.DataFrame) -> pd.DataFrame:
    return found[found["key"].notna()]


def _twice(found: pd.DataFrame) -> pd.DataFrame:
    return pd.concat([found, found.head(1)])


def _foreign(found: pd.DataFrame) -> pd.DataFrame:
    return pd.concat([found, found.head(1).assign(key="N999")])


def _off_by_one(found: pd.DataFrame) -> pd.DataFrame:
    return found.assign(delay_sum=found["delay_sum"] + 1)


def _absent(found: pd.DataFrame) -> pd.DataFrame:
    return found.assign(delay_max=pd.array([pd.NA] * len(found), dtype="Int64"))


def _less_exact(found: pd.DataFrame) -> pd.DataFrame:
    return found.assign(delay_deviation=found["delay_deviation"] + 1e-6)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (_missing, "1 keys missing: aircraft"),
        (_twice, "1 keys found twice"),
        (_foreign, "not in the input: .* N999"),
        (_off_by_one, "another delay_sum"),
        (_absent, "another delay_max"),
        (_less_exact, "another delay_deviation"),
    ],
)
def test_differences_are_seen(change: Any, message: str) -> None:
    """Each kind of error gives one line, with the key or the value in it."""
    found = differences(change(WANTED.copy()), WANTED)
    assert len(found) == 1
    assert pd.Series(found).str.contains(message).all()


class _Frame:
    """The part of a DataFrame that a sink uses."""

    def __init__(self, rows: pd.DataFrame) -> None:
        self._rows = rows

    def toArrow(self) -> pa.Table:  # noqa: N802 (PySpark's name)
        return pa.Table.from_pandas(self._rows, preserve_index=False)


def _collect(*writes: tuple[int, pd.DataFrame]) -> Results:
    results = Results()
    for epoch, rows in writes:
        results.write(_Frame(rows), epoch)  # type: ignore[arg-type]
    return results


def test_results_keep_the_last_word() -> None:
    """The values of each key's newest epoch count; an epoch that ran again replaces its earlier rows."""
    half, rest = FLIGHTS.head(200), FLIGHTS
    results = _collect((0, expected(half)), (1, WANTED.head(3)), (1, expected(rest)))
    assert differences(results.latest(0), expected(half)) == []
    assert differences(results.latest(1), WANTED) == []
    assert differences(results.latest(1), WANTED) == []


def test_results_wait_for_the_commit() -> None:
    """Rows of an uncommitted epoch do not count yet."""
    results = _collect((0, WANTED.head(5)), (1, WANTED.tail(5)))
    assert len(results.latest(0)) == 5
    assert len(Results().latest(7)) == 0


def test_worst_routes_come_first() -> None:
    """Routes are listed by mean delay, without those with too few departures."""
    worst = worst_routes(WANTED, count=2, flights_min=1)
    routes = WANTED[WANTED["scope"] == "route"]
    assert worst[0][2] == pytest.approx(routes["delay_mean"].max())
    assert worst[0][2] >= worst[1][2]
    assert worst_routes(WANTED, count=2, flights_min=10_000) == []
