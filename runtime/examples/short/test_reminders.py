"""Tests of a processor in milliseconds, without Spark: python -m pytest test_reminders.py"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from pyspark.sql import Row
from reminders import HALF_AN_HOUR_MS, Reminder

from binshift.testing import Dataflow, TwsTester

NOON = datetime(2024, 3, 1, 12, tzinfo=UTC)
NOON_MS = int(NOON.timestamp() * 1000)


def row(items: int) -> Any:
    """Some items are put into a cart at noon."""
    return Row(ts=NOON, cart="c1", items=items)


def one_cart() -> TwsTester:
    """The processor with one key at a time."""
    return TwsTester(Reminder(), timeMode="EventTime", eventTimeExtractor=lambda row: int(row.ts.timestamp() * 1000))


def test_an_idle_cart_is_reported() -> None:
    """Half an hour after its last row, with all its items."""
    tester = one_cart()
    tester.test("c1", [row(2), row(1)])
    assert tester.setWatermark(NOON_MS + HALF_AN_HOUR_MS - 1) == []
    assert tester.setWatermark(NOON_MS + HALF_AN_HOUR_MS) == [Row(cart="c1", items=3)]


def test_an_order_ends_the_timer() -> None:
    """Nothing is reported, and nothing is stored."""
    tester = one_cart()
    tester.test("c1", [row(2)])
    tester.test("c1", [row(-2)])
    assert tester.setWatermark(NOON_MS + 2 * HALF_AN_HOUR_MS) == []


def test_a_cart_is_reported_by_another_worker() -> None:
    """Its bin moves after its rows and before its timer."""
    flow = Dataflow(
        Reminder(),
        input="ts timestamp, cart string, items long",
        keys="cart",
        output="cart string, items long",
        time_mode="EventTime",
    )
    flow.epoch([(NOON, "c1", 2)], watermark_ms=0)
    flow.move(flow.bin_of("c1"), to=1 - flow.owners[flow.bin_of("c1")])
    assert flow.epoch([], watermark_ms=NOON_MS + HALF_AN_HOUR_MS) == [("c1", 2)]
