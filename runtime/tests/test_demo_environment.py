"""The demo's program is found and right, and its environment leave nothing behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from demo_flights import raw_flights

import flights
from binshift.local import LocalCluster
from flights_demo import dataset, environment, reference
from flights_demo.environment import Environment, no_more_interrupts, one_interrupt, output_to

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_program_computes_what_pandas_does(spark: SparkSession, tmp_path: Path) -> None:
    """Run by Spark itself over all rows at once, the program's expressions return pandas' result."""
    from pyarrow import parquet

    events = dataset.events(raw_flights(600, seed=4))
    parquet.write_table(dataset.arrow(events), tmp_path / "flights.parquet")
    utc = spark.newSession()
    utc.conf.set("spark.sql.session.timeZone", "UTC")
    frame = utc.read.schema(flights.SCHEMA).parquet(str(tmp_path))
    found = flights.by_scope(frame).groupBy("scope", "key").agg(*flights.statistics()).toArrow()
    typed = reference.typed(found.to_pandas(integer_object_nulls=True))
    assert reference.differences(typed, reference.expected(events)) == []


def test_program_is_accepted(spark: SparkSession, tmp_path: Path) -> None:
    """binshift takes the program's query, whose columns are those the demo compares."""
    stream = spark.readStream.schema(flights.SCHEMA).parquet(str(tmp_path))
    assert flights.delays(stream).columns == [*reference.KEYS, *reference.STATISTICS]
    assert flights.LATE_MINUTES == reference.LATE_MINUTES


def _around(folder: Path, ends: ExitStack) -> Environment:
    return Environment(folder, LocalCluster(folder / "cluster"), ends)


def test_everything_is_ended_in_reverse(tmp_path: Path) -> None:
    """Parts are ended last first, and a failing one does not prevent the others from ending."""
    ended: list[str] = []

    def fail() -> None:
        raise RuntimeError("cannot end")

    with ExitStack() as ends:
        around = _around(tmp_path, ends)
        around.at_end(lambda: ended.append("first"))
        around.at_end(fail)
        around.at_end(lambda: ended.append("last"))
    assert ended == ["last", "first"]


def test_part_that_hangs_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A part that does not end within its time is left alone, and the next one is ended."""
    monkeypatch.setattr(environment, "STOP_SECONDS", 0.05)
    never, ended = threading.Event(), []
    with ExitStack() as ends:
        around = _around(tmp_path, ends)
        around.at_end(lambda: ended.append("first"))
        around.at_end(never.wait)
    assert ended == ["first"]
    never.set()


def test_output_of_processes_goes_to_the_file(tmp_path: Path) -> None:
    """The output of processes started meanwhile is in the file; this process' own output is unchanged."""
    path = tmp_path / "log"
    before = os.fstat(1).st_ino, os.fstat(2).st_ino
    with output_to(path):
        subprocess.run([sys.executable, "-c", "import sys; print('out'); print('err', file=sys.stderr)"], check=True)
    assert sorted(path.read_text().split()) == ["err", "out"]
    assert (os.fstat(1).st_ino, os.fstat(2).st_ino) == before


def test_log_tail(tmp_path: Path) -> None:
    """The end of the driver's log is its last lines, or nothing if it does not exist."""
    with ExitStack() as ends:
        around = _around(tmp_path, ends)
        assert around.log_tail(2) == ""
        around.driver_log.write_text("a\nb\nc\n")
        assert around.log_tail(2) == "b\nc"


def test_second_interrupt_does_not_disturb_the_end() -> None:
    """The first interrupt ends the demo; further ones during the clean-up are ignored; afterwards the handlers are restored."""
    before = signal.getsignal(signal.SIGTERM)
    cleaned = False

    @one_interrupt()
    def interrupted() -> None:
        nonlocal cleaned
        try:
            os.kill(os.getpid(), signal.SIGTERM)
        finally:
            os.kill(os.getpid(), signal.SIGINT)
            os.kill(os.getpid(), signal.SIGTERM)
            cleaned = True

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert cleaned
    assert signal.getsignal(signal.SIGTERM) is before


def test_end_that_has_begun_is_not_interrupted() -> None:
    """A signal that arrives after the end has begun by itself is ignored."""
    with one_interrupt():
        no_more_interrupts()
        os.kill(os.getpid(), signal.SIGTERM)
        os.kill(os.getpid(), signal.SIGINT)
    assert signal.getsignal(signal.SIGTERM) is not signal.SIG_IGN


def test_nothing_is_ignored_outside() -> None:
    """Without `one_interrupt`, the end of the environment leaves the caller's signals alone."""
    before = signal.getsignal(signal.SIGINT)
    no_more_interrupts()
    assert signal.getsignal(signal.SIGINT) is before
