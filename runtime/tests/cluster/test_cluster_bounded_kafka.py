"""Bounded epochs of a Kafka source: a new query and one that returns after an outage both begin with a short epoch."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from kafka_broker import broker, connector_jars

from binshift.epoch_costs import FIRST_ROWS
from binshift.local import LocalCluster

pytestmark = [pytest.mark.cluster, pytest.mark.oracle]

HERE = Path(__file__).parent
ROWS, PART, KEYS = 150_000, 50_000, 50


def test_a_backlog_in_kafka_is_worked_off_in_short_epochs(tmp_path: Path) -> None:
    """The source knows how far it is behind; every row is counted once, and no epoch takes more than its bound."""
    jars = connector_jars()
    with broker(tmp_path / "kafka") as kafka, LocalCluster(tmp_path / "cluster", workers=2, cores=3) as cluster:
        kafka.create("in", 3)
        for time in (1, 2):
            for first in range(0, ROWS, PART):
                kafka.send("in", [(f"k{number % KEYS}", str(number)) for number in range(first, first + PART)])
            seen = _run(cluster.url, tmp_path / "checkpoint", kafka.servers, jars)
            rows, behind = [each[0] for each in seen["epochs"]], [each[1] for each in seen["epochs"]]
            assert seen["counted"] == {f"k{key}": time * ROWS // KEYS for key in range(KEYS)}
            assert ROWS / 2 < sum(rows) < ROWS, "Spark reports the last epoch when it has ended"
            assert 0 < rows[0] <= 2 * FIRST_ROWS, "the first epoch took more than its bound"
            assert all(bound is None or taken <= bound for taken, _, bound in seen["epochs"])
            assert behind[0] == pytest.approx(ROWS - rows[0], abs=3)
            assert behind == sorted(behind, reverse=True)
            assert behind[-1] == pytest.approx(ROWS - sum(rows), abs=3)


def _run(master: str, checkpoint: Path, servers: str, jars: str) -> Any:
    """The program's line."""
    environment = os.environ | {"PYTHONPATH": f"{HERE.parent.parent}:{HERE}"}
    command = [sys.executable, str(HERE / "bounded_kafka_program.py"), master, str(checkpoint), servers, jars]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])
