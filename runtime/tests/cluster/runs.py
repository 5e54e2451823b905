"""`binshift run` in the background of a test, other commands at the same time, and what they leave behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import awaiting

WAIT_SECONDS = 180.0
awaited = partial(awaiting.awaited, seconds=WAIT_SECONDS)
MARK = "BINSHIFT_TEST_RUN"
"""In the environment of everything that a test's run starts, so that remaining processes can be found."""


def command(*arguments: str) -> list[str]:
    """A command line of `binshift`."""
    return [sys.executable, "-m", "binshift.cli", *arguments]


def environment(folder: Path) -> dict[str, str]:
    """A separate place for the run's folder, and a mark."""
    runs = folder / "runs"
    runs.mkdir(exist_ok=True)
    return dict(os.environ) | {"XDG_RUNTIME_DIR": str(runs), MARK: str(folder)}


def run_command(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """The result of a command in another shell."""
    return subprocess.run(command(*arguments), env=environment(folder), capture_output=True, text=True, timeout=300)


def left(folder: Path) -> list[str]:
    """The living processes with the mark of ``folder``."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                marked = f"{MARK}={folder}".encode() in (entry / "environ").read_bytes().split(b"\0")
                line = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            except OSError:
                continue
            if marked and line:
                found.append(f"{entry.name} {line[:200]}")
    return found


@contextmanager
def running(folder: Path, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    """`binshift run` in the background; its output is in ``run.log``."""
    with (folder / "run.log").open("wb") as out:
        # `binshift run` leaves SIGINT ignored if it was, as for tests that a shell runs in the background.
        line = ["env", "--default-signal=INT", *command("run", *arguments)]
        process = subprocess.Popen(line, env=environment(folder), stdout=out, stderr=out)
        try:
            yield process
        finally:
            if process.poll() is None:
                process.send_signal(signal.SIGINT)
                process.wait(timeout=120)


def status(folder: Path) -> Any:
    """`binshift status --output json`; stderr while there is no status yet."""
    answer = run_command(folder, "status", "--output", "json")
    return json.loads(answer.stdout) if answer.returncode == 0 else {"dataflow": {"epoch": -1}, "stderr": answer.stderr}
