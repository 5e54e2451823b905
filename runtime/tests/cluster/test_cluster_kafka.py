"""Kafka to Kafka, through migrations and kills of executors and drivers: what a consumer of the output sees."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import pytest
from guide_code import functions
from kafka_broker import Broker, broker, connector_jars
from kafka_program import ROWS_AN_EPOCH
from process_tree import kill_executor

from binshift.local import LocalCluster
from binshift.log.tools.inspect import verify
from binshift.model import Worker
from binshift.spark.sinks.formats import EPOCH_HEADER

pytestmark = [pytest.mark.cluster, pytest.mark.oracle]

HERE = Path(__file__).parent
WORDS, WAVES, ROWS_A_WAVE = 97, 4, 4_000
TIMEOUT_SECONDS = 240.0

Totals = dict[str, tuple[int, int]]
"""By key: the number of rows, and the sum of their numbers."""


def wave(number: int) -> list[tuple[str, str]]:
    """The rows of one wave of input."""
    rows = range(number * ROWS_A_WAVE, (number + 1) * ROWS_A_WAVE)
    return [(f"w{row * 7919 % WORDS}", str(row)) for row in rows]


def totals(waves: int) -> Totals:
    """The correct counts of the query after this many waves."""
    found: dict[str, list[int]] = defaultdict(list)
    for number in range(waves):
        for word, value in wave(number):
            found[word].append(int(value))
    return {word: (len(values), sum(values)) for word, values in found.items()}


def start(cluster: LocalCluster, folder: Path, servers: str, jars: str) -> subprocess.Popen[bytes]:
    """The program, in a separate process group."""
    environment = os.environ | {"PYTHONPATH": str(HERE.parent.parent)}
    command = [sys.executable, str(HERE / "kafka_program.py"), cluster.url, str(folder / "checkpoint"), servers, jars]
    with (folder / "program.log").open("ab") as log:
        return subprocess.Popen(command, stdout=log, stderr=log, env=environment, start_new_session=True)


def newest(records: Sequence[tuple[int, str, str]]) -> Totals:
    """By key: the value in its newest epoch."""
    found: dict[str, tuple[int, str]] = {}
    for epoch, word, value in records:
        found[word] = max(found.get(word, (-1, "")), (epoch, value))
    return {word: (int(v.split(",")[0]), int(v.split(",")[1])) for word, (_, v) in found.items()}


def _more_than(kafka: Broker, before: int) -> bool:
    return len(kafka.read("out")) > before


def _complete(kafka: Broker, waves: int) -> bool:
    return newest(seen(kafka)) == totals(waves)


@pytest.mark.parametrize("seed", [1])
def test_a_consumer_can_detect_every_duplicate(seed: int, tmp_path: Path) -> None:
    """State is exactly-once; the output of an epoch may be repeated, with the same values under the same epoch and key."""
    chance, jars, half = random.Random(seed), connector_jars(), ROWS_A_WAVE // 2
    with broker(tmp_path / "kafka") as kafka, LocalCluster(tmp_path / "cluster", workers=3) as cluster:
        kafka.create("in", 3)
        kafka.create("out", 2)
        kafka.send("in", wave(0)[:half])
        for number in range(WAVES):
            program = start(cluster, tmp_path, kafka.servers, jars)
            try:
                kafka.send("in", wave(number)[half:])
                if number % 2:
                    before = len(kafka.read("out"))
                    _await(partial(_more_than, kafka, before), program, tmp_path, seed)
                    kill_executor(cluster, Worker(chance.randrange(2)))
                _await(partial(_complete, kafka, number + 1), program, tmp_path, seed)
                if number + 1 < WAVES:
                    kafka.send("in", wave(number + 1)[:half])
                    time.sleep(chance.random())  # the moment of the kill is the random input
            finally:
                os.killpg(program.pid, signal.SIGKILL)
                program.wait()
        check(seen(kafka))
        assert kept(kafka) == totals(WAVES)
    assert "settled" in (tmp_path / "program.log").read_text(errors="replace"), "no migration took place"
    findings = verify(str(tmp_path / "checkpoint" / "binshift"))
    assert not findings, findings


def seen(kafka: Broker) -> list[tuple[int, str, str]]:
    """(epoch, key, value) of every record of the output."""
    return [(int(record.headers[EPOCH_HEADER]), record.key, record.value) for record in kafka.read("out")]


def kept(kafka: Broker) -> Totals:
    """The totals of a consumer that follows the guide for results."""
    return newest([(epoch, word, value) for word, (epoch, value) in guide_table(kafka, "out").items()])


def guide_table(kafka: Broker, topic: str) -> dict[str, tuple[int, str]]:
    """By key: epoch and value in the table of a consumer that follows the guide for results."""
    take, table = functions("results.md")["take"], dict[str, tuple[int, str]]()
    for record in kafka.read(topic):
        take(table, record.key, record.value, list(record.headers.items()))
    return table


def check(records: Sequence[tuple[int, str, str]]) -> None:
    """Every epoch and key has one value, however often it was sent; and no epoch counted more rows than it could have read."""
    values: dict[tuple[int, str], set[str]] = defaultdict(set)
    for epoch, word, value in records:
        values[epoch, word].add(value)
    torn = {key: found for key, found in values.items() if len(found) > 1}
    assert not torn, f"a repeated epoch has other values: {torn}"
    counted: dict[str, int] = defaultdict(int)
    fresh: dict[int, int] = defaultdict(int)
    for (epoch, word), (value,) in sorted(values.items()):
        count = int(value.partition(",")[0])
        fresh[epoch] += count - counted[word]
        counted[word] = count
    assert all(0 < rows <= ROWS_AN_EPOCH for rows in fresh.values()), fresh
    assert sum(fresh.values()) == WAVES * ROWS_A_WAVE


def _await(condition: Callable[[], bool], program: subprocess.Popen[bytes], folder: Path, seed: int) -> None:
    deadline = time.monotonic() + TIMEOUT_SECONDS
    while not condition():
        log = (folder / "program.log").read_text(errors="replace")[-3000:]
        assert program.poll() is None, f"seed {seed}: the program ended by itself:\n{log}"
        assert time.monotonic() < deadline, f"seed {seed}: no progress:\n{log}"
        time.sleep(0.2)
