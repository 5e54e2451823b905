"""The replay presents every row to the query exactly once, when it is due."""

from __future__ import annotations

import itertools
import threading
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import parquet

from binshift.errors import InvalidSettings
from flights_demo.replay import Feeder, Schedule, file_name, file_number, write


@given(rows=st.integers(1, 5000), seconds=st.floats(0.5, 30), primers=st.integers(0, 5))
def test_files_hold_each_row_once(rows: int, seconds: float, primers: int) -> None:
    """The files' rows follow each other without gap or overlap, from the first row to the last."""
    schedule = Schedule(rows, seconds, primers=primers)
    bounds = [schedule.rows_of(file) for file in range(schedule.files)]
    assert bounds[0][0] == 0
    assert bounds[-1][1] == rows
    assert all(earlier[1] == later[0] for earlier, later in itertools.pairwise(bounds))


@given(rows=st.integers(1, 5000), seconds=st.floats(0.5, 30), primers=st.integers(0, 5))
def test_file_is_due_when_its_rows_are(rows: int, seconds: float, primers: int) -> None:
    """No row is due after its file, none more than a tick before; rows of primers are never due."""
    schedule = Schedule(rows, seconds, primers=primers)
    scheduled = schedule.scheduled()
    for file in range(schedule.files):
        first, after = schedule.rows_of(file)
        due = scheduled[first:after]
        if file < primers:
            assert np.isnan(due).all()
        else:
            assert (due < schedule.due(file) + 1e-9).all()
            assert (due >= schedule.due(file) - schedule.tick_seconds - 1 / schedule.rate - 1e-9).all()


@pytest.mark.parametrize(("rows", "seconds"), [(0, 10.0), (5, 0.01)])
def test_schedule_without_rows_or_time_is_refused(rows: int, seconds: float) -> None:
    """An empty replay, or one shorter than a tick, is rejected with the value."""
    with pytest.raises(InvalidSettings, match=str(rows)):
        Schedule(rows, seconds)


def test_other_files_have_no_number() -> None:
    """A file of another source is not treated as part of the replay."""
    with pytest.raises(ValueError, match="part-0"):
        file_number("/data/part-0.parquet")


def _staged(folder: Path, schedule: Schedule) -> tuple[Path, Path]:
    staged, shown = folder / "staged", folder / "shown"
    shown.mkdir()
    write(pa.table({"row": list(range(schedule.rows))}), schedule, staged)
    return staged, shown


def _rows_in(folder: Path) -> list[int]:
    return [row for path in sorted(folder.iterdir()) for row in parquet.read_table(path).column("row").to_pylist()]


def test_feeder_releases_everything_in_order(tmp_path: Path) -> None:
    """At the end all rows are in the query's folder, in order, and no temporary file is left."""
    schedule = Schedule(50, 0.5, tick_seconds=0.1, primers=2)
    staged, shown = _staged(tmp_path, schedule)
    feeder = Feeder(schedule, staged, shown)
    feeder.prime()
    assert [path.name for path in shown.iterdir()] == [file_name(0)]
    feeder.start()
    feeder._thread.join(timeout=30)
    assert feeder.ended
    assert _rows_in(shown) == list(range(50))
    assert list(staged.iterdir()) == []


def test_feeder_waits_only_for_the_clock(tmp_path: Path) -> None:
    """With a stopped clock only the primers are released; with one far ahead all files are released at once."""
    schedule = Schedule(50, 5.0, tick_seconds=0.1, primers=3)
    staged, shown = _staged(tmp_path, schedule)
    moment = [100.0]
    feeder = Feeder(schedule, staged, shown, clock=lambda: moment[0])
    assert feeder.now() == 0.0
    moment[0] = 200.0
    feeder.start()
    assert feeder.now() == 0.0
    feeder.stop()
    assert len(list(shown.iterdir())) == 3

    moment[0] = 300.0
    late = Feeder(schedule, shown, staged, clock=iter_clock([0.0], then=1000.0))
    for path in list(staged.iterdir()):
        path.rename(shown / path.name)
    late.start()
    late._thread.join(timeout=30)
    assert late.ended


def iter_clock(first: list[float], then: float):  # type: ignore[no-untyped-def]
    """A clock that returns ``first`` once and then always the same later time."""
    lock = threading.Lock()

    def now() -> float:
        with lock:
            return first.pop() if first else then

    return now
