"""The list of cluster tests in every check names tests that exist."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from cluster_core import CORE

CLUSTER = Path(__file__).parent / "cluster"


def test_each_entry_names_a_test() -> None:
    """A test that is renamed is renamed in the list as well, and does not leave the check unnoticed."""
    line = [sys.executable, "-m", "pytest", str(CLUSTER), "--collect-only", "-q", "-m", "core"]
    found = subprocess.run(line, capture_output=True, text=True, check=True).stdout.splitlines()
    missing = [
        f"{module} {part}"
        for module, parts in CORE.items()
        for part in parts
        if not any(f"/{module}.py::" in each and part in each.partition("::")[2] for each in found)
    ]
    assert missing == []
