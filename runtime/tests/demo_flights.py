"""Flights for the demo's tests: the columns of the real data, few rows, including its special cases."""

from __future__ import annotations

import random
from typing import Any

import pandas as pd

COLUMNS = (
    "flight",
    "dep_delay",
    "arr_delay",
    "distance",
    "carrier",
    "tailnum",
    "origin",
    "dest",
    "time_hour",
    "minute",
)


def raw_flight(
    time_hour: str, minute: int, delay: float | None, tailnum: str | None = "N1", flight: int = 1
) -> dict[str, Any]:
    """One row in the form of the data file."""
    values = (flight, delay, delay, 100, "UA", tailnum, "JFK", "LAX", time_hour, minute)
    return dict(zip(COLUMNS, values, strict=True))


def raw_flights(count: int, seed: int) -> pd.DataFrame:
    """Random rows in the form of the data file: some cancelled, some of these without an aircraft."""
    chance = random.Random(seed)
    rows = []
    for number in range(count):
        hour = f"2013-03-{chance.randint(9, 11):02d}T{chance.randint(0, 23):02d}:00:00Z"
        cancelled = chance.random() < 0.1
        tail = None if cancelled and chance.random() < 0.5 else f"N{chance.randint(1, 12)}"
        delay = None if cancelled else float(chance.choice([-9, -1, 0, 15, 16, chance.randint(-20, 900)]))
        row = raw_flight(hour, chance.randint(0, 59), delay, tail, number)
        rows.append(row | {"dest": chance.choice(["LAX", "BOS", "SFO"]), "origin": chance.choice(["JFK", "EWR"])})
    return pd.DataFrame(rows)
