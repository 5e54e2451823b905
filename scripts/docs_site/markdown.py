"""Tables and code of generated pages."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import zip_longest


def cell(text: object) -> str:
    """Text in a cell of a table: on one line, and without markup other than code and links.

    >>> cell("a | b_, ``c|d_``\\n <d>")
    'a \\\\| b\\\\_, `c|d_` &lt;d>'
    """
    parts = re.split(r"(`[^`]*`|\[\w+\]\(#\w+\))", " ".join(str(text).split()).replace("``", "`"))
    plain = (re.sub(r"([|_*])", r"\\\1", part).replace("<", "&lt;") for part in parts[::2])
    return "".join(each for pair in zip_longest(plain, parts[1::2], fillvalue="") for each in pair)


def code(text: object) -> str:
    """Inline code; nothing for nothing.

    >>> code("a"), code("")
    ('`a`', '')
    """
    return f"`{text}`" if str(text) else ""


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A table.

    >>> print(table(["a", "b"], [[1, "x|y"]]), end="")
    | a | b |
    |---|---|
    | 1 | x\\|y |
    """
    lines = [head, ["---"] * len(head), *([cell(each) for each in row] for row in rows)]
    drawn = ["| " + " | ".join(line) + " |" for line in lines]
    drawn[1] = drawn[1].replace(" ", "")
    return "\n".join(drawn) + "\n"


def fenced(text: str, language: str = "text") -> str:
    """A block of code."""
    return f"```{language}\n{text.rstrip()}\n```\n"
