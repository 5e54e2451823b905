"""Hot keys in the control API, its metrics and the commands, on a simulated cluster with the real engine and tasks."""

from __future__ import annotations

import re

import pytest
from control_simulated import BINS, World
from prometheus_client import generate_latest
from prometheus_client.registry import CollectorRegistry

from binshift.control.load_figures import HotKey
from binshift.engine.bin_records import COUNTED_EVERY_EPOCHS, RECORDS_MIN
from binshift.hosting.display import print_facts, speed_facts
from binshift.load import load_of_answer
from binshift.metrics import RuntimeMetrics
from binshift.model import Worker
from simulator import Row
from simulator.flows import bin_of

FEW = 2_500
"""Rows that are enough to name a key."""

HOT = "alice\N{SNOWMAN}[red]"


def skewed(records: int, share: float) -> list[Row]:
    """Rows of which one key has a share; the others have few each."""
    hot = int(share * records)
    keys = [HOT] * hot + [f"k{number % 500}" for number in range(records - hot)]
    return [{"key": key, "value": 1, "time": 0} for key in keys]


def counted_epoch(world: World, rows: list[Row]) -> None:
    """Epochs up to one in which tasks count, which has these rows."""
    while (world.query.epoch + 1) % COUNTED_EVERY_EPOCHS:
        world.epoch()
    world.cluster.epoch(rows)


def test_the_api_names_a_key_with_most_rows() -> None:
    """One key with seven tenths of the rows is named with its bin, its worker and its rate; so is its bin's share."""
    world = World()
    assert world.service.snapshot().hot_keys == []
    counted_epoch(world, skewed(RECORDS_MIN, 0.7))
    (found,) = world.service.snapshot().hot_keys
    bin, route = bin_of((HOT,), BINS), world.query.route
    assert (found.operator, found.key, found.bin, found.worker) == ("totals", HOT, bin, route.owner(bin))
    assert found.share == pytest.approx(0.7, abs=0.01)
    load = world.service.snapshot().load
    assert load is not None
    parsed = load_of_answer(load.model_dump(by_alias=True))
    assert parsed.hottest is not None
    assert parsed.hottest.key == HOT
    assert 0.7 <= parsed.hottest.share < 0.8


def test_a_hot_key_moves_with_its_bin_and_is_forgotten() -> None:
    """After a move, the new worker is named; without its records for some reports, the key is named no more."""
    world = World()
    counted_epoch(world, skewed(FEW, 0.7))
    (before,) = world.service.snapshot().hot_keys
    world.query.drain(Worker(before.worker))
    world.settle()
    counted_epoch(world, skewed(FEW, 0.7))
    (after,) = world.service.snapshot().hot_keys
    assert after.bin == before.bin
    assert after.worker == world.query.route.owner(before.bin) != before.worker
    for _ in range(3):
        counted_epoch(world, skewed(FEW, 0.0))
    assert world.service.snapshot().hot_keys == []


def test_evenly_spread_rows_name_no_key() -> None:
    """Many keys with few rows each are nothing to report."""
    world = World()
    counted_epoch(world, skewed(FEW, 0.0))
    assert world.service.snapshot().hot_keys == []
    assert dict(world.service.observed().hot_key_share) == {"totals": 0.0}


def test_metrics_have_the_share_but_not_the_key() -> None:
    """The label is the operator."""
    world = World()
    counted_epoch(world, skewed(RECORDS_MIN, 0.7))
    registry = CollectorRegistry()
    RuntimeMetrics(registry, world.service.epochs, world.service.observed)
    text = generate_latest(registry).decode()
    of_key = re.search(r'^binshift_hot_key_share\{operator="totals"\} (.*)$', text, re.MULTILINE)
    of_bin = re.search(r"^binshift_hottest_bin_share (.*)$", text, re.MULTILINE)
    assert of_key is not None
    assert of_bin is not None
    assert float(of_key[1]) == pytest.approx(0.7, abs=0.01)
    assert 0.7 <= float(of_bin[1]) < 0.8
    assert "alice" not in text


def test_the_status_shows_a_key_as_it_is(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Brackets in a key are no markup."""
    monkeypatch.setenv("COLUMNS", "200")
    world = World()
    key = HotKey(operator="op0", key=HOT, bin=7, worker=1, share=0.634, rows_per_second=6_340.0)
    print_facts(speed_facts(world.service.snapshot().model_copy(update={"hot_keys": [key]})))
    shown = f"'{HOT}' has 63% of the rows of op0, 6,340 rows/s; bin 7 on worker 1"
    assert shown in capsys.readouterr().out
