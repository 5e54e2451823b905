"""Executors' words where `binshift run` was typed: those of this run, with the worker that they are from."""

from __future__ import annotations

from pathlib import Path

from binshift.hosting.local.terminal import ExecutorOutput


def executor(cluster: Path, worker: int, number: int) -> Path:
    """The folder of an executor."""
    folder = cluster / f"worker-{worker}" / "app-1" / str(number)
    folder.mkdir(parents=True)
    return folder


def test_lines_come_with_their_worker(tmp_path: Path) -> None:
    """Of workers that are there and that come later, of executors that come after others; nothing of runs before."""
    (executor(tmp_path, 0, 0) / "stderr").write_text("of the run before\n")
    (tmp_path / "worker-0.log").write_text("Spark's own words\n")
    told: list[tuple[str, str]] = []
    words = ExecutorOutput(tmp_path, lambda worker, line: told.append((worker, line)))
    words.forward()
    assert told == []
    (executor(tmp_path, 0, 1) / "stderr").write_text("here\n")
    (executor(tmp_path, 2, 0) / "stdout").write_bytes(b"caf\xe9 and\nmore\nnot yet")
    words.forward()
    words.forward()
    assert told == [("worker-0", "here"), ("worker-2", "caf\N{REPLACEMENT CHARACTER} and"), ("worker-2", "more")]
