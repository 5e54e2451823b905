"""The demo's program is found and correct, and its surroundings leave nothing behind."""

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

from binshift.demo import dataset, reference, surroundings
from binshift.demo.interrupts import no_more_interrupts, one_interrupt
from binshift.demo.surroundings import Surroundings, load_program, output_to
from binshift.errors import InvalidSettings
from binshift.local import LocalCluster

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_program_computes_what_pandas_does(spark: SparkSession, tmp_path: Path) -> None:
    """Run by Spark itself over all rows at once, the program's expressions return pandas' result."""
    from pyarrow import parquet

    program = load_program()
    flights = dataset.events(raw_flights(600, seed=4))
    parquet.write_table(dataset.arrow(flights), tmp_path / "flights.parquet")
    utc = spark.newSession()
    utc.conf.set("spark.sql.session.timeZone", "UTC")
    frame = utc.read.schema(program.SCHEMA).parquet(str(tmp_path))
    found = program.by_scope(frame).groupBy("scope", "key").agg(*program.statistics()).toArrow()
    typed = reference.typed(found.to_pandas(integer_object_nulls=True))
    assert reference.differences(typed, reference.expected(flights)) == []


def test_program_is_accepted(spark: SparkSession, tmp_path: Path) -> None:
    """binshift accepts the program's query, which has the columns that the demo compares."""
    program = load_program()
    stream = spark.readStream.schema(program.SCHEMA).parquet(str(tmp_path))
    assert program.delays(stream).columns == [*reference.KEYS, *reference.STATISTICS]
    assert program.LATE_MINUTES == reference.LATE_MINUTES


def test_missing_program_is_explained(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a checkout, the error names the missing file."""
    monkeypatch.setattr(surroundings, "PROGRAM", Path("examples", "none.py"))
    with pytest.raises(InvalidSettings, match=r"examples/none\.py"):
        load_program()


def _around(folder: Path, ends: ExitStack) -> Surroundings:
    return Surroundings(folder, LocalCluster(folder / "cluster"), ends)


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
    """A part that does not end in time is abandoned, and the next one is ended."""
    monkeypatch.setattr(surroundings, "STOP_SECONDS", 0.05)
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
    """Without `one_interrupt`, the end of the surroundings does not change the caller's signal handlers."""
    before = signal.getsignal(signal.SIGINT)
    no_more_interrupts()
    assert signal.getsignal(signal.SIGINT) is before
