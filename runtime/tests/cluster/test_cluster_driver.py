"""If the driver's process is repeatedly killed by SIGKILL, its files are those of a run that never failed."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from counted import Answer, Outputs

from binshift.local import LocalCluster
from binshift.log.tools.inspect import verify

HERE = Path(__file__).parent
KILLS = 3
EPOCHS_BETWEEN = 3
TIMEOUT_SECONDS = 180.0


def finished(out: Path) -> list[int]:
    """Epochs whose files are complete."""
    return sorted(int(p.parent.name.removeprefix("epoch=")) for p in out.glob("epoch=*/_SUCCESS"))


def start(cluster: LocalCluster, folder: Path) -> subprocess.Popen[bytes]:
    """The program, in a separate process group."""
    arguments = [cluster.url, str(folder / "checkpoint"), str(folder / "out")]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(HERE), str(HERE.parent.parent)])}
    log = (folder / "program.log").open("ab")
    command = [sys.executable, str(HERE / "counted_program.py"), *arguments]
    return subprocess.Popen(command, stdout=log, stderr=log, env=environment, start_new_session=True)


def rows(path: Path) -> Answer:
    """The rows of one epoch's files."""
    table = pq.read_table(path).to_pylist()
    found = {(r["name"], r["grp"]): (r["n"], r["total"], r["min(value)"], r["most"]) for r in table}
    assert len(found) == len(table), f"{path} has a key twice"
    return found


@pytest.mark.cluster
@pytest.mark.oracle
@pytest.mark.parametrize("seed", [1, 2])
def test_killed_drivers_lose_nothing(seed: int, tmp_path: Path) -> None:
    """Three consecutive drivers are killed at random moments; the fourth one's files have every epoch exactly once."""
    chance = random.Random(seed)
    with LocalCluster(tmp_path / "cluster", workers=2) as cluster:
        for kill in range(KILLS + 1):
            program = start(cluster, tmp_path)
            try:
                wanted = (kill + 1) * EPOCHS_BETWEEN
                deadline = time.monotonic() + TIMEOUT_SECONDS
                while len(finished(tmp_path / "out")) < wanted:
                    log = (tmp_path / "program.log").read_text(errors="replace")[-3000:]
                    assert program.poll() is None, f"seed {seed}: the program ended by itself:\n{log}"
                    assert time.monotonic() < deadline, f"seed {seed}: no progress:\n{log}"
                    time.sleep(0.05)
                time.sleep(chance.random() * 0.5)  # the moment of the kill is the random input
            finally:
                os.killpg(program.pid, signal.SIGKILL)
                program.wait()
    last = finished(tmp_path / "out")[-1]
    outputs = Outputs()
    outputs.epochs = {epoch: rows(tmp_path / "out" / f"epoch={epoch}") for epoch in range(last + 1)}
    outputs.check(last, seed)
    findings = verify(str(tmp_path / "checkpoint" / "binshift"))
    assert not findings, findings
