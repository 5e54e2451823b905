"""One program on two engines, binshift's and Spark's own, over the same files, one file per batch; and facts of each batch."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.classic.dataframe import DataFrame as ClassicDataFrame
from pyspark.sql.streaming.query import StreamingQueryManager
from pyspark.sql.streaming.readwriter import DataStreamWriter

import binshift
from binshift.settings import ENABLED_CONF

START = datetime(2024, 3, 1, tzinfo=UTC)
SCHEMA = "ts timestamp, k long, items array<long>"
TIMES = (
    [0, 1, 12],
    [15, 60],  # the stateless part drops 60, which closes the windows up to 50
    [3, 16, 49],  # 3 and 16 still count, because lateness follows the previous batch
    [4, 17, 51],  # 4 and 17 are late, unless 60 was ignored
    [90, 61],
    [79, 81, 95],
    [10, 80, 200],
    [205],
)
Epochs = dict[int, Counter[tuple[Any, ...]]]
Engine = Callable[[DataFrame], DataStreamWriter]


def put(folder: Path, number: int, times: Sequence[float], start: datetime = START) -> None:
    """A file that becomes batch ``number``; the last row has no items, and its k is 9, which is in no static frame."""
    folder.mkdir(exist_ok=True)
    last = len(times) - 1
    columns = {
        "ts": pa.array([start + timedelta(seconds=at) for at in times], pa.timestamp("us", "UTC")),
        "k": pa.array([9 if at == last else at % 2 for at in range(len(times))], pa.int64()),
        "items": pa.array([[] if at == last else [at, at] for at in range(len(times))], pa.list_(pa.int64())),
    }
    hidden = folder.parent / f"{number}.parquet"
    pq.write_table(pa.table(columns), hidden)
    publish(hidden, folder, number)


def publish(hidden: Path, folder: Path, number: int) -> None:
    """Let a complete file become batch ``number``: Spark orders files by their time."""
    os.utime(hidden, (1_700_000_000 + number, 1_700_000_000 + number))
    hidden.rename(folder / hidden.name)


@contextmanager
def installed_in(session: SparkSession) -> Iterator[None]:
    """The session and PySpark's classes are as in a program of `binshift run`, and then as before."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ClassicDataFrame, "writeStream", ClassicDataFrame.writeStream)
        for name in ("addListener", "removeListener"):
            patch.setattr(StreamingQueryManager, name, getattr(StreamingQueryManager, name))
        binshift.install(session)
        yield
        session.conf.unset(ENABLED_CONF)


def source(session: SparkSession, folder: Path) -> DataFrame:
    """A stream with one file per batch."""
    return session.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(str(folder))


def ours(frame: DataFrame) -> DataStreamWriter:
    """binshift's writer of a frame."""
    return binshift.writeStream(frame, bins=16, workers=2)


def sparks(frame: DataFrame) -> DataStreamWriter:
    """Spark's own."""
    return frame.writeStream


class Sink:
    """Keeps each batch's rows by its number, including empty batches; the newest run of a batch counts."""

    def __init__(self) -> None:
        self.epochs: Epochs = {}
        self.runs: list[int] = []

    def __call__(self, frame: DataFrame, epoch: int) -> None:
        """Keep the rows of one batch."""
        self.runs.append(epoch)
        rows = Counter(tuple(row) for row in frame.collect())
        assert self.epochs.setdefault(epoch, rows) == rows, f"batch {epoch} came again with other rows"


def run(writer: Any, checkpoint: Path, sink: Any, mode: str = "update", **trigger: bool) -> None:
    """Run a query, of binshift or of Spark, over all available files."""
    writer = writer.outputMode(mode).option("checkpointLocation", str(checkpoint)).foreachBatch(sink)
    assert writer.trigger(**(trigger or {"availableNow": True})).start().awaitTermination(240)


def taken(writer: DataStreamWriter, checkpoint: Path, mode: str = "update") -> Epochs:
    """The output of a query over all files, by batch."""
    sink = Sink()
    run(writer, checkpoint, sink, mode)
    return sink.epochs


def uncommit(checkpoint: Path, epoch: int) -> None:
    """Simulate a driver that died before Spark's commit of ``epoch``, the newest."""
    for name in (str(epoch), f".{epoch}.crc"):
        (checkpoint / "commits" / name).unlink(missing_ok=True)


def watermarks(checkpoint: Path) -> list[int]:
    """The watermark of each batch, from Spark's offset log."""
    return [metadata["batchWatermarkMs"] for metadata in offsets(checkpoint)]


def times(checkpoint: Path) -> list[datetime]:
    """The time of each batch, from Spark's offset log."""
    return [datetime.fromtimestamp(metadata["batchTimestampMs"] / 1000, UTC) for metadata in offsets(checkpoint)]


def offsets(checkpoint: Path) -> list[dict[str, int]]:
    """The second line of each entry of Spark's offset log."""
    numbers = sorted(int(path.name) for path in (checkpoint / "offsets").iterdir() if path.name.isdigit())
    assert numbers == list(range(len(numbers)))
    return [json.loads((checkpoint / "offsets" / str(n)).read_text().splitlines()[1]) for n in numbers]


@contextmanager
def having(session: SparkSession, conf: Mapping[str, str]) -> Iterator[None]:
    """The user's session with some conf, which queries inherit when they start."""
    before = {key: session.conf.get(key, None) for key in conf}
    for key, value in conf.items():
        session.conf.set(key, value)
    try:
        yield
    finally:
        for key, was in before.items():
            session.conf.unset(key)
            if was is not None:
                session.conf.set(key, was)
