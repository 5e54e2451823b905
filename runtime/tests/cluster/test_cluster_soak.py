"""A long run with random faults: the result is correct at its end, and nothing has grown. `make soak` makes it long."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from soak import Soak

from binshift.local import LocalCluster
from binshift.log.tools.inspect import verify

SECONDS = float(os.environ.get("SOAK_SECONDS", "90"))
SEED = int(os.environ.get("SOAK_SEED", "0")) or int(time.time())

pytestmark = [pytest.mark.cluster, pytest.mark.campaign, pytest.mark.timeout(SECONDS + 900)]


def test_nothing_grows(
    cluster: LocalCluster, session: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With random moves, kills and load changes, every epoch is correct, every bin can be rebuilt, and every figure is flat."""
    with capsys.disabled():
        sys.stdout.write(f"\nsoak: SOAK_SEED={SEED} SOAK_SECONDS={SECONDS:.0f}\n")
        soak = Soak(SEED, cluster, session, tmp_path / "checkpoint")
        soak.run(SECONDS)
        sys.stdout.write(soak.summary(SECONDS) + "\n")
    assert verify(str(tmp_path / "checkpoint" / "binshift")) == []
    grows = [name for name, _, _, _, flat in soak.samples.verdict(SECONDS) if not flat]
    assert grows == [], f"seed {SEED}:\n{soak.samples.table(SECONDS)}"
