"""`binshift run --autoscale`: a backlog is worked off in bounded epochs, and more workers come for it by themselves."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from runs import awaited, left, running, status

pytestmark = pytest.mark.cluster

HERE = Path(__file__).resolve().parent
FILES, ROWS_A_FILE = 400, 5_000


def test_a_backlog_brings_more_workers(tmp_path: Path) -> None:
    """One worker becomes more while epochs stay short; the reason is printed, and the API shows the load."""
    folder = tmp_path / "in"
    folder.mkdir()
    for number in range(FILES):
        ids = range(number * ROWS_A_FILE, (number + 1) * ROWS_A_FILE)
        pq.write_table(pa.table({"id": ids, "key": ids}), folder / f"{number:05}.parquet")
    options = ("--workers", "1", "--autoscale", "1:3", "--conf", "spark.binshift.maxEpoch=1s")
    program = str(HERE / "autoscaled_program.py")
    with running(tmp_path, program, *options, "--", str(folder), str(tmp_path / "checkpoint")) as process:

        def seen() -> Any:
            assert process.poll() is None, (tmp_path / "run.log").read_text(errors="replace")
            return status(tmp_path)["dataflow"]

        grown = awaited(seen, lambda seen: len(seen.get("workers", [])) > 1)
        assert grown["load"]["boundRows"] < FILES * ROWS_A_FILE / 2
        assert grown["load"]["epochsMeasured"] >= 8
        assert grown["load"]["secondsPerRow"] > 0
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=120) == 130
    printed = (tmp_path / "run.log").read_text(errors="replace")
    assert "autoscaled; why: 1 to " in printed
    assert left(tmp_path) == []
