"""A faulty disk: a folder mounted through FUSE that is slow, hangs or fails on request."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from ctypes.util import find_library
from dataclasses import dataclass
from pathlib import Path

import pytest

SERVER = Path(__file__).with_name("faulty_disk_server.py")
MOUNTED_SECONDS = 30.0


@dataclass
class FaultyDisk:
    """A mounted disk without faults at first.

    Attributes:
        path: its mount point.
    """

    path: Path
    _fault: Path

    def slow(self, seconds: float) -> None:
        """Delay each call by this many seconds from now on."""
        self._set_fault(seconds)

    def stand_still(self) -> None:
        """Answer no call until another fault, or none, is set; then answer the waiting calls, too."""
        self._set_fault(None)

    def refuse(self, error: str, *calls: str) -> None:
        """Let these calls, or all, fail with the named error; with EROFS all calls that change something."""
        self._set_fault(0, error, *calls)

    def repair(self) -> None:
        """Remove all faults."""
        self._set_fault(0)

    def _set_fault(self, seconds: float | None, error: str | None = None, *calls: str) -> None:
        fresh = self._fault.with_suffix(".fresh")
        fresh.write_text(json.dumps([seconds, error, calls]))
        fresh.replace(self._fault)


@contextmanager
def faulty_disk(path: Path) -> Iterator[FaultyDisk]:
    """A disk at ``path``; skips the test if FUSE is not permitted."""
    if os.geteuid() != 0 or not os.access("/dev/fuse", os.W_OK):
        pytest.skip("mounting by FUSE requires root here")
    if not (find_library("fuse3") or find_library("fuse")):
        pytest.skip("libfuse is not installed (Debian's package libfuse3-3)")
    behind, fault = path.with_name(f"{path.name}-behind"), path.with_name(f"{path.name}-fault")
    for folder in (path, behind):
        folder.mkdir(parents=True)
    disk = FaultyDisk(path, fault)
    disk.repair()
    command = [sys.executable, str(SERVER), str(behind), str(path), str(fault)]
    with subprocess.Popen(command) as server:
        try:
            _await_mount(server, path)
            yield disk
        finally:
            disk.repair()
            subprocess.run(["umount", "-l", str(path)], check=server.poll() is None)
            server.kill()  # executors may still have stores open there


def _await_mount(server: subprocess.Popen[bytes], path: Path) -> None:
    deadline = time.monotonic() + MOUNTED_SECONDS
    while not path.is_mount():
        assert server.poll() is None, f"{SERVER.name} ended with {server.returncode}: see above"
        assert time.monotonic() < deadline, f"{path} was not mounted within {MOUNTED_SECONDS:g} s"
        time.sleep(0.05)
