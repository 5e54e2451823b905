"""The reason of a program that only ends with an exit status."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from binshift.hosting.pod import program


class FakeChild:
    """Replaces the driver's side."""

    def __init__(self) -> None:
        self.ends: list[tuple[BaseException | None, str]] = []

    def ended(self, error: BaseException | None, text: str) -> None:
        self.ends.append((error, text))


@pytest.fixture(autouse=True)
def surroundings(monkeypatch: pytest.MonkeyPatch) -> None:
    """Restore everything that a program changes."""
    monkeypatch.setattr(sys, "argv", list(sys.argv))
    monkeypatch.setattr(sys, "path", list(sys.path))


def ended(tmp_path: Path, text: str) -> tuple[int, str]:
    """The status of a program, and the reported reason of its end."""
    child: Any = FakeChild()
    app = tmp_path / "app.py"
    app.write_text(text)
    status = program._run(app, [], child)
    [(_, reason)] = child.ends
    return status, reason


def test_what_it_said_last_is_its_reason(tmp_path: Path) -> None:
    """For example, argparse writes to standard error and exits; the end of a long text is kept."""
    parser = "import argparse, sys\nsys.stderr.write('x' * 9000)\n"
    parser += "made = argparse.ArgumentParser()\nmade.add_argument('--keys', required=True)\nmade.parse_args()"
    status, reason = ended(tmp_path, parser)
    assert status == 2
    assert reason.endswith("the following arguments are required: --keys")
    assert len(reason) < 2 * program.REMEMBERED_CHARACTERS


def test_an_exit_with_a_message_or_in_order(tmp_path: Path) -> None:
    """`sys.exit("why")` is the reason itself; a normal exit has none."""
    assert ended(tmp_path, "import sys; sys.exit('no input')") == (1, "no input")
    assert ended(tmp_path, "import sys; sys.stderr.write('a warning'); sys.exit(0)") == (0, "")
