"""Another program on an old checkpoint is rejected before a byte is written, and the difference is named."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from counted import stream
from hostile import bytes_of, check_log, writer
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from totals import STATE, summed, totalling

import binshift
from binshift.errors import IncompatibleState
from binshift.spark.frontend.writer import StatefulStreamWriter

pytestmark = pytest.mark.cluster

Program = Callable[[SparkSession], StatefulStreamWriter]


def counted(
    session: SparkSession, *keys: str, bins: int = 32, how: tuple[str, ...] = ("count(*)", "sum(value)")
) -> StatefulStreamWriter:
    """A program with the given differences; keys and aggregates are SQL."""
    frame = stream(session).groupBy(*map(F.expr, keys or ("name", "grp"))).agg(*map(F.expr, how))
    return binshift.writeStream(frame, bins=bins, workers=2)


def windowed(session: SparkSession, minutes: int, key: str = "timestamp") -> StatefulStreamWriter:
    """Windows over event time."""
    source = session.readStream.format("rate-micro-batch").option("rowsPerBatch", 50)
    frame = source.load().withWatermark("timestamp", "10 seconds")
    return binshift.writeStream(frame.groupBy(F.window(key, f"{minutes} minutes")).count(), bins=32, workers=2)


AGGREGATES: dict[str, tuple[Program, str]] = {
    "bins": (lambda s: counted(s, bins=64), "32 bins, the query has 64"),
    "key type": (lambda s: counted(s, "name", "cast(grp as int)"), "cast(grp as int)"),
    "key less": (lambda s: counted(s, "name"), "grp"),
    "key more": (lambda s: counted(s, "name", "grp", "value % 3"), "% cast(3 as bigint)"),
    "key order": (lambda s: counted(s, "grp", "name"), "grp"),
    "no key": (
        lambda s: binshift.writeStream(stream(s).groupBy().agg(F.count("*")), bins=32, workers=2),
        "no key",
    ),
    "aggregate other": (lambda s: counted(s, how=("count(*)", "max(value)")), "max(value)"),
    "aggregate less": (lambda s: counted(s, how=("count(*)",)), "sum(value)"),
    "aggregate of another column": (lambda s: counted(s, how=("count(*)", "sum(value * 2)")), "cast(2 as bigint)"),
    "aggregate type": (lambda s: counted(s, how=("count(*)", "sum(cast(value as double))")), "double"),
    "operator": (lambda s: totalling(s, summed), "vectorised: keys"),
}
ARROW: dict[str, tuple[Program, str]] = {
    "state type": (lambda s: totalling(s, summed, "total double, seen long"), "total:double"),
    "state column": (lambda s: totalling(s, summed, f"{STATE}, last long"), "last:bigint"),
    "state order": (lambda s: totalling(s, summed, "seen long, total long"), "seen:bigint,total:bigint"),
    "operator": (lambda s: counted(s), "count"),
}
WINDOWS: dict[str, tuple[Program, str]] = {"window": (lambda s: windowed(s, 2), "'2 minutes'")}


def refused(session: SparkSession, checkpoint: Path, changes: dict[str, tuple[Program, str]]) -> None:
    """Every changed program is rejected with its difference, and leaves every byte unchanged."""
    before = bytes_of(checkpoint)
    for name, (program, expected) in changes.items():
        with pytest.raises(IncompatibleState) as error:
            writer(program(session), checkpoint).start()
        assert expected.lower() in str(error.value).lower().replace("`", ""), f"{name}: {error.value}"
        assert "another checkpoint" in str(error.value), name
        assert bytes_of(checkpoint) == before, f"{name} has left a trace"
    check_log(checkpoint)


def ran(session: SparkSession, program: Program, checkpoint: Path) -> None:
    """Two epochs of a program; a second start continues."""
    query = writer(program(session), checkpoint).start()
    query.await_epoch(1, 120)
    query.stop()


def goes_on(session: SparkSession, program: Program, checkpoint: Path) -> None:
    """The program itself is still accepted."""
    query = writer(program(session), checkpoint).start()
    last = query.epoch
    assert last >= 1
    query.await_epoch(last + 1, 120)
    query.stop()


def test_a_changed_aggregation_is_refused(session: SparkSession, tmp_path: Path) -> None:
    """Bins, keys, aggregates and types must be those of the checkpoint."""
    ran(session, counted, tmp_path)
    refused(session, tmp_path, AGGREGATES)
    goes_on(session, counted, tmp_path)


def test_a_changed_state_schema_is_refused(session: SparkSession, tmp_path: Path) -> None:
    """The columns of the user's own state must be those of the checkpoint; the function itself may change."""
    ran(session, lambda s: totalling(s, summed), tmp_path)
    refused(session, tmp_path, ARROW)
    goes_on(session, lambda s: totalling(s, lambda keys, rows, state: summed(keys, rows, state)), tmp_path)


def test_a_changed_window_is_refused(session: SparkSession, tmp_path: Path) -> None:
    """Windows of another length are other keys, although their type is the same; the same holds for groups without an end."""
    ran(session, lambda s: windowed(s, 1), tmp_path)
    refused(session, tmp_path, WINDOWS)
