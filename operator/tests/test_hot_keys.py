"""Hot keys in a simulated cluster: they are in the status and in events, and limit autoscaling."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from sim_load import LoadedCluster, started

from binshift.load import KEY_CHARACTERS_MAX
from binshift_operator.driver_answers import parse_runtime
from binshift_operator.model.status import HOT_KEYS_MAX, HotKey

KEY = "alice's"


def hot(share: float, key: str = KEY, operator: str = "op0") -> dict[str, Any]:
    """A hot key as the driver reports it."""
    return {"operator": operator, "key": key, "bin": 7, "worker": 1, "share": share, "rowsPerSecond": 5.0}


def events(cluster: LoadedCluster, reason: str) -> list[str]:
    """The messages of events with that reason, once for each time."""
    found = [each for (kind, _, _), each in cluster.server.objects.items() if kind == "Event"]
    return [each["message"] for each in found if each["reason"] == reason for _ in range(each["count"])]


def test_hot_keys_are_in_the_status_and_in_an_event() -> None:
    """A key that becomes hot has one event; so has the end of the last one. A share that varies a little changes nothing."""
    cluster = started(2, mode="Recommend")
    cluster.run(5)
    assert "hotKeys" not in cluster.status
    for percent in (63, 62, 65, 61, 63):
        cluster.hot_keys = (hot(percent / 100),)
        cluster.run(3)
        assert cluster.status["hotKeys"] == [{"operator": "op0", "key": KEY, "percent": 63, "bin": 7, "worker": 1}]
    message = f"key {KEY!r} has 63 % of the rows of op0, in bin 7 on executor 1: "
    message += "unless the operator aggregates, more executors than 2 do not help"
    assert events(cluster, "HotKey") == [message]
    cluster.hot_keys = (hot(0.5), hot(0.3, "bob"))
    cluster.run(3)
    assert [(each["key"], each["percent"]) for each in cluster.status["hotKeys"]] == [(KEY, 50), ("bob", 30)]
    assert len(events(cluster, "HotKey")) == 2
    assert events(cluster, "NoHotKey") == []
    cluster.hot_keys = ()
    cluster.run(3)
    assert "hotKeys" not in cluster.status
    assert len(events(cluster, "NoHotKey")) == 1


def test_they_stay_while_the_driver_is_silent() -> None:
    """What is not known is no change, also for an operator that has restarted."""
    cluster = started(2, mode="Recommend")
    cluster.hot_keys = (hot(0.63),)
    cluster.run(5)
    cluster.restart_operator()
    (query,) = cluster.queries.values()
    query.state = "Loading"
    cluster.run(1)
    assert [each["key"] for each in cluster.status["hotKeys"]] == [KEY]
    cluster.converge()
    assert len(events(cluster, "HotKey")) == 1


def test_autoscaling_ends_at_a_hot_key(caplog: pytest.LogCaptureFixture) -> None:
    """Executors are as many as help; the condition and an event name the key, which no log line has."""
    caplog.set_level(logging.INFO)
    cluster = started()
    cluster.hottest, cluster.key, cluster.hot_keys = 0.63, KEY, (hot(0.63),)
    cluster.rate = 5_000.0
    cluster.until(lambda: cluster.condition("ScalingLimited") == ("True", "Ineffective"))
    cluster.run(120)
    assert cluster.holding == cluster.scaling["desiredReplicas"] == cluster.scaling["recommendedReplicas"] == 2
    (message,) = events(cluster, "ScalingIneffective")
    assert f"one bin has 63% of the rows: more workers than 2 do not help; its key is {KEY!r}" in message
    limited = next(each for each in cluster.status["conditions"] if each["type"] == "ScalingLimited")
    assert repr(KEY) in limited["message"]
    assert {"HotKey", "ScalingIneffective"} <= {getattr(each, "reason", "") for each in caplog.records}
    assert KEY not in caplog.text


def test_what_a_driver_reports_is_bounded() -> None:
    """Any number of keys, of any length; a driver that reports none."""
    many = [hot(0.5, f"{number}" * 1000, "op" * 1000) for number in range(10, 99)]
    found = parse_runtime({"state": "Running", "hotKeys": many}).hot_keys
    assert len(found) == HOT_KEYS_MAX
    assert all(len(each.key) <= KEY_CHARACTERS_MAX and len(each.operator) <= 64 for each in found)
    assert parse_runtime({"state": "Running"}).hot_keys == ()
    assert parse_runtime({"state": "Running", "hotKeys": [hot(0.0), hot(float("nan"))]}).hot_keys == ()
    (small,) = parse_runtime({"state": "Running", "hotKeys": [hot(0.000512)]}).hot_keys
    assert (small.percent, small.executors_max) == (0.051, 1961)
    assert parse_runtime({"state": "Running", "hotKeys": [hot(0.5)]}).hot_keys == (HotKey("op0", KEY, 50, 7, 1),)
