"""`binshift run` as users have it: one process that runs, others that control it, and nothing left when it ends."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Any

import pytest
from runs import WAIT_SECONDS, awaited, left, run_command, running, status

pytestmark = pytest.mark.cluster

HERE = Path(__file__).resolve().parent


def test_a_run_is_scaled_and_ends_without_a_trace(tmp_path: Path) -> None:
    """Two workers become three from another shell; Ctrl-C finishes the epoch and leaves no process and no folder."""
    program = str(HERE / "steered_program.py")
    with running(tmp_path, program, "--workers", "2", "--", str(tmp_path / "checkpoint")) as process:

        def seen() -> Any:
            assert process.poll() is None, (tmp_path / "run.log").read_text(errors="replace")
            return status(tmp_path)

        before = awaited(seen, lambda seen: seen["dataflow"]["epoch"] >= 1)
        assert before["dataflow"]["workers"] == [0, 1]
        (state,) = (tmp_path / "runs" / "binshift").glob("*/run.json")
        assert (state.stat().st_mode & 0o777, state.parent.stat().st_mode & 0o777) == (0o600, 0o700)

        scaled = run_command(tmp_path, "scale", "3", "--strategy", "Fluid", "--wait", "--output", "json")
        assert scaled.returncode == 0, scaled.stderr
        after = status(tmp_path)
        assert after["dataflow"]["workers"] == [0, 1, 2]
        assert (after["desiredScale"]["count"], after["dataflow"]["target"]["owner"]) == (3, "local")
        assert after["dataflow"]["target"]["strategy"] == "Fluid"
        owners = {
            each["worker"] for each in json.loads(run_command(tmp_path, "bins", "--output", "json").stdout)["bins"]
        }
        assert owners == {0, 1, 2}
        assert "settled" in run_command(tmp_path, "migrations").stdout

        printed = (tmp_path / "run.log").read_text(errors="replace").splitlines()
        assert {"worker-0: a row without a name", "worker-1: a row without a name"} & set(printed)

        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=120) == 130
    assert left(tmp_path) == []
    assert not state.parent.exists()
    assert "nothing is running" in run_command(tmp_path, "status").stderr
    verified = run_command(tmp_path, "log", "verify", str(tmp_path / "checkpoint" / "binshift"))
    assert verified.returncode == 0, verified.stdout + verified.stderr


def test_a_program_with_a_master_of_its_own_is_refused(tmp_path: Path) -> None:
    """`binshift run` ends with the end of the program's traceback, with the master's name, and with the program's status."""
    program = tmp_path / "own.py"
    text = (
        (HERE / "steered_program.py")
        .read_text()
        .replace("builder.getOrCreate", 'builder.master("local[2]").getOrCreate')
    )
    program.write_text(text.replace("import sys\n", f"import sys\nsys.path.insert(0, {str(HERE)!r})\n"))
    with running(tmp_path, str(program), "--workers", "1", "--", str(tmp_path / "checkpoint")) as process:
        assert process.wait(timeout=WAIT_SECONDS) == 1
    printed = (tmp_path / "run.log").read_text(errors="replace").rstrip().splitlines()
    assert "the program chose the master 'local[2]'" in printed[-1]
    assert left(tmp_path) == []
