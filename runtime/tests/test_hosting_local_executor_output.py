"""Executor output in the terminal of `binshift run`: that of this run, with its worker."""

from __future__ import annotations

from pathlib import Path

from binshift.hosting.local.terminal import ExecutorOutput


def executor(cluster: Path, worker: int, number: int) -> Path:
    """The folder of an executor."""
    folder = cluster / f"worker-{worker}" / "app-1" / str(number)
    folder.mkdir(parents=True)
    return folder


def test_lines_come_with_their_worker(tmp_path: Path) -> None:
    """This holds for existing and new workers, and for replaced executors; output of earlier runs is omitted."""
    (executor(tmp_path, 0, 0) / "stderr").write_text("of the run before\n")
    (tmp_path / "worker-0.log").write_text("Spark's own log\n")
    printed: list[tuple[str, str]] = []
    output = ExecutorOutput(tmp_path, lambda worker, line: printed.append((worker, line)))
    output.forward()
    assert printed == []
    (executor(tmp_path, 0, 1) / "stderr").write_text("here\n")
    (executor(tmp_path, 2, 0) / "stdout").write_bytes(b"caf\xe9 and\nmore\nnot yet")
    output.forward()
    output.forward()
    assert printed == [("worker-0", "here"), ("worker-2", "caf\N{REPLACEMENT CHARACTER} and"), ("worker-2", "more")]
