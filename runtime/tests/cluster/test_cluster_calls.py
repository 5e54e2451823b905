"""How often the driver's Python calls the JVM in an epoch: the plan is compiled once, and an epoch does not walk over it."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

import pytest
from engines import TIMES, ours, put, run, source
from py4j.java_gateway import GatewayClient
from py4j.protocol import CALL_COMMAND_NAME, MEMORY_COMMAND_NAME
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

pytestmark = pytest.mark.cluster

STAGE_CALLS_MAX = 20
"""Calls that a further stage may add to an epoch."""
BY_TIME = {"wakeUp", "report"}
"""Calls that not every epoch makes: wake-ups when a round or a timer is due, and reports of the input at most once in a period."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Some files, each a batch."""
    into = tmp_path_factory.mktemp("calls") / "in"
    for batch, seconds in enumerate(TIMES):
        put(into, batch, seconds)
    return into


def narrow(frame: DataFrame) -> DataFrame:
    """One function."""
    return frame.withWatermark("ts", "5 seconds").groupBy(F.window("ts", "10 seconds").alias("w")).agg(F.count("*"))


def wide(frame: DataFrame) -> DataFrame:
    """Many functions and expressions."""
    grouped = frame.withWatermark("ts", "5 seconds").groupBy(F.window("ts", "10 seconds").alias("w"))
    counts = grouped.agg(F.count("*"), *(F.sum(F.col("k") * at + 1).alias(f"s{at}") for at in range(25)))
    return counts.select("*", *((F.col(f"s{at}") % 7 + F.length(F.lit("x"))).alias(f"t{at}") for at in range(25)))


def two_stages(frame: DataFrame) -> DataFrame:
    """Windows over windows."""
    return narrow(frame).groupBy(F.window(F.window_time("w"), "20 seconds")).agg(F.count("*"))


def test_an_epoch_makes_the_same_calls_for_every_plan(
    session: SparkSession, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their number depends on the stages, and neither on what is in them nor on the number of earlier epochs."""
    found = {
        each: calls(each(source(session, folder)), tmp_path / each.__name__, monkeypatch)
        for each in (narrow, wide, two_stages)
    }
    calm = {each: median(counts) for each, counts in found.items()}
    assert calm[wide] == calm[narrow], found
    assert calm[two_stages] <= calm[narrow] + STAGE_CALLS_MAX
    for counts in found.values():
        assert max(counts[-4:]) <= max(counts[:4])


def calls(frame: DataFrame, checkpoint: Path, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The calls of each epoch after the second, up to the next one's sink."""
    counted, seen = Counter[int](), []
    send: Callable[..., Any] = GatewayClient.send_command

    def counting(client: GatewayClient, command: str, *given: Any, **named: Any) -> Any:
        if not command.startswith(MEMORY_COMMAND_NAME):  # of objects that Python no longer needs
            kind, *rest = command.splitlines()
            counted[threading.get_ident()] += not (kind == CALL_COMMAND_NAME.strip() and rest[1] in BY_TIME)
        return send(client, command, *given, **named)

    def sink(batch: DataFrame, number: int) -> None:
        batch.write.format("noop").mode("append").save()
        seen.append(counted[threading.get_ident()])

    with monkeypatch.context() as patched:
        patched.setattr(GatewayClient, "send_command", counting)
        run(ours(frame), checkpoint, sink, "append")
    return [after - before for before, after in pairwise(seen[1:])]
