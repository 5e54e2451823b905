"""The rows that a run has returned, by batch: kept as Parquet by its sink, compared by DuckDB as multisets of rows."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import DataFrame

SHOWN_MAX = 3
EPOCH = "_epoch"


@dataclass(frozen=True)
class Sink:
    """A function for `foreachBatch` that keeps each batch in a file of its own; a batch that runs again replaces its rows."""

    folder: Path

    def __call__(self, frame: DataFrame, epoch: int) -> None:
        """Keep a batch."""
        self.folder.mkdir(parents=True, exist_ok=True)
        hidden = self.folder / f".{epoch:06}"
        pq.write_table(_plain(frame.toArrow(), epoch), hidden)
        hidden.rename(self.folder / f"{epoch:06}.parquet")


def _plain(table: pa.Table, epoch: int) -> pa.Table:
    """Times as local times of UTC, as in the oracle's files; and the number of the batch."""
    for at, field in enumerate(table.schema):
        if pa.types.is_timestamp(field.type):
            table = table.set_column(at, field.name, pc.cast(table.column(at), pa.timestamp("us")))
    return table.append_column(EPOCH, pa.array([epoch] * table.num_rows, pa.int64()))


@dataclass(frozen=True)
class Difference:
    """How two multisets of rows differ."""

    missing: int
    extra: int
    example: str = ""

    def __bool__(self) -> bool:
        return self.missing > 0 or self.extra > 0

    def __str__(self) -> str:
        return f"{self.missing} rows missing, {self.extra} too many: {self.example}" if self else "equal"


class Results:
    """The kept rows of one run."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.files = f"read_parquet('{folder}/*.parquet')"

    @property
    def exist(self) -> bool:
        """Whether the run has ended a batch."""
        return any(self.folder.glob("*.parquet"))

    def final(self, key: Sequence[str]) -> str:
        """SQL for the rows that count in the end: all of them, or the newest by key."""
        text = f"SELECT * FROM {self.files}"
        by = ", ".join(key)
        newest = f"{text} QUALIFY {EPOCH} = max({EPOCH}) OVER (PARTITION BY {by})" if key else text
        return f"SELECT * EXCLUDE {EPOCH} FROM ({newest})"

    def by_step(self, steps: int, *, beginning: bool = False) -> str:
        """SQL for all rows with their batch; those of later batches count as one batch, or not at all."""
        all_rows = f"SELECT * REPLACE (least({EPOCH}, {steps}) AS {EPOCH}) FROM {self.files}"
        return f"{all_rows} WHERE {EPOCH} < {steps}" if beginning else all_rows

    def rows(self) -> int:
        """The number of kept rows."""
        return int(duckdb.sql(f"SELECT count(*) FROM {self.files}").fetchall()[0][0])

    def against(self, expected: pa.Table, key: Sequence[str]) -> Difference:
        """The difference to the oracle."""
        base = duckdb.connect()
        base.register("expected", expected)
        names = ", ".join(f'"{name}"' for name in expected.column_names)
        return _difference(base, f"SELECT {names} FROM ({self.final(key)})", f"SELECT {names} FROM expected")

    def against_run(self, other: Results, steps: int, *, beginning: bool = False) -> Difference:
        """The difference to another run in the ``steps`` batches with data and, unless it is their beginning, in all later ones together."""
        found, expected = (each.by_step(steps, beginning=beginning) for each in (self, other))
        return _difference(duckdb.connect(), found, expected)


def _difference(base: duckdb.DuckDBPyConnection, found: str, expected: str) -> Difference:
    missing, extra = f"({expected}) EXCEPT ALL ({found})", f"({found}) EXCEPT ALL ({expected})"
    counts = [int(base.sql(f"SELECT count(*) FROM ({each})").fetchall()[0][0]) for each in (missing, extra)]
    if not any(counts):
        return Difference(0, 0)
    some = [base.sql(f"SELECT * FROM ({each}) LIMIT {SHOWN_MAX}").fetchall() for each in (missing, extra)]
    return Difference(counts[0], counts[1], f"missing {some[0]}, too many {some[1]}")


def clock(checkpoint: Path) -> pa.Table:
    """The time of each batch, from Spark's offset log."""
    folder = checkpoint / "offsets"
    steps = sorted(int(path.name) for path in folder.iterdir() if path.name.isdigit())
    times = [json.loads((folder / str(step)).read_text().splitlines()[1])["batchTimestampMs"] for step in steps]
    ran_at = pa.array([1000 * each for each in times], pa.int64()).cast(pa.timestamp("us"))
    return pa.table({"step": pa.array(steps, pa.int64()), "ran_at": ran_at})
