"""helm and promtool, built from source where they are not there yet."""

from __future__ import annotations

import functools
import subprocess
from pathlib import Path

NODE = Path(__file__).resolve().parents[2] / "e2e" / "cluster" / "cluster.sh"


@functools.cache
def tool(name: str) -> str:
    """The path of a program."""
    return subprocess.run([NODE, "tool", name], stdout=subprocess.PIPE, text=True, check=True).stdout.strip()
