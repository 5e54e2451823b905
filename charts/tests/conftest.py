"""Where helm and promtool are, and what other tests know of metrics and pods."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
collect_ignore = ["conftest.py"]
"""Of doctests: there is one conftest.py a folder, and as modules they would have one name."""

# A query of which everything is measured, and the pods of a dataflow.
sys.path += [str(ROOT / "runtime" / "tests"), str(ROOT / "operator" / "tests")]


def tool(name: str) -> str:
    """The path of a program that is built from source, at once if it has been."""
    command = [ROOT / "e2e" / "cluster" / "cluster.sh", "tool", name]
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout.strip()


@pytest.fixture(scope="session")
def helm() -> str:
    """helm's path."""
    return tool("helm")


@pytest.fixture(scope="session")
def promtool() -> str:
    """promtool's path."""
    return tool("promtool")
