"""A small disk to fill and to write-protect: a tmpfs, if mounting is permitted."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

BALLAST = "ballast"
MIB = 1 << 20


@dataclass
class SmallDisk:
    """A mounted disk.

    Attributes:
        path: its mount point.
    """

    path: Path

    def fill(self, leave_bytes: int = 0) -> None:
        """Use all free space except ``leave_bytes``."""
        with (self.path / BALLAST).open("ab", buffering=0) as file:
            while (take := min(MIB, self.free() - leave_bytes)) > 0:
                file.write(bytes(take))

    def empty(self) -> None:
        """Free the space again."""
        (self.path / BALLAST).unlink(missing_ok=True)

    def free(self) -> int:
        """Bytes."""
        found = os.statvfs(self.path)
        return found.f_bavail * found.f_frsize

    def protect(self, *, on: bool) -> None:
        """Write-protect the disk, or make it writable again."""
        subprocess.run(["mount", "-o", f"remount,{'ro' if on else 'rw'}", str(self.path)], check=True)


@contextmanager
def small_disk(path: Path, mib: int) -> Iterator[SmallDisk]:
    """A disk of this size at ``path``; skips the test if mounting is not permitted."""
    path.mkdir(parents=True)
    command = ["mount", "-t", "tmpfs", "-o", f"size={mib}m", "tmpfs", str(path)]
    try:
        mounted = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        pytest.skip("there is no mount command here")
    if mounted.returncode:
        pytest.skip(f"mounting is not permitted here: {mounted.stderr.strip()}")
    try:
        yield SmallDisk(path)
    finally:
        subprocess.run(["umount", "-l", str(path)], check=True)
