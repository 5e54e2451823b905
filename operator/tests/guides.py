"""The guides as data: their commands as a user would type them, their tables, and inline code.

Knows markdown and the shell's way of splitting arguments, and nothing of what the commands mean (`guide_grammar`). The end-to-end story
runs the same commands.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "docs" / "guides"
GUIDES = sorted(path.name for path in FOLDER.glob("*.md"))
TOOLS = ("binshift", "helm", "kubectl")
"""Commands that are held against what they would find."""

_BLOCK = re.compile(r"^```sh\n(.*?)^```", re.MULTILINE | re.DOTALL)
_CODE = re.compile(r"`([^`\n]+)`")
_INNER = re.compile(r"\$\(((?:kubectl|helm|binshift) .*)\)")


def text(guide: str) -> str:
    """A guide's markdown."""
    return (FOLDER / guide).read_text(encoding="utf-8")


def lines(markdown: str) -> list[str]:
    """The commands of all sh blocks, in order, a line each."""
    joined = "".join(block.replace("\\\n", " ") for block in _BLOCK.findall(markdown))
    return [line for line in joined.splitlines() if line.strip() and not line.startswith("#")]


def spans(markdown: str) -> list[str]:
    """What is set in code within sentences and tables."""
    prose = re.sub(r"^```.*?^```", "", markdown, flags=re.MULTILINE | re.DOTALL)
    return _CODE.findall(prose)


def commands(markdown: str) -> Iterator[list[str]]:
    """The arguments of every command up to a pipe: of blocks, of code in sentences, and of commands within commands."""
    shown = [span for span in spans(markdown) if span.split()[0] in TOOLS and " " in span]
    for line in [*lines(markdown), *shown]:
        arguments = shlex.split(line)
        yield arguments[: arguments.index("|")] if "|" in arguments else arguments
        for word in arguments:
            for inner in _INNER.findall(word):
                yield shlex.split(inner)


def tables(markdown: str) -> dict[str, list[list[str]]]:
    """The tables by the heading that they are under and their first column's; rows without the heading."""
    found: dict[str, list[list[str]]] = {}
    heading, rows = "", None
    for line in markdown.splitlines():
        if line.startswith("## "):
            heading = line.removeprefix("## ")
        if not line.startswith("|"):
            rows = None
        elif rows is None:
            rows = found.setdefault(heading, [])
        elif not line.startswith("|---"):
            rows.append([cell.strip() for cell in line.strip("|").split("|")])
    return found
