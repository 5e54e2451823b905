"""Two stateful queries in one application."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from binshift.local import LocalCluster

pytestmark = pytest.mark.cluster

HERE = Path(__file__).parent
PATIENCE_SECONDS = 540


def test_two_queries_run_and_are_rescaled_each_by_itself(tmp_path: Path) -> None:
    """Every epoch of both is correct while each moves independently, one is restarted, and both share a target."""
    with LocalCluster(tmp_path / "cluster", workers=3, cores=4) as cluster, (tmp_path / "log").open("wb") as log:
        command = [sys.executable, str(HERE / "two_queries_program.py"), cluster.url, str(tmp_path / "checkpoints")]
        path = os.pathsep.join(str(folder) for folder in (HERE, HERE.parent, HERE.parent.parent))
        program = subprocess.Popen(
            [*command, json.dumps(cluster.conf())], env=os.environ | {"PYTHONPATH": path}, stdout=log, stderr=log
        )
        try:
            program.wait(PATIENCE_SECONDS)
        except subprocess.TimeoutExpired:
            program.kill()
        status = program.wait()
    assert status == 0, (tmp_path / "log").read_text(errors="replace")[-6000:]
