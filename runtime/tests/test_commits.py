"""Checks the subjects of commits: conventional, and short enough for one line of a log.

The rule applies to commits after `SINCE`. An export without history, or a shallow clone, has nothing to check.
"""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SINCE = "d1fdaf64a4fe"
"""The last commit before the rule was checked."""
TYPES = "build|chore|ci|docs|feat|fix|perf|refactor|revert|style|test"
SUBJECT = re.compile(rf"(?=.{{1,72}}$)(?:Merge .+|Revert .+|(?:{TYPES})(?:\([a-z0-9, /_-]+\))?!?: \S.*)")


def _git(*arguments: str) -> str:
    done = subprocess.run(["git", "-C", str(ROOT), *arguments], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        pytest.skip(f"no history to check: {done.stderr.strip()}")
    return done.stdout


def test_subjects_are_conventional() -> None:
    """Each commit's subject is `type(scope): what changed`, in at most 72 characters."""
    subjects = _git("log", "--format=%h %s", f"{SINCE}..HEAD").splitlines()
    assert [line for line in subjects if not SUBJECT.fullmatch(line.partition(" ")[2])] == []


@pytest.mark.parametrize(
    ("subject", "accepted"),
    [
        ("fix(log): a torn manifest is read again", True),
        ("feat!: one API", True),
        ("Merge branch 'store'", True),
        ("bench: plots", False),
        ("Fix the log", False),
        ("docs: " + "x" * 67, False),
    ],
)
def test_the_pattern(subject: str, accepted: bool) -> None:
    """The pattern accepts conventional subjects and merges, and refuses other types, free text and long lines."""
    assert bool(SUBJECT.fullmatch(subject)) == accepted
