"""Wheel and sdist of the last commit: built twice, they are equal, and they have the files that they should have."""

from __future__ import annotations

import sys
import zipfile
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[2] / "scripts"))

import build_dist


def test_two_builds_are_equal(tmp_path: Path) -> None:
    """From two folders with different times and modes come the same bytes; Java sources are in the wheel, tests are not."""
    commit = build_dist.last_commit()
    sdist, wheel = sorted(build_dist.built_twice(tmp_path, commit), key=lambda path: path.suffix)
    build_dist.check_contents(wheel, sdist, commit)
    with zipfile.ZipFile(wheel) as packed:
        names = packed.namelist()
    assert sum(name.endswith(".java") for name in names) >= 10
    assert "binshift/hosting/pod/executor-log4j2.properties" in names
    tests = [name for name in names if "/test_" in name and name.endswith(".py")]
    assert tests + [name for name in names if "simulator" in name or "flights" in name] == []
