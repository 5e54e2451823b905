"""Shortens the end of a program's output to its cause: what was raised, and where.

A condition has room for a thousand characters, and a traceback has more: cut to that, it may lack the very line that matters.
"""

from __future__ import annotations

import re
from typing import Final

from binshift_operator.model.messages import CUT

FRAME: Final = re.compile(r'\s+File ".*", line \d+|\s+at \S+\(.*\)$|\s+\.\.\. \d+ more$')
"""A frame of Python or Java."""
BETWEEN: Final = re.compile(
    r"Traceback \(most recent call last\):|The above exception was the direct cause|During handling of the above exception"
)
"""Lines that only introduce another part of a traceback."""


def cause_first(text: str) -> str:
    """A text in which each traceback has its last frame only; an exception at the end of the text is moved to its beginning.

    >>> traceback = "  File 'a'".replace("'", '"') + ", line 1, in f" + chr(10) + "    f()" + chr(10)
    >>> cause_first("exit status 1:" + chr(10) + 2 * traceback + "KeyError: 1").splitlines()
    ['KeyError: 1', 'exit status 1:', '  File "a", line 1, in f']
    >>> cause_first("no traceback" + chr(10) + "  indented")
    'no traceback\\n  indented'
    """
    lines = text.strip("\n").splitlines()
    if not any(map(FRAME.match, lines)):
        return text.strip()
    kept, frame, last = list[str](), "", -1
    for line in _without_fragment(lines):
        if FRAME.match(line):
            frame = line
        elif not line.strip() or BETWEEN.match(line) or (frame and (line[0].isspace() or line.startswith(CUT))):
            continue
        else:
            if frame:
                kept.append(frame)
                frame, last = "", len(kept)
            kept.append(line)
    if frame:
        return "\n".join([*kept, frame])
    return "\n".join(kept[last:] + kept[:last])


def _without_fragment(lines: list[str]) -> list[str]:
    """Without the rest of a frame whose beginning was cut off, before the first frame: the cut is at dots, or at the beginning."""
    first = next(n for n, line in enumerate(lines) if FRAME.match(line))
    begin = lines[:first]
    if not begin or begin[-1].endswith(":") or lines[first].lstrip().startswith(("at ", "...")):
        return lines
    cut = next((n for n, line in enumerate(begin) if CUT in line), 0)
    head, dots, _ = begin[cut].partition(CUT)
    return [*begin[:cut], *([f"{head}{CUT}"] if dots and head else []), *lines[first:]]
