"""The terminal of `binshift run` with the program of `binshift init`: a bounded number of lines, none at INFO, no traceback at its end."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest
from runs import awaited, left, run_command, running

LINES_MAX = 30
"""About twelve lines of its own, and a few warnings of Spark at most."""


@pytest.mark.cluster
def test_the_terminal_is_quiet(tmp_path: Path) -> None:
    """Start, a rescale and Ctrl-C print few lines: no INFO, no traceback, and one reference to the folder of Spark's logs."""
    cluster, output, program = tmp_path / "cluster", tmp_path / "output", tmp_path / "clicks" / "program.py"
    assert run_command(tmp_path, "init", str(program.parent)).returncode == 0
    with running(tmp_path, str(program), "--directory", str(cluster), "--", str(output)) as process:
        awaited(lambda: (output / "epoch=5").exists(), bool)
        scaled = run_command(tmp_path, "scale", "1", "--wait")
        assert scaled.returncode == 0, scaled.stderr
        process.send_signal(signal.SIGINT)
        assert process.wait(120) == 130
    lines = (tmp_path / "run.log").read_text(errors="replace").splitlines()
    printed = "\n".join(lines)
    assert len(lines) <= LINES_MAX, printed
    assert " INFO " not in printed, printed
    assert "log level" not in printed, printed
    assert "Traceback" not in printed, printed
    assert printed.count(f"logs: {cluster}") == 1, printed
    assert "bins; workers: [0, 1]" in printed, printed
    assert "migration settled" in printed, printed
    assert any(" INFO " in each.read_text(errors="replace") for each in cluster.glob("worker-*/app-*/*/spark.log"))
    assert not any(" INFO " in each.read_text(errors="replace") for each in cluster.glob("worker-*/app-*/*/stderr"))
    assert (cluster / "driver.log").exists()
    assert left(tmp_path) == []
