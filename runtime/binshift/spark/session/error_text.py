"""Reads binshift's errors from the text of a traceback: Spark passes a task's error to the driver as nothing else."""

from __future__ import annotations

import json
import re
from typing import Any

from binshift import errors
from binshift.errors import FIELDS, BinshiftError, LogDamaged

_NAME = re.compile(r"binshift\.errors\.(\w+): ")
_END = re.compile(rf"\n\n|\n\tat |\n{FIELDS}|\Z")
"""What follows a message in the text of a traceback: Java's frames, another traceback, a note."""


def parse(text: str) -> BinshiftError | None:
    """The newest of binshift's errors in the text of a traceback, with its whole message and its fields; None if there is none.

    >>> parse('binshift.errors.LogDamaged: x is torn\\nbinshift: {"file": "x"}').file
    'x'
    """
    named = list(_NAME.finditer(text))[-1:]
    kind = vars(errors).get(named[0][1]) if named else None
    if not (isinstance(kind, type) and issubclass(kind, BinshiftError)):
        return None
    end = _END.search(text, named[0].end())
    error = kind(text[named[0].end() : end.start() if end else None])
    note = re.search(rf"^{FIELDS}(.*)$", text[named[0].end() :], re.MULTILINE)
    if note is not None and isinstance(error, LogDamaged):
        error.about(**_fields(note[1]))
    return error


def _fields(note: str) -> dict[str, Any]:
    """The fields in a note; none if it was cut or is another library's."""
    try:
        found = json.loads(note)
    except ValueError:
        return {}
    kinds = {"file": str, "operator": str, "epoch": int}
    known = isinstance(found, dict) and all(isinstance(value, kinds.get(name, ())) for name, value in found.items())
    return found if known else {}
