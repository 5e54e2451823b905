"""What cannot be used is rejected by name and left exactly as it was found."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path

import msgspec
import pytest
from log_drivers import COUNT, FORMAT, SESSIONS, Driver, snapshot
from log_worlds import DictStorage

from binshift.errors import (
    BinshiftError,
    ForeignLog,
    IncompatibleState,
    InvalidSettings,
    LogDamaged,
)
from binshift.log.log import Log
from binshift.log.records import envelope
from binshift.log.records.formats import OperatorFormat
from binshift.log.storage import layout
from binshift.model import Epoch


def _edit(name: str, change: Callable[[bytes], bytes]) -> Callable[[Path], None]:
    def edit(root: Path) -> None:
        (root / name).write_bytes(change((root / name).read_bytes()))

    return edit


def _replace_all(root: Path) -> None:
    shutil.rmtree(root)
    root.mkdir()
    (root / "letter.txt").write_text("Dear all")


RECORD_2 = layout.record_name(Epoch(2))


REFUSALS: dict[str, tuple[type[BinshiftError], str, Callable[[Path], None]]] = {
    "altered record": (LogDamaged, RECORD_2, _edit(RECORD_2, lambda data: data.replace(b'"run":0', b'"run":1'))),
    "truncated record": (LogDamaged, RECORD_2, _edit(RECORD_2, lambda data: data[:50])),
    "missing record": (LogDamaged, RECORD_2, lambda root: (root / RECORD_2).unlink()),
    "last record": (LogDamaged, layout.record_name(Epoch(4)), lambda r: (r / layout.record_name(Epoch(4))).unlink()),
    "all records": (LogDamaged, "is missing", lambda root: shutil.rmtree(root / "records")),
    "newer format": (
        ForeignLog,
        "format 5",
        _edit(
            layout.FORMAT, lambda _: envelope.encode(layout.FORMAT, msgspec.structs.replace(FORMAT, format=5), 10**6)
        ),
    ),
    "foreign files": (
        ForeignLog,
        "is not empty",
        _replace_all,
    ),
}


@pytest.mark.parametrize("case", REFUSALS)
def test_a_damaged_or_foreign_log_is_refused_and_left_alone(case: str, tmp_path: Path) -> None:
    """An unusable log is named, and no file is added, changed or removed."""
    driver = Driver(Log.open(str(tmp_path), {}, FORMAT).storage)
    driver.epochs(5)
    error, message, damage = REFUSALS[case]
    damage(tmp_path)
    before = snapshot(tmp_path)
    with pytest.raises(error, match=message):
        Log.open(str(tmp_path), {}, FORMAT, spark_committed=lambda: Epoch(4))
    assert snapshot(tmp_path) == before


@pytest.mark.parametrize(
    ("wanted", "error", "message"),
    [
        ({"bins": 32}, IncompatibleState, "made with 16 bins, the query has 32"),
        ({"query": "q-2"}, ForeignLog, "query q-1, not of q-2"),
        ({"operators": (COUNT,)}, IncompatibleState, "'sessions' .* which the query lacks"),
        ({"operators": (COUNT, SESSIONS, OperatorFormat("more", "f3"))}, IncompatibleState, "'more' .* lacks state"),
        (
            {"operators": (COUNT, OperatorFormat("sessions", "f9", "sessions by country"))},
            IncompatibleState,
            "sessions by user.*sessions by country",
        ),
        ({"bins": 12}, InvalidSettings, "power of two"),
        ({"operators": (COUNT, COUNT)}, InvalidSettings, "two stateful operators"),
    ],
)
def test_a_query_that_does_not_fit_is_refused(
    wanted: dict[str, object], error: type[BinshiftError], message: str, tmp_path: Path
) -> None:
    """Other bins, operators or another query are rejected with the difference named, before anything is written."""
    Driver(Log.open(str(tmp_path), {}, FORMAT).storage).epochs(2)
    before = snapshot(tmp_path)
    with pytest.raises(error, match=message):
        Log.open(str(tmp_path), {}, msgspec.structs.replace(FORMAT, **wanted))
    assert snapshot(tmp_path) == before


def test_spark_and_the_log_must_belong_together() -> None:
    """A Spark checkpoint that is ahead of the log, or far behind it, is noticed; one epoch behind is a replay."""
    driver = Driver()
    driver.epochs(4)
    for committed in (Epoch(2), Epoch(3)):
        assert Log.on(driver.storage, FORMAT, spark_committed=partial(Epoch, committed)).index.last == 3
    with pytest.raises(LogDamaged, match=layout.record_name(Epoch(4))):
        Log.on(driver.storage, FORMAT, spark_committed=lambda: Epoch(4))
    with pytest.raises(ForeignLog, match="do not belong together"):
        Log.on(driver.storage, FORMAT, spark_committed=lambda: Epoch(1))
    # The previous driver continues while the log is read.
    moving = iter([Epoch(1), Epoch(3)])
    assert Log.on(driver.storage, FORMAT, spark_committed=lambda: next(moving)).index.last == 3
    with pytest.raises(LogDamaged, match=layout.record_name(Epoch(0))):
        Log.on(DictStorage(), FORMAT, spark_committed=lambda: Epoch(0))


@pytest.mark.parametrize("damage", ["altered", "missing"])
def test_a_lost_format_is_rewritten_by_its_query(damage: str, tmp_path: Path) -> None:
    """The records identify their query: it continues, and any other is rejected with the file named."""
    driver = Driver(Log.open(str(tmp_path), {}, FORMAT).storage)
    driver.epochs(3)
    path = tmp_path / layout.FORMAT
    whole = path.read_bytes()
    if damage == "missing":
        path.unlink()
    else:
        path.write_bytes(whole + b" ")
    before = snapshot(tmp_path)
    for other in ({"query": "q-2"}, {"bins": 32}, {"operators": (COUNT,)}):
        with pytest.raises(LogDamaged, match=layout.FORMAT):
            Log.open(str(tmp_path), {}, msgspec.structs.replace(FORMAT, **other))
    assert snapshot(tmp_path) == before
    log = Log.open(str(tmp_path), {}, FORMAT)
    assert (log.index.last, path.read_bytes()) == (2, whole)
    assert [layout.FORMAT in warning for warning in log.warnings] == [True]
    driver.successor().check()


def test_a_lost_format_of_an_empty_log_is_refused(tmp_path: Path) -> None:
    """Without records nothing identifies the log's query."""
    Log.open(str(tmp_path), {}, FORMAT)
    (tmp_path / layout.FORMAT).unlink()
    with pytest.raises(LogDamaged, match=layout.FORMAT):
        Log.open(str(tmp_path), {}, FORMAT)
